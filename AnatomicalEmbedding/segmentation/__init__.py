"""Segmentation from a few examples: an organ outlined in one to ten scans is outlined in all others."""
