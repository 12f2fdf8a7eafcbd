"""Cohorts: many scans embedded once into one folder, then searched, cropped and described together."""
