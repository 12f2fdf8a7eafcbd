"""The same anatomical points in other scans: first by body coordinate, then by descriptors, with a confidence."""

EFFORTS = ("coordinates", "fast", "standard", "thorough")  # of matching, the least first
