"""The same anatomical points in other scans: first by body coordinate, then by descriptors, with a confidence."""
