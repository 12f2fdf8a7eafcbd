"""From a scan to its embedding map: the working grid, the body, the network, and properties of a whole map."""
