"""Training of weights in a process of its own."""
