"""Registration with ConvexAdam and MIND features, for comparison (Siebert et al., IEEE TMI 2024).

Needs the optional package convexAdam.
"""

import io
import warnings
from collections.abc import Callable
from contextlib import redirect_stdout
from importlib import metadata

import numpy as np
import torch
import torch.nn.functional as F

from AnatomicalEmbedding.embedding.working_grid import resample
from AnatomicalEmbedding.scan.geometry import AIR_HU, transform_points
from AnatomicalEmbedding.structures.labelled_scans import Case

from .elastix import Elastix

_SPACING_MM = 2.0


class ConvexAdam:
    """Registers each pair with `convex_adam_pt` as it comes, on the fixed scan's grid of 2 mm voxels.

    It needs images of one size that lie nearly on each other: elastix affine does that first, and its time counts.

    Raises importlib.metadata.PackageNotFoundError when convexAdam or itk-elastix is not installed.
    """

    def __init__(self) -> None:
        metadata.version("convexAdam")
        self._affine = Elastix()

    def prepare(self, case: Case) -> float:
        """Load the packages and read the scan: no work of the method's own."""
        _load()
        return self._affine.prepare(case)

    def __call__(self, template: Case, points_ras: np.ndarray, target: Case) -> np.ndarray:
        affine = _fitted(self._affine, template, target)
        if affine is None:
            return np.full_like(points_ras, np.nan)
        fixed = resample(template.volume, (_SPACING_MM,) * 3, lattice=1, step=1)
        size = np.array(fixed.hu.shape[::-1])
        k, j, i = np.meshgrid(*(np.arange(n) for n in fixed.hu.shape), indexing="ij")
        grid_ras = transform_points(fixed.grid_to_ras, np.stack([i, j, k], axis=-1).reshape(-1, 3))
        moving = target.volume.sample(transform_points(affine, grid_ras), outside=AIR_HU).reshape(
            fixed.hu.shape
        )
        with warnings.catch_warnings(), redirect_stdout(io.StringIO()):
            warnings.simplefilter("ignore")
            found = _load()(fixed.hu, torch.from_numpy(moving).float(), device=torch.device("cpu"))
        voxels = torch.from_numpy(np.moveaxis(found, 3, 0)[::-1].copy()).float()  # along i, j, k
        at = transform_points(np.linalg.inv(fixed.grid_to_ras), points_ras)
        places = torch.from_numpy((2 * at + 1) / size - 1).float()[None, None, None]
        moved = F.grid_sample(voxels[None], places, align_corners=False, padding_mode="border")[
            0, :, 0, 0
        ].T
        return transform_points(affine, points_ras + moved.double().numpy() * _SPACING_MM)


def _load() -> Callable[..., np.ndarray]:
    """ConvexAdam's own function; it warns of its own ways when imported and when called."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from convexAdam.convex_adam_MIND import convex_adam_pt

    return convex_adam_pt


def _fitted(method: Elastix, template: Case, target: Case) -> np.ndarray | None:
    """(4, 4) of an affine method, from what it does to four points."""
    middle = template.volume.bounds_ras.mean(axis=0)
    asked = middle + 50.0 * np.concatenate([np.zeros((1, 3)), np.eye(3)])
    answers = method(template, asked, target)
    if not np.isfinite(answers).all():
        return None
    affine = np.eye(4)
    affine[:3, :3] = (answers[1:] - answers[0]).T / 50.0
    affine[:3, 3] = answers[0] - affine[:3, :3] @ middle
    return affine
