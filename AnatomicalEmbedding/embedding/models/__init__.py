"""Networks, the registry of weights, and the adapter for the published checkpoint."""
