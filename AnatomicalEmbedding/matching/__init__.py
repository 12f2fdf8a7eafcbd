"""Finds the same anatomical points in other scans, by body coordinates and descriptors, and rates each answer."""

EFFORTS = ("coordinates", "fast", "standard")  # efforts of matching, from least to most work
