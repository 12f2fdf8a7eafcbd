"""Training of weights in a separate process."""
