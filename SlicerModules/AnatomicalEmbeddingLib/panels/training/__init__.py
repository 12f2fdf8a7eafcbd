"""The panel that trains weights."""
