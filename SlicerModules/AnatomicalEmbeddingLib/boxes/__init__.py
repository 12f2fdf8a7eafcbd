"""Boxes of structures, crops of scans to these boxes, and the part of the body that a scan shows."""
