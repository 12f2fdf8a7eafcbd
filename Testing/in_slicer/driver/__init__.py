"""What the scenarios do in a running Slicer, with the mouse and the keys of a person."""
