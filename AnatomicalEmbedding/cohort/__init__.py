"""Cohorts: many scans are embedded once into one folder, and are then searched and exported together."""
