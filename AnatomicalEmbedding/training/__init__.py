"""Training: prepared scans, their common body frame, crops and augmentation, losses, the loop."""
