"""Boxes of structures, crops to them, and which part of the body a scan holds."""
