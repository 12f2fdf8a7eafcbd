"""Makes the map of a scan: working grid, body mask and network.

It also finds from a map which part of the body the scan shows, at which places the level of the spine is certain, and
whether the scan is stored wrongly.
"""
