"""The networks, and reading and writing of weights."""
