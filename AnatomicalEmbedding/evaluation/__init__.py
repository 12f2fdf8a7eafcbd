"""Measure accuracy on labelled scans and synthetic patients with published protocols. `anatemb evaluate` uses this."""
