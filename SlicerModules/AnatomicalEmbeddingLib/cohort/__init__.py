"""Cohort: lists the places found in the scans of a cohort, and loads a scan at its place."""
