"""Segment the rest like these: outlines of a few scans learned in a process of its own, and drawn in the others."""
