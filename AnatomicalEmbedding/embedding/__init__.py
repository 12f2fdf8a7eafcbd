"""From a scan to its embedding map: the working grid, the body, the network, and what a map as a whole tells."""
