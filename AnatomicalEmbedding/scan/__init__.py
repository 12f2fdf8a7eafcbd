"""Scans and their files: volumes, DICOM, points, boxes. Coordinates are RAS mm."""
