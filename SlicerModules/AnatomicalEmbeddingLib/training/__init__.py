"""Training of weights in a separate process, controlled from Slicer."""
