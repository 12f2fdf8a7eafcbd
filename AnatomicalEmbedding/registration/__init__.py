"""Registration: finds a transform of the points of one scan to another scan, from matches.

Kinds "rigid" and "affine" are fitted to a grid of matches. "deformable" adds a smooth displacement that follows the
matches, and refines it by comparing the images. The scans need not overlap in space and need no start transform.
"""

RIGID, AFFINE, DEFORMABLE = KINDS = ("rigid", "affine", "deformable")  # in order of flexibility
BY_REGISTRATION, BY_MATCH = "registration", "match"  # how an answer was found
