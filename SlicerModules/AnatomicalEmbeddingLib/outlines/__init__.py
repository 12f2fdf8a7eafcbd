""" "Segment the rest like these": a separate process learns from the outlines of a few scans and outlines others."""
