"""The table of points and their answers."""
