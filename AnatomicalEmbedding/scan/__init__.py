"""Scans and what lies beside them in files: volumes, DICOM, points, boxes. Coordinates are RAS mm."""
