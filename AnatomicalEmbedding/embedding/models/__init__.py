"""Networks, and the registry of weights."""
