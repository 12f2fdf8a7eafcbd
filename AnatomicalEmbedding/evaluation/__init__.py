"""Measure accuracy on labelled scans and synthetic patients with published protocols. Used by `anatemb evaluate`."""
