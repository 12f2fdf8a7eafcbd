"""Cohort: lists the places found in the scans of a cohort, loads a scan, and shows its place."""
