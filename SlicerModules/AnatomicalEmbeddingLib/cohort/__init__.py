"""Cohort: lists the places that were found in the scans of a cohort, and shows a place in its scan."""
