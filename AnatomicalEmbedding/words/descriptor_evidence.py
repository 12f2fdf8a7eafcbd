"""The evidence of local descriptors: cells look like the structure in other patients, or like its surroundings.

Fisher's linear discriminant (1936): for two classes with means m, n and a common covariance C, the log likelihood ratio
of a descriptor x is w.(x - (m + n) / 2) with w = C^-1 (m - n). A discriminant is (d + 1,): w, then the constant.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import torch

from ..embedding.grid_reading import read_linear
from ..embedding.map import EmbeddingMap
from .grid_weights import Field, Grid

_RIDGE = 0.005  # added to each variance, of descriptors of unit length
_TRUST = 0.6  # of the ratio, as neighbouring cells say nearly the same, and CT numbers a part of it; see RESULTS
_LIMIT = 3.0  # of the ratio


def learn_discriminant(patients: Iterable[tuple[np.ndarray, np.ndarray, np.ndarray]]) -> np.ndarray:
    """The discriminant of one structure; each patient counts alike.

    patients: of each, descriptors inside (n, d) and around (m, d) the structure, and weights (m,) of the latter.
    """
    means, covariances = [], []
    for inside, about, weight in patients:
        pair = [inside.mean(axis=0), np.average(about, axis=0, weights=weight)]
        means.append(pair)
        covariances += [np.cov(inside.T, bias=True), np.cov(about.T, bias=True, aweights=weight)]
    one, other = np.mean(means, axis=0)
    covariance = np.mean(covariances, axis=0) + _RIDGE * np.eye(len(one))
    weights = np.linalg.solve(covariance, one - other)
    return np.append(weights, -weights @ (one + other) / 2).astype(np.float32)


def weighed(grid: Grid, prior: Field, embedding: EmbeddingMap, discriminant: np.ndarray | None) -> Field:
    """The chance of each cell to be in a structure once its descriptor is seen; without descriptors, as before."""
    local = embedding.local
    if local is None or discriminant is None or len(discriminant) != len(local) + 1:
        return prior
    held = prior.values > 0
    if not held.any():
        return prior
    # the local cells about the prior's box: their ratio, read linearly at the grid's cells that may hold the structure
    first = embedding.cell_to_ras[:3, 3] - embedding.cell_mm / 4
    size = np.array(prior.values.shape[::-1])
    low, high = (
        (grid.origin + grid.step * n - first) / (embedding.cell_mm / 2) for n in (prior.first, prior.first + size - 1)
    )
    start = np.clip(np.floor(low).astype(int), 0, np.array(local.shape[:0:-1]) - 1)
    stop = np.clip(np.ceil(high).astype(int) + 1, start + 1, local.shape[:0:-1])
    crop = local[(slice(None), *(slice(a, b) for a, b in zip(start[::-1], stop[::-1], strict=True)))].float()
    weights = torch.from_numpy(discriminant[:-1])
    ratio = torch.tensordot(weights, crop, dims=1) / crop.norm(dim=0).clamp_min(1e-3) + float(discriminant[-1])
    cells = low - start + np.argwhere(held)[:, ::-1] * (grid.step / (embedding.cell_mm / 2))
    read = read_linear(ratio[None, None], torch.from_numpy(cells).float()[None]).numpy().ravel()
    odds = prior.values[held] / (1 - prior.values[held].clip(0, 0.98)) * np.exp(_TRUST * read.clip(-_LIMIT, _LIMIT))
    values = np.zeros_like(prior.values)
    values[held] = odds / (1 + odds)
    return grid.with_values(prior, values)
