"""Panels of boxes and crops."""
