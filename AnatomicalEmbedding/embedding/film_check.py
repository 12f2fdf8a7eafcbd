"""Recognises films that are no chest films from the front, by their body coordinates.

In a chest film, body coordinates are nearly an affine function of the place. In an inverted, turned or upside-down
film, in a film of another part of the body, and in noise, they are not, or they hardly depend on the place.
"""

import numpy as np

from ..errors import VolumeError
from ..scan.volume import Volume
from .coverage import apply_affine, cell_points, robust_affine
from .map import EmbeddingMap

_LEAST_ACROSS, _LEAST_ALONG = 0.75, 0.52  # mm of the body frame per mm of the film along R and S
_MISFIT_MM = 17.0  # median distance of the coordinates from the affine function; see LOG.md, "Films"


def check_film(embedding: EmbeddingMap, film: Volume) -> None:
    """Raise VolumeError if a film does not look like a chest film from the front. embedding: the map of the film."""
    points, body = cell_points(embedding)
    affine, _ = robust_affine(points, body)
    misfit = np.median(np.linalg.norm((body - apply_affine(affine, points))[:, [0, 2]], axis=1))
    if affine[0, 0] < _LEAST_ACROSS or affine[2, 2] < _LEAST_ALONG or misfit > _MISFIT_MM:
        raise VolumeError(
            f"{film.path or film.name or 'the film'}: does not look like a chest film from the front; check that it is "
            "upright and that dense tissue is bright."
        )
