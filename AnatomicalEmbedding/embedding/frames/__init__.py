"""Frames: the common coordinates of scans of any one kind, such as skulls, without a network.

A frame is the mean image of some scans of a kind. A scan is aligned with it by a search over all rotations, then by an
affine transform and a smooth displacement. The coordinate of a place in the scan is its place in the mean image.
"""
