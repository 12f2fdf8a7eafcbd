"""Mutated input for every reader of files: how it is made, which readers there are, and how they are run."""
