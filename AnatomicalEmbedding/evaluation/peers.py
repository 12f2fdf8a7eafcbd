"""Peers that need no training, measured beside the engine: body-centre alignment and registration programs."""

from __future__ import annotations

import time
from importlib import metadata

import numpy as np

from ..embedding.body import body_mask
from ..embedding.working_grid import resample
from ..scan.geometry import transform_points
from ..scan.volume import Volume
from ..structures.labelled_scans import Case
from .ants import AntsSyN
from .convex_adam import ConvexAdam
from .elastix import Elastix
from .protocol import Matcher

BODY_CENTRE = "body centre"
ELASTIX_AFFINE = "elastix affine"
ELASTIX_BSPLINE = "elastix affine + B-spline"
ANTS_SYN = "ANTs SyN"
CONVEX_ADAM = "elastix affine + ConvexAdam"
PEERS = (BODY_CENTRE, ELASTIX_AFFINE, ELASTIX_BSPLINE, ANTS_SYN)
REGISTRATION_PEERS = (ELASTIX_AFFINE, ELASTIX_BSPLINE, ANTS_SYN, CONVEX_ADAM)
_PACKAGES = {
    ELASTIX_AFFINE: "itk-elastix",
    ELASTIX_BSPLINE: "itk-elastix",
    ANTS_SYN: "antspyx",
    CONVEX_ADAM: "itk-elastix convexAdam",
}

_BODY_SPACING_MM = (4.0, 4.0, 4.0)


def make_peers(names: tuple[str, ...] = PEERS) -> tuple[dict[str, Matcher], tuple[str, ...]]:
    """Return the peers that can run here, by name, and a sentence for each one that cannot.

    names: of PEERS or REGISTRATION_PEERS. Raises KeyError for another name.
    """
    makers = {
        BODY_CENTRE: BodyCentre,
        ELASTIX_AFFINE: Elastix,
        ELASTIX_BSPLINE: lambda: Elastix(deformable=True),
        ANTS_SYN: AntsSyN,
        CONVEX_ADAM: ConvexAdam,
    }
    peers: dict[str, Matcher] = {}
    missing = []
    for name in names:
        try:
            peers[name] = makers[name]()
        except metadata.PackageNotFoundError:
            missing.append(f"{name}: not measured, {_PACKAGES[name]} is not installed (pip install {_PACKAGES[name]}).")
    return peers, tuple(missing)


class BodyCentre:
    """Moves points by the shift between the centres of the two bodies: what knowing nothing but the body gives."""

    def __init__(self) -> None:
        self._centres: dict[str, np.ndarray] = {}

    def prepare(self, case: Case) -> float:
        """Find the scan's body centre unless it is known; return the seconds it took."""
        if case.id in self._centres:
            return 0.0
        volume = case.volume
        start = time.perf_counter()
        self._centres[case.id] = body_centre(volume)
        return time.perf_counter() - start

    def __call__(self, template: Case, points_ras: np.ndarray, target: Case) -> np.ndarray:
        self.prepare(template)
        self.prepare(target)
        return points_ras + self._centres[target.id] - self._centres[template.id]


def body_centre(volume: Volume) -> np.ndarray:
    """(3,) RAS mm: centre of mass of the body, or the middle of the scan where there is no body."""
    grid = resample(volume, _BODY_SPACING_MM, lattice=1, step=1)
    inside = np.argwhere(body_mask(grid.hu.numpy(), grid.spacing_mm))
    if not len(inside):
        return volume.bounds_ras.mean(axis=0)
    return transform_points(grid.grid_to_ras, inside.mean(axis=0)[None, ::-1])[0]
