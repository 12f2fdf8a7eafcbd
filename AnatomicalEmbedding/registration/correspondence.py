"""Correspondence: where every point of one scan lies in another scan of the same patient, with the expected error.

`pair` registers the two scans, in both directions. After that, answers are read from the stored grids. Neither the
scans nor their maps are needed.
"""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from typing import Any, Self

import numpy as np
import torch

from ..embedding.calibration import SUFFIX, Calibration
from ..embedding.grid_reading import read_rows, rows_of
from ..embedding.map import EmbeddingMap, check_inside
from ..embedding.map_file import check_matrices
from ..embedding.tensor_files import (
    DAMAGED,
    NewerFormatError,
    check_size,
    read_tensor_file,
    write_tensor_file,
)
from ..errors import CancelCallback, MapError, ProgressCallback, stoppable
from ..fields.spline import Lattice
from ..matching.match import Matches
from ..matching.status import ABSENT, UNCERTAIN, decide
from ..resources import resource
from ..scan.geometry import in_grid, mm_to_sides, transform_points
from ..scan.points import as_points
from ..scan.volume import Volume
from . import BY_REGISTRATION
from .affine import match_grid
from .agreement import (
    EVIDENCE,
    STORED,
    Picture,
    check_matches,
    check_measures,
    evidence_at_nodes,
    measure,
)
from .pairing import STEPS_MM, Coarse, Places, join_directions

_METADATA_KEY = "anatomical_embedding_correspondence"
FORMAT_VERSION = 3
_FAR_MM = 20.0  # largest distance from an edge in the evidence
_HIGHEST = 0.99  # highest probability that is stated
_LEAST_PRESENT = 0.05  # errors are divided by this probability at least; by hand
_RARE = 0.17  # the calibration has 6 times as much changed tissue as usual scans; only probabilities are corrected
FOREST = "same patient"  # name of the forest in the calibration
_REAL = 1.5  # errors at the landmarks of two real scans, relative to copies of scans, from which the forest is learned
# How far changed tissue extends is read at these places around a point, mm: 6 directions, at 4 distances
_SHELL_MM, _SHELLS = 5.0, 4
_CHANGED = 0.5  # tissue with a lower probability to be the same has changed
# share of this depth that is added to the stated error; it then holds 4 of 5 true errors
_DEPTH = 0.8
_AROUND = np.concatenate([np.eye(3), -np.eye(3)])  # the 6 directions


@dataclass(frozen=True, eq=False)
class Direction:
    """The answers for the points of one scan.

    Args:
        scan_hash: hash of the scan, whose name is not kept.
        scan_to_ras: (4, 4) voxel i, j, k of the scan -> RAS mm. scan_shape: (k, j, i).
        affine: (4, 4) RAS mm of the scan -> RAS mm of the other scan.
        lattice: k x j x i nodes in the body.
        values: (3 + len(STORED), k, j, i) float16 at the nodes: the displacement after the affine transform, mm, then
            the evidence.
    """

    scan_hash: str
    scan_to_ras: np.ndarray
    scan_shape: tuple[int, int, int]
    affine: np.ndarray
    lattice: Lattice
    values: torch.Tensor

    @classmethod
    def of(
        cls, embedding: EmbeddingMap, affine: np.ndarray, nodes: Places, evidence: torch.Tensor
    ) -> Self:
        """Make the answers of a scan from the answers at its nodes.

        Args:
            embedding: map of the scan.
            affine: (4, 4) RAS mm, from the scan to the other scan.
            nodes: the answers at the nodes.
            evidence: (len(STORED), k, j, i), their evidence.
        """
        scan_hash = embedding.provenance.scan_hash
        moved = nodes.places - nodes.lattice.through(affine)
        values = torch.cat([moved, evidence]).half()
        return cls(
            scan_hash, embedding.scan_to_ras, embedding.scan_shape, affine, nodes.lattice, values
        )

    @cached_property
    def rows(self) -> torch.Tensor:
        """The values as `read_rows` needs them."""
        return rows_of(self.values.float())

    def voxels(self, points_ras: np.ndarray) -> np.ndarray:
        """Convert points (n, 3) RAS mm to voxel indices i, j, k of the scan."""
        return transform_points(np.linalg.inv(self.scan_to_ras), points_ras)

    def edge_mm(self, points_ras: np.ndarray) -> np.ndarray:
        """Measure mm (n,) from points (n, 3) RAS mm to the nearest side of the scan: -20 to 20, negative outside."""
        inside = mm_to_sides(self.voxels(points_ras), self.scan_to_ras, self.scan_shape)
        return np.clip(inside.min(axis=1), -_FAR_MM, _FAR_MM)

    def at(self, points_ras: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the answers (n, 3) RAS mm at points (n, 3) RAS mm, and their evidence (n, len(STORED))."""
        index = (points_ras - self.lattice.origin_ras) / self.lattice.spacing_mm
        values = read_rows(self.rows, self.values.shape[1:], torch.from_numpy(index))
        values = values.double().numpy()
        return transform_points(self.affine, points_ras) + values[:, :3], values[:, 3:]


@dataclass(frozen=True, eq=False)
class Correspondence:
    """Where the points of a template lie in a target that shows the same patient.

    forward: answers for the points of the template. backward: answers for the points of the target.
    """

    forward: Direction
    backward: Direction
    found_by = BY_REGISTRATION
    refusal = ""

    def points(self, points_ras: np.ndarray) -> Matches:
        """Find points of the template in the target.

        Args:
            points_ras: (N, 3) RAS mm in the template.

        Returns:
            The answers, as `matching.match.match` returns them. The evidence has the columns `agreement.EVIDENCE`. If
            tissue is new or gone, the status is "uncertain"; it is "absent" only outside the target.

        Raises:
            PointsError: a point lies outside the template.
        """
        points = as_points(points_ras)
        is_inside = in_grid(self.forward.voxels(points), self.forward.scan_shape)
        check_inside(points, is_inside, "the template")
        places, evidence = self._answers(points)
        score = np.clip(evidence[:, EVIDENCE.index("similarity")], 0, 1)
        if not len(places):
            return Matches(places, score)
        outside = evidence[:, EVIDENCE.index("edge")] < 0
        # the columns of the forest: three probabilities and an error in mm
        predictions = calibration().forests[FOREST].predict(evidence).T
        # probabilities that the tissue is there, and that the answer is within 10 and 20 mm
        shares = np.where(outside, 0.0, predictions[:3])
        present = shares[0]
        expected_mm = _REAL * predictions[3] / np.maximum(present, _LEAST_PRESENT)
        expected_mm = expected_mm + self._unknown_mm(points, present)
        # the forest saw more changed tissue than usual scans have: make it rarer (Bayes' rule)
        rare = 1 / (present + (1 - present) * _RARE)
        stated, within_10, within_20 = np.clip(shares * rare, 1 - _HIGHEST, _HIGHEST)
        status = decide(present, expected_mm)
        # the target shows the place, but its tissue has changed
        status[(status == ABSENT) & ~outside] = UNCERTAIN
        return Matches(
            places,
            score,
            status,
            expected_mm,
            within_10,
            within_20,
            stated,
            evidence,
            levels=np.full(len(places), "", "<U10"),
        )

    def _unknown_mm(self, points_ras: np.ndarray, present: np.ndarray) -> np.ndarray:
        """Estimate what is not known about points (N, 3) RAS mm in changed tissue, (N,) mm, from their depth in it.

        Nothing says where a point of tissue that grew, shrank or was treated lies between the borders of this tissue.
        present: (N,) probability that the tissue at each point is the same in both scans.
        """
        unknown = np.zeros(len(present))
        changed = np.flatnonzero(present < _CHANGED)
        if not len(changed):
            return unknown
        # chance that the tissue has changed from the point out to the shell
        all_changed = 1 - present[changed]
        unknown[changed] = all_changed * _SHELL_MM
        for shell in range(1, _SHELLS + 1):
            around = points_ras[changed, None] + _AROUND * (shell * _SHELL_MM)
            _, evidence = self._answers(around.reshape(-1, 3))
            present_around = calibration().forests[FOREST].predict(evidence)[:, 0]
            all_changed *= 1 - present_around.reshape(len(changed), -1).mean(axis=1)
            unknown[changed] += all_changed * _SHELL_MM
        return _DEPTH * unknown

    def _answers(self, points_ras: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return answers (N, 3), RAS mm in the target, and their evidence (N, len(EVIDENCE)), float32.

        points_ras: (N, 3) RAS mm; outside the template, the answers of its border are continued.
        """
        places, stored = self.forward.at(points_ras)
        return places, np.column_stack([stored, self.backward.edge_mm(places)]).astype(np.float32)

    def inverse(self) -> Correspondence:
        """Return the correspondence from the target to the template."""
        return Correspondence(self.backward, self.forward)

    def prepare(self) -> None:
        """Convert the answers of both directions to the numbers that are interpolated."""
        for direction in (self.forward, self.backward):
            _ = direction.rows

    def save(self, path: str | Path) -> None:
        """Write a .safetensors file, complete or not at all. Raises MapError if the file cannot be written."""
        tensors = {}
        metadata: dict[str, Any] = {"format_version": FORMAT_VERSION}
        for name, part in vars(self).items():
            matrices = np.stack([part.scan_to_ras, part.affine])
            tensors[f"{name}.matrices"] = torch.from_numpy(matrices)
            tensors[f"{name}.values"] = part.values
            metadata[name] = [
                part.scan_hash,
                part.scan_shape,
                part.lattice.origin_ras,
                part.lattice.spacing_mm,
            ]
        write_tensor_file(path, tensors, {_METADATA_KEY: json.dumps(metadata)}, MapError)

    @classmethod
    def load(cls, path: str | Path) -> Correspondence:
        """Read a file written by `save`. Raises MapError if the file is missing, damaged or of another version."""
        try:
            metadata, tensors = read_tensor_file(path, _METADATA_KEY, FORMAT_VERSION)
            forward = _read("forward", metadata["forward"], tensors)
            backward = _read("backward", metadata["backward"], tensors)
            return cls(forward, backward)
        except (*DAMAGED, NewerFormatError):
            raise MapError(
                f"{path}: is missing, damaged, or was written by another version; pair the two scans again."
            ) from None


def _read(key: str, entry: list[Any], tensors: dict[str, torch.Tensor]) -> Direction:
    """Read and check one direction. entry: as `Correspondence.save` writes it."""
    scan_hash, shape, origin, spacing = entry
    matrices = tensors[f"{key}.matrices"]
    values = tensors[f"{key}.values"]
    check_size(matrices, (2, 4, 4), torch.float64)
    check_matrices(torch.eye(4, dtype=torch.float64)[None], matrices[:1])
    check_size(values, (3 + len(STORED), None, None, None), torch.float16)
    x, y, z = map(float, origin)
    dx, dy, dz = map(float, spacing)
    k, j, i = map(int, shape)
    if min(dx, dy, dz, k, j, i) <= 0:
        raise ValueError("a scan or a lattice cannot have this size")
    lattice = Lattice((x, y, z), (dx, dy, dz), tuple(values.shape[:0:-1]))
    scan_to_ras, affine = matrices.numpy()
    return Direction(str(scan_hash), scan_to_ras, (k, j, i), affine, lattice, values)


@cache
def calibration() -> Calibration:
    """Read the calibration of correspondences, which ships with the weights."""
    return Calibration.load(resource("Models") / f"same-patient{SUFFIX}")


def pair(
    template: Volume,
    target: Volume,
    template_map: EmbeddingMap,
    target_map: EmbeddingMap,
    *,
    progress: ProgressCallback | None = None,
    cancelled: CancelCallback | None = None,
) -> Correspondence:
    """Find where every point of the template lies in the target, and the reverse.

    Args:
        template, target: two scans of one patient.
        template_map, target_map: their maps, made with the same weights.
        progress: called with the share of work done (0 to 1) and the name of the step, from two threads.
        cancelled: called between steps, from two threads. If it returns True, the work stops.

    Raises:
        NotSamePatientError: the two scans do not show one patient, or share too little of the body.
        MapError: the maps were made with different weights, or a scan shows no body.
        CancelledError: `cancelled` returned True.
    """
    directions, measured = register_both_ways(
        (template, target), (template_map, target_map), progress, cancelled
    )
    check_measures(measured)
    return directions


def register_both_ways(
    volumes: tuple[Volume, Volume],
    maps: tuple[EmbeddingMap, EmbeddingMap],
    progress: ProgressCallback | None = None,
    cancelled: CancelCallback | None = None,
) -> tuple[Correspondence, dict[str, float]]:
    """Register two scans, whether they show one patient or not. Errors: as in `pair`.

    Args:
        volumes, maps: of the template and the target.
        progress, cancelled: as in `pair`.

    Returns:
        The correspondence, and what `agreement.measure` measured.
    """

    message = "pairing the two scans was stopped; nothing was written."
    step = stoppable(progress, cancelled, message)
    with ThreadPoolExecutor(2) as threads:
        step(0.0, "matching")
        # lists have one entry for each direction: template -> target, and back
        matches = list(threads.map(match_grid, maps, maps[::-1], (STEPS_MM, STEPS_MM)))
        check_matches(matches)
        coarse = []
        for direction, volume in zip(matches, volumes, strict=True):
            step(0.1, "fitting")
            coarse.append(Coarse.of(direction, volume))
        places = join_directions(coarse, volumes, maps, threads, step)
        step(0.8, "measuring the agreement")
        pictures = list(threads.map(Picture.of, volumes, maps))
        nodes = [places[n].on(pictures[n].nodes) for n in range(2)]
        evidence = list(threads.map(evidence_at_nodes, pictures, pictures[::-1], nodes))
    measured = measure(matches, evidence, pictures, nodes)
    step(1.0, "done")
    forward, backward = (
        Direction.of(maps[n], coarse[n].affine, nodes[n], evidence[n]) for n in range(2)
    )
    return Correspondence(forward, backward), measured
