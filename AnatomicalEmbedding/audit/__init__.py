"""Auditing labelled data sets: which labels of which scans are probably wrong."""
