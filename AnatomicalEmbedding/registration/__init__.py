"""Registration from matches: where every point of one scan lies in another.

`affine`: a map fitted to a grid of matches. `coarse`: a smooth displacement through them. `instance`: refinement by the
images. Matches need neither overlap nor a start.
"""

RIGID, AFFINE, COARSE, DEFORMABLE = KINDS = ("rigid", "affine", "coarse", "deformable")  # each continues the one before
