"""Makes all files that ship with weights, from a folder of data with an index."""
