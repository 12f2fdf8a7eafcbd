"""Panels of lesion follow-up."""
