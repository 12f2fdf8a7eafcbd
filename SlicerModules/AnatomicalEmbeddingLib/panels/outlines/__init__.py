"""The panel that outlines the rest of the scans like a few examples."""
