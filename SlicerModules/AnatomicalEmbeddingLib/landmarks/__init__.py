"""Points of one scan, found in others."""
