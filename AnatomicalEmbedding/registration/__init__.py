"""Registration from matches: where every point of one scan lies in another, step by step finer.

`affine`: a grid of matches made to agree. `coarse`: a smooth displacement through them. `instance`: the images
themselves, from there on. Maps do the part that images cannot: they need no overlap and no start.
"""

RIGID, AFFINE, COARSE, DEFORMABLE = KINDS = ("rigid", "affine", "coarse", "deformable")  # each goes on from the last
