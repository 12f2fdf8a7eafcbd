"""A smooth displacement through a grid of matches (SAM-coarse of SAME++, Tian 2023, solved instead of descended to).

On top of the affine map: the spline that lies near the matches and is smooth, in the sense of least squares, with
matches that do not fit their neighbours counting less from round to round.
"""

from __future__ import annotations

import numpy as np
import torch

from ..scan.geometry import transform_points
from .affine import GridMatches
from .spline import ROUGHNESS_DIAGONAL, SplineField, conjugate_gradients, roughness

KNOT_MM = 24.0
_SMOOTH = 0.1  # of a match that lies apart, against its neighbours
_KNEE_MM = 4.0  # error at which a match has lost half its weight
_ROUNDS = 4
_STEPS = 40


def fit_field(matches: GridMatches, affine: np.ndarray, low: np.ndarray, high: np.ndarray) -> SplineField:
    """The displacement over the box low..high (RAS mm) of the fixed scan that follows the affine map."""
    shape = matches.lattice.shape
    i, j, k = torch.from_numpy(matches.index.T)
    wanted, trust = torch.zeros(3, *shape), torch.zeros(shape)
    apart = matches.moving_ras - transform_points(affine, matches.fixed_ras)
    wanted[:, k, j, i] = torch.from_numpy(apart.T).float()
    trust[k, j, i] = torch.from_numpy(matches.weight / matches.weight.mean()).float()
    field = SplineField.over(low, high, KNOT_MM)
    basis = field.basis(matches.lattice)
    weight, knots = trust, field.coefficients
    for _ in range(_ROUNDS):
        diagonal = basis.squared().gather(weight[None]) + _SMOOTH * ROUGHNESS_DIAGONAL

        def product(x: torch.Tensor, weight: torch.Tensor = weight) -> torch.Tensor:
            return basis.gather(basis.spread(x) * weight) + _SMOOTH * roughness(x)

        knots = conjugate_gradients(product, basis.gather(wanted * weight), diagonal, _STEPS)
        error = (basis.spread(knots) - wanted).norm(dim=0)
        weight = trust / (1 + (error / _KNEE_MM).square())
    return SplineField(field.low, field.knot_mm, knots)
