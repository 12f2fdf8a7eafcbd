"""Makes the map of a scan: working grid, body mask and network. Also finds properties of a whole map."""
