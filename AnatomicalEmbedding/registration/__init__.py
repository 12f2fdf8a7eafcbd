"""Registration from matches: a map of the points of one scan to another scan.

`affine`: a map fitted to a grid of matches. `coarse`: a smooth displacement through them. `instance`: refinement by the
images. Matches need neither overlap nor a start.
"""

RIGID, AFFINE, COARSE, DEFORMABLE = KINDS = ("rigid", "affine", "coarse", "deformable")  # each continues the one before
