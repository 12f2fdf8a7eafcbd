"""Makes the map of a scan: working grid, body mask and network.

It also finds from a map which part of the body the scan shows, and whether the scan is stored wrongly.
"""
