"""Correspondence: where every point of one scan lies in another scan of the same patient, with the expected error.

`pair` registers the two scans, in both directions. After that, answers are read from the stored grids. Neither the
scans nor their maps are needed.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from typing import Any, Self

import numpy as np
import torch

from ..embedding.calibration import SUFFIX, Calibration
from ..embedding.grid_reading import read_linear
from ..embedding.map import EmbeddingMap, as_points
from ..embedding.map_file import check_matrices
from ..embedding.tensor_files import DAMAGED, NewerFormatError, check_size, read_tensor_file, write_tensor_file
from ..errors import CancelledError, MapError, PointsError
from ..matching.match import Matches
from ..matching.status import decide
from ..resources import resource
from ..scan.geometry import in_grid, transform_points
from ..scan.volume import Volume
from . import agreement
from .agreement import EVIDENCE, STORED, Picture
from .pairing import WAYS, Places, fit_coarse, join_directions
from .spline import Lattice

_METADATA_KEY = "anatomical_embedding_correspondence"
_FORMAT_VERSION = 1
_STEP_MM = 1 / 64  # displacements are stored in steps of this size
_FAR_MM = 60.0  # largest stated distance from the edge of a scan
_HIGHEST = 0.99  # highest probability that is stated
_LEAST_PRESENT = 0.05
FOREST = "same patient"  # name of the forest in the calibration


@dataclass(frozen=True, eq=False)
class Frame:
    """The geometry of a scan. to_ras: (4, 4) voxel i, j, k -> RAS mm. shape: (k, j, i). scan_hash: of its content."""

    name: str
    scan_hash: str
    to_ras: np.ndarray
    shape: tuple[int, int, int]

    @classmethod
    def of(cls, embedding: EmbeddingMap) -> Self:
        """Read the geometry from the map of a scan."""
        made = embedding.provenance
        return cls(made.scan, made.scan_hash, embedding.scan_to_ras, embedding.scan_shape)

    def voxels(self, points_ras: np.ndarray) -> np.ndarray:
        """Convert points (n, 3) RAS mm to voxel indices i, j, k."""
        return transform_points(np.linalg.inv(self.to_ras), points_ras)

    def edge_mm(self, points_ras: np.ndarray) -> np.ndarray:
        """Measure mm (n,) from points (n, 3) RAS mm to the nearest side of the scan: -60 to 60, negative outside."""
        ijk = self.voxels(points_ras)
        inside = np.minimum(ijk + 0.5, np.array(self.shape[::-1]) - 0.5 - ijk)
        return np.clip((inside * np.linalg.norm(self.to_ras[:3, :3], axis=0)).min(axis=1), -_FAR_MM, _FAR_MM)


@dataclass(frozen=True, eq=False)
class Answers:
    """The answers for the points of one scan.

    Args:
        affine: (4, 4) RAS mm -> RAS mm.
        lattice: k x j x i nodes in the scan.
        moved: (3, k, j, i) int16, displacements that are added after the affine transform, in steps of 1 / 64 mm.
        evidence: (len(STORED), k, j, i) uint8, from `agreement.encode`.
    """

    affine: np.ndarray
    lattice: Lattice
    moved: torch.Tensor
    evidence: torch.Tensor

    @classmethod
    def of(cls, affine: np.ndarray, nodes: Places, evidence: torch.Tensor) -> Self:
        """Round answers and their evidence, (len(STORED), k, j, i), to stored values."""
        steps = ((nodes.places - nodes.lattice.through(affine)) / _STEP_MM).round().clamp(-32767, 32767)
        return cls(affine, nodes.lattice, steps.short(), agreement.encode(evidence))

    @cached_property
    def _values(self) -> torch.Tensor:
        return torch.cat([self.moved.float() * _STEP_MM, agreement.decode(self.evidence)])

    def at(self, points_ras: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the answers (n, 3) RAS mm at points (n, 3) RAS mm, and their evidence (n, len(STORED))."""
        index = (points_ras - self.lattice.origin_ras) / self.lattice.spacing_mm
        read = read_linear(self._values[None], torch.from_numpy(index).float()[None])[0].double().numpy()
        return transform_points(self.affine, points_ras) + read[:, :3], read[:, 3:]


@dataclass(frozen=True, eq=False)
class Correspondence:
    """Where the points of a template lie in a target that shows the same patient.

    Args:
        template, target: geometry of the two scans.
        forward: answers for points of the template. backward: answers for points of the target.
    """

    template: Frame
    target: Frame
    forward: Answers
    backward: Answers

    def points(self, points_ras: np.ndarray) -> Matches:
        """Find points of the template in the target.

        Args:
            points_ras: (N, 3) RAS mm in the template.

        Returns:
            The answers, as `matching.match.match` returns them. The evidence has the columns `agreement.EVIDENCE`. If
            tissue is new or gone, the status is "uncertain" or "absent".

        Raises:
            PointsError: a point lies outside the template.
        """
        places, evidence = self.read(points_ras)
        score = np.clip(evidence[:, EVIDENCE.index("similarity")], 0, 1)
        if not len(places):
            return Matches(places, score)
        present, within, near, error = calibration().forests[FOREST].predict(evidence).T
        outside = evidence[:, EVIDENCE.index("edge")] < 0
        present, within, near = (np.where(outside, 0.0, share) for share in (present, within, near))
        expected = error / np.maximum(present, _LEAST_PRESENT)
        within, near = (np.clip(share, 1 - _HIGHEST, _HIGHEST) for share in (within, near))
        levels = np.full(len(places), "", dtype="<U10")
        status = decide(present, expected)
        return Matches(places, score, status, expected, within, near, present, evidence, levels)

    def read(self, points_ras: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Read answers (N, 3), RAS mm in the target, and their evidence (N, len(EVIDENCE)). Errors: as in `points`."""
        points = as_points(points_ras)
        outside = ~in_grid(self.template.voxels(points), self.template.shape)
        if outside.any():
            r, a, s = points[np.argmax(outside)]
            raise PointsError(
                f"point ({r:.1f}, {a:.1f}, {s:.1f}) RAS mm lies outside {self.template.name or 'the template'}; "
                "choose a point inside this scan."
            )
        places, stored = self.forward.at(points)
        return places, np.column_stack([stored, self.target.edge_mm(places)]).astype(np.float32)

    def inverse(self) -> Correspondence:
        """Return the correspondence from the target to the template."""
        return Correspondence(self.target, self.template, self.backward, self.forward)

    def save(self, path: str | Path) -> None:
        """Write a .safetensors file, complete or not at all. Raises MapError if the file cannot be written."""
        tensors: dict[str, torch.Tensor] = {}
        about: dict[str, Any] = {"format_version": _FORMAT_VERSION}
        for name in ("template", "target"):
            frame: Frame = getattr(self, name)
            tensors[f"{name}.to_ras"] = torch.from_numpy(np.ascontiguousarray(frame.to_ras))
            about[name] = {"name": frame.name, "scan_hash": frame.scan_hash, "shape": list(frame.shape)}
        for name in ("forward", "backward"):
            answers: Answers = getattr(self, name)
            tensors |= {
                f"{name}.affine": torch.from_numpy(np.ascontiguousarray(answers.affine)),
                f"{name}.moved": answers.moved,
                f"{name}.evidence": answers.evidence,
            }
            about[name] = {"origin_ras": answers.lattice.origin_ras, "spacing_mm": answers.lattice.spacing_mm}
        write_tensor_file(path, tensors, {_METADATA_KEY: json.dumps(about)}, MapError)

    @classmethod
    def load(cls, path: str | Path) -> Correspondence:
        """Read a file written by `save`. Raises MapError if the file is missing, damaged or of another version."""
        try:
            about, tensors = read_tensor_file(path, _METADATA_KEY, _FORMAT_VERSION)
            template, target = (_read_frame(about[name], tensors[f"{name}.to_ras"]) for name in ("template", "target"))
            forward, backward = (_read_answers(name, about[name], tensors) for name in ("forward", "backward"))
            return cls(template, target, forward, backward)
        except (*DAMAGED, NewerFormatError):
            raise MapError(
                f"{path}: is missing, damaged, or was written by another version; pair the two scans again."
            ) from None


def _read_frame(about: dict[str, Any], to_ras: torch.Tensor) -> Frame:
    check_matrices(torch.eye(4, dtype=torch.float64)[None], to_ras[None])
    k, j, i = (int(n) for n in about["shape"])
    if min(k, j, i) < 1:
        raise ValueError("a scan cannot have this size")
    return Frame(str(about["name"]), str(about["scan_hash"]), to_ras.numpy(), (k, j, i))


def _read_answers(name: str, about: dict[str, Any], tensors: dict[str, torch.Tensor]) -> Answers:
    affine, moved, evidence = (tensors[f"{name}.{part}"] for part in ("affine", "moved", "evidence"))
    check_size(affine, (4, 4), torch.float64)
    check_size(moved, (3, None, None, None), torch.int16)
    check_size(evidence, (len(STORED), *moved.shape[1:]), torch.uint8)
    (x, y, z), (dx, dy, dz) = (map(float, about[key]) for key in ("origin_ras", "spacing_mm"))
    if min(dx, dy, dz) <= 0:
        raise ValueError("nodes cannot have this distance")
    k, j, i = moved.shape[1:]
    return Answers(affine.numpy(), Lattice((x, y, z), (dx, dy, dz), (i, j, k)), moved, evidence)


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
    progress: Callable[[float, str], None] | None = None,
    cancelled: Callable[[], bool] | None = None,
) -> Correspondence:
    """Find where every point of the template lies in the target, and the reverse.

    Args:
        template, target: two scans of one patient.
        template_map, target_map: their maps, made with the same weights.
        progress: called with the share of work done (0 to 1) and the name of the step.
        cancelled: called between steps, from two threads. If it returns True, the work stops.

    Raises:
        NotSamePatientError: the two scans do not show one patient, or share too little of the body.
        MapError: the maps were made with different weights, or a scan shows no body.
        CancelledError: `cancelled` returned True.
    """

    def step(share: float, text: str) -> None:
        if cancelled is not None and cancelled():
            raise CancelledError("pairing the two scans was stopped; nothing was written.")
        if progress is not None:
            progress(share, text)

    volumes, maps = (template, target), (template_map, target_map)
    with ThreadPoolExecutor(2) as threads:
        step(0.0, "matching")
        coarse = list(threads.map(lambda way: fit_coarse(maps[way[0]], maps[way[1]], volumes[way[0]]), WAYS))
        agreement.check_coarse(coarse, template.name, target.name)
        step(0.3, "comparing the images")
        joined = join_directions(coarse, volumes, maps, threads, step)
        step(0.8, "measuring the agreement")
        pictures = list(threads.map(Picture.of, volumes, maps))
        nodes = [each.on(picture.nodes) for each, picture in zip(joined, pictures, strict=True)]
        evidence = list(threads.map(agreement.evidence_at_nodes, pictures, pictures[::-1], nodes))
    agreement.check_images(evidence, pictures, template.name, target.name)
    answers = [Answers.of(coarse[n].affine, nodes[n], evidence[n]) for n in range(2)]
    step(1.0, "done")
    return Correspondence(Frame.of(template_map), Frame.of(target_map), *answers)
