"""Other methods that need no training: aligning the middles of two bodies, and the registration programs."""

import time
from collections.abc import Mapping
from importlib import metadata

import numpy as np

from AnatomicalEmbedding.embedding.body import body_mask
from AnatomicalEmbedding.embedding.map import EmbeddingMap
from AnatomicalEmbedding.embedding.working_grid import resample
from AnatomicalEmbedding.errors import AnatomicalEmbeddingError
from AnatomicalEmbedding.evaluation.protocol import Matcher
from AnatomicalEmbedding.scan.geometry import transform_points
from AnatomicalEmbedding.scan.volume import Volume
from AnatomicalEmbedding.structures.cross_validation import PeerBoxes
from AnatomicalEmbedding.structures.examples import BoxCase
from AnatomicalEmbedding.structures.labelled_scans import Case
from AnatomicalEmbedding.structures.locating import move_inside

from .ants import AntsSyN
from .elastix import Elastix

BODY_CENTRE = "body centre"
UNION = "union in body coordinates"
ELASTIX_AFFINE = "elastix affine"
ELASTIX_BSPLINE = "elastix affine + B-spline"
ANTS_SYN = "ANTs SyN"
PEERS = (BODY_CENTRE, ELASTIX_AFFINE, ELASTIX_BSPLINE, ANTS_SYN)
REGISTRATION_PEERS = (ELASTIX_AFFINE, ELASTIX_BSPLINE, ANTS_SYN)
_PACKAGES = {
    ELASTIX_AFFINE: "itk-elastix",
    ELASTIX_BSPLINE: "itk-elastix",
    ANTS_SYN: "antspyx",
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
    }
    peers: dict[str, Matcher] = {}
    missing = []
    for name in names:
        try:
            peers[name] = makers[name]()
        except metadata.PackageNotFoundError:
            missing.append(
                f"{name}: not measured, {_PACKAGES[name]} is not installed (pip install {_PACKAGES[name]})."
            )
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


def peer_boxes() -> PeerBoxes:
    """Boxes by other methods from the same examples: joined in body coordinates, and carried over by elastix affine.

    Raises AnatomicalEmbeddingError where elastix is not installed.
    """
    there, missing = make_peers((ELASTIX_AFFINE,))
    if missing:
        raise AnatomicalEmbeddingError(f"{missing[0]} Leave --peers out, or install it.")

    def boxes(
        chosen: Mapping[str, list[BoxCase]], target: BoxCase, maps: Mapping[str, EmbeddingMap]
    ) -> dict[str, dict[str, np.ndarray]]:
        found = {
            name: {UNION: _union(sources, name, maps, maps[target.id])}
            for name, sources in chosen.items()
        }
        for name, box in _registered(there[ELASTIX_AFFINE], chosen, target).items():
            found[name][ELASTIX_AFFINE] = box
        return found

    return boxes


def _union(
    sources: list[BoxCase], name: str, maps: Mapping[str, EmbeddingMap], target: EmbeddingMap
) -> np.ndarray:
    """The examples' boxes joined in the common body, as the box of the target's cells that lie in it."""
    asked = [(maps[case.id], case.structures[name].extremes_ras) for case in sources]
    points = [embedding.sample(move_inside(embedding, extremes)) for embedding, extremes in asked]
    low = np.min([p.min(axis=0) for p in points], axis=0)
    high = np.max([p.max(axis=0) for p in points], axis=0)
    cells, coordinate = target.body_cells
    inside = ((coordinate.numpy() >= low) & (coordinate.numpy() <= high)).all(axis=1)
    if not inside.any():
        inside = np.zeros(len(cells), dtype=bool)
        inside[np.linalg.norm(coordinate.numpy() - (low + high) / 2, axis=1).argmin()] = True
    ras = cells.numpy()[inside] * target.cell_mm + target.cell_to_ras[:3, 3]
    return np.stack([ras.min(axis=0), ras.max(axis=0)])


def _registered(
    elastix: Matcher, chosen: Mapping[str, list[BoxCase]], target: BoxCase
) -> dict[str, np.ndarray]:
    """Extreme points carried by elastix from each example, their boxes' mean."""
    carried: dict[str, list[np.ndarray]] = {}
    for source in {case.id: case for sources in chosen.values() for case in sources}.values():
        names = [name for name, sources in chosen.items() if source in sources]
        points = np.concatenate([source.structures[name].extremes_ras for name in names])
        moved = elastix(source, points, target)
        for name, part in zip(names, np.split(moved, len(names)), strict=True):
            if np.isfinite(part).all():
                carried.setdefault(name, []).append(np.stack([part.min(axis=0), part.max(axis=0)]))
    return {name: np.mean(boxes, axis=0) for name, boxes in carried.items()}
