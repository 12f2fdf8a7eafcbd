"""Relations between two scans: where every point of one scan lies in the other scan.

`relate` (module `relate`) chooses the kind of relation of two scans. Commands, Python functions, 3D Slicer and the
viewer ask only this function.
"""
