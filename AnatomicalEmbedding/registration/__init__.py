"""Registration: finds a transform of the points of one scan to another scan, from matches.

Kind "affine" is fitted to a grid of matches. "coarse" adds a smooth displacement that follows the matches. "deformable"
refines the displacement by comparing the images. The scans need not overlap in space and need no start transform.
"""

RIGID, AFFINE, COARSE, DEFORMABLE = KINDS = ("rigid", "affine", "coarse", "deformable")  # in order of flexibility
BY_REGISTRATION, BY_MATCH = "registration", "match"  # how an answer was found
