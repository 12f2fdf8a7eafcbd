"""Registers two scans: matching, fit of a transform, and refinement by comparing the images."""

import math
from dataclasses import replace

import numpy as np
import torch

from ..embedding.map import EmbeddingMap
from ..errors import AnatomicalEmbeddingError, ProgressCallback
from ..fields.spline import ROUGHNESS_DIAGONAL, SplineField, conjugate_gradients, roughness
from ..scan.geometry import transform_points
from ..scan.volume import Volume
from . import AFFINE, DEFORMABLE, KINDS, RIGID
from .affine import GridMatches, fit_affine, match_grid
from .instance_optimisation import refine
from .transform import Registration

KNOT_MM = 24.0  # by hand: as far apart as the matches
_SMOOTH = 0.1  # weight of the spline's smoothness, relative to the weight of a match
_KNEE_MM = 4.0  # a match with this error has half its weight
_ROUNDS = 4  # of the fit, each with weights from the one before; by hand
_STEPS = 40  # of conjugate gradients in a fit; by hand


def fit_field(
    matches: GridMatches,
    affine: np.ndarray,
    low: np.ndarray,
    high: np.ndarray,
    smooth: float = _SMOOTH,
    knee_mm: float = _KNEE_MM,
    rounds: int = _ROUNDS,
    steps: int = _STEPS,
    knot_mm: float = KNOT_MM,
) -> SplineField:
    """Fit a displacement field that corrects `affine` at the matches.

    The displacements of the matches lie on their lattice, with the weight 0 where there is no match. Each round solves
    a linear equation for the knots of the spline.

    Args:
        matches: the matches.
        affine: (4, 4) RAS mm fixed -> moving.
        low, high: corners of the field's box, RAS mm.
        smooth: weight of the roughness of the field.
        knee_mm: a match that is this far from the field has half of its weight.
        rounds: number of fits; the weights of each follow from the one before.
        steps: largest number of steps of each fit.
        knot_mm: distance of the field's knots.
    """
    displacement, trust = _on_lattice(matches, affine)
    field = SplineField.over(low, high, knot_mm)
    basis = field.basis(matches.lattice)
    weight = trust
    knots = field.coefficients
    # (basis' weight basis + smooth roughness) knots = basis' weight displacement, where basis' is `gather`
    for _ in range(rounds):
        diagonal = basis.squared().gather(weight) + smooth * ROUGHNESS_DIAGONAL
        right = basis.gather(displacement * weight)

        def product(x: torch.Tensor, weight: torch.Tensor = weight) -> torch.Tensor:
            """Multiply the matrix of the equation by knots x."""
            return basis.gather(basis.spread(x) * weight) + smooth * roughness(x)

        knots = conjugate_gradients(product, right, diagonal, steps)
        error_mm = ((basis.spread(knots) - displacement) * (trust > 0)).norm(dim=0)
        weight = trust / (1 + (error_mm / knee_mm).square())
    return SplineField(field.low, field.knot_mm, knots)


def _on_lattice(matches: GridMatches, affine: np.ndarray) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the displacements (3, k, j, i) after an affine transform, and their weights, on the lattice of matches."""
    i, j, k = torch.from_numpy(matches.index.T)
    displacement = torch.zeros(3, *matches.lattice.shape)
    trust = torch.zeros_like(displacement)
    offset_mm = matches.moving_ras - transform_points(affine, matches.fixed_ras)
    displacement[:, k, j, i] = torch.from_numpy(offset_mm.T).float()
    trust[:, k, j, i] = torch.from_numpy(matches.weight / matches.weight.mean()).float()
    height_known = np.broadcast_to(matches.height_known, len(offset_mm))
    trust[2, k, j, i] *= torch.from_numpy(height_known.astype(np.float32))
    return displacement, trust


def register(
    maps: tuple[EmbeddingMap, EmbeddingMap],
    volumes: tuple[Volume, Volume],
    kind: str = DEFORMABLE,
    device: torch.device | str = "cpu",
    step: ProgressCallback = lambda share, what: None,
) -> Registration:
    """Register two scans.

    Args:
        maps, volumes: fixed scan first, then moving scan. The scans may show different parts of the body.
        kind: "rigid", "affine" or "deformable" (a smooth displacement that follows the matches, refined by comparing
            the images).
        step: called with the share of work done (0 to 1) and the name of the step; may raise CancelledError to stop.

    Raises:
        MapError: the maps were made with different weights, or with weights that know no body, or a scan shows none.
        AnatomicalEmbeddingError: the kind is unknown, or the scans have too few places in common.
    """
    if kind not in KINDS:
        raise AnatomicalEmbeddingError(
            f"there is no kind of registration {kind!r}; choose one of {', '.join(KINDS)}."
        )
    fixed, moving = volumes
    maps[0].check_patient()
    step(0.0, "matching")
    matches = match_grid(*maps, uncertain_levels=True)
    step(0.4, "fitting")
    affine = fit_affine(matches, RIGID if kind == RIGID else AFFINE)
    field = None
    if kind == DEFORMABLE:
        field = fit_field(matches, affine, *fixed.bounds_ras)
        device = torch.device(device)
        if device.type == "mps":  # grid_sample on mps does not support 3-D
            device = torch.device("cpu")
        field = refine(
            field,
            affine,
            volumes,
            maps,
            device,
            lambda share: step(0.5 + share / 2, "comparing the images"),
        )
    step(1.0, "done")
    registration = Registration(
        kind, affine, field, fixed.name, moving.name, len(matches.fixed_ras), matches.tried
    )
    offset_mm = registration.transform_points(matches.fixed_ras) - matches.moving_ras
    offset_mm[:, 2] *= matches.height_known  # 0 for a match at an uncertain height
    distance_mm = float(np.median(np.linalg.norm(offset_mm, axis=1)))
    spine_mm = spine_distance_mm(registration, *maps)
    return replace(registration, distance_mm=distance_mm, spine_mm=spine_mm)


def spine_distance_mm(
    registration: Registration, fixed: EmbeddingMap, moving: EmbeddingMap
) -> float:
    """Return how far the spines lie apart in the axial plane, mm; NaN if the scans show no common part of the spine.

    This is the 90th percentile of the distances at the places of the fixed spine within the height of the moving one.

    The courses of the spines are found in each scan alone, so they judge a fit to matches from outside.

    Args:
        registration: from the fixed to the moving scan.
        fixed, moving: maps of the scans.
    """
    if fixed.spine is None or moving.spine is None:
        return math.nan
    moved = registration.transform_points(fixed.spine.course)
    low, *_, high = moving.spine.course[:, 2]
    moved = moved[(moved[:, 2] >= low) & (moved[:, 2] <= high)]
    if not len(moved):
        return math.nan
    right, ahead = moving.spine.middle_at(moved[:, 2])
    beside = np.stack([moved[:, 0] - right, moved[:, 1] - ahead])
    return float(np.quantile(np.linalg.norm(beside, axis=0), 0.9))
