"""Recognises films that are no chest films from the front, by their body coordinates.

In a chest film, body coordinates are nearly an affine function of the place. In a film of another kind and in noise,
they are not, or the function is unusual, or it fits better if the film is inverted or turned upside down. The limits
were chosen with JSRT films and projections; see LOG.md, "Films".
"""

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from ..errors import VolumeError
from ..scan.volume import Film, Volume
from .coverage import apply_affine, cell_points, robust_affine
from .map import EmbeddingMap

# usual mm of the body frame per mm of the film: limits along R, and least along S
_ACROSS, _LEAST_ALONG = (0.75, 1.15), 0.52
# largest; films from the side seem sheared; chosen on 120 films of JSRT, like the limits above
_SHEAR = 0.15
# with a larger misfit, a film is refused; is compared with changed copies
_MISFIT_MM, _DOUBTFUL_MM = 17.0, 11.0
_COPIES: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "inverted": lambda grey: grey.max() - grey,
    "upside down": lambda grey: np.ascontiguousarray(grey[:, ::-1, ::-1]),
}


def _fit(embedding: EmbeddingMap) -> tuple[float, bool]:
    """Fit an affine function to the coordinates of a film.

    Returns the median distance of the coordinates from the function, mm along R and S, and whether the function is a
    usual one for a chest film.
    """
    points, body = cell_points(embedding)
    affine, _ = robust_affine(points, body)
    distances = np.linalg.norm((body - apply_affine(affine, points))[:, [0, 2]], axis=1)
    misfit_mm = float(np.median(distances))
    # about the change of the angle between R and S, in radians; 0 for a film that is only turned
    shear = affine[0, 2] + affine[2, 0]
    is_scaled = _ACROSS[0] <= affine[0, 0] <= _ACROSS[1] and affine[2, 2] >= _LEAST_ALONG
    return misfit_mm, is_scaled and abs(shear) <= _SHEAR and misfit_mm <= _MISFIT_MM


def check_film(
    embedding: EmbeddingMap, film: Film, embed: Callable[[Volume], EmbeddingMap]
) -> None:
    """Raise VolumeError if a film does not look like a chest film from the front.

    Args:
        embedding: the map of the film.
        film: the film.
        embed: computes the maps of changed copies of the film.
    """
    misfit_mm, is_usual = _fit(embedding)
    hint = "" if is_usual else "check the kind of film, and its size in mm"
    if misfit_mm > _DOUBTFUL_MM:
        for kind in _COPIES:
            if _misfit_of_copy(kind, film, embed) < misfit_mm:
                hint = f"it is more like one if it is {kind}"
                break
    if hint:
        raise VolumeError(
            f"{film.where}: does not look like a chest film from the front; {hint}. The film "
            "must be upright, with dense tissue bright."
        )


def _misfit_of_copy(kind: str, film: Film, embed: Callable[[Volume], EmbeddingMap]) -> float:
    """Return the misfit, mm, of a changed copy of a film. kind: in _COPIES."""
    copy = replace(film, voxels=_COPIES[kind](film.voxels))
    try:
        misfit_mm, _ = _fit(embed(copy))
    except VolumeError:  # the copy shows nothing
        return np.inf
    return misfit_mm
