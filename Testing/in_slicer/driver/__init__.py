"""Functions with which the scenarios use the mouse and the keys of a running 3D Slicer."""
