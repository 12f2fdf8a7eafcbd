"""Places that were found in the scans of a cohort, and those scans loaded at them."""
