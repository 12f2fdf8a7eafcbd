"""Boxes of structures, crops to them, and what part of the body a scan holds."""
