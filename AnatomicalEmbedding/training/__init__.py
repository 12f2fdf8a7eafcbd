"""Training: preparing scans, placing them in the common body frame, crops, losses, the loop, calibration."""
