"""Calibrates weights of the kind "any" without labels: from bent and broken copies of scans, and from pairs of scans.

The true places in a bent copy are known. For a pair of scans, the places of a direct registration of the two count as
true. Each scan of a pair was left out of the mean image with which it is aligned. No person marks a point more exactly
than about a voxel, and less exactly where the image is vague, so this error is added to the true places.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

import numpy as np
import torch

from ..embedding.calibration import Calibration
from ..embedding.frames.alignment import Alignment, align
from ..embedding.frames.grey_image import GreyImage, read_grey
from ..embedding.inference import Model
from ..embedding.map import EmbeddingMap, Provenance
from ..errors import VolumeError
from ..fields.spline import Lattice, SplineField
from ..scan.geometry import mask_box, transform_points
from ..scan.volume import Volume
from ..structures.label_names import LANDMARK
from .calibrate import BENT, REGISTERED, learn
from .frame_building import FOLDS, FrameBuild, without
from .known_matches import Trial

_POINTS = 150  # of a pair; by hand
_COPIES = 8  # bent copies, and as many broken ones
_PAIRS = 20  # registered directly; by hand
_SCALE = 0.06  # change of the size of a copy
_NOISE = 0.02  # in a copy, as a share of the range of grey values
_BEND, _KNOTS = 5.0, 60.0  # size of the bending, and distance of its knots, in the unit of the kind
_BROKEN = (0.2, 0.45)  # share of the object that is broken off
_INSIDE, _OUTSIDE = 2.0, 10.0  # points this near a break, in the unit of the kind, are left out
# A person marks a point in two scans about this exactly, along each axis, at a place of usual vagueness. The error
# grows with the root of the vagueness. Chosen on 45 points of mouse skulls, for all kinds: there, the mean is a voxel.
_MARK_VOXELS = 1.55
_COPY_RADII = 1.35  # half side of a copy, in radii of the object
_COPY_SPACING = 4.0  # size of its voxels, in the unit of the kind


def calibrate_frame(
    model: Model, build: FrameBuild, progress: Callable[[float, str], None]
) -> Calibration:
    """Learn the calibration of weights of the kind "any".

    Args:
        model: the weights.
        build: the frame of the weights, with its scans.
        progress: called with the share of the work that is done, 0 to 1, and the stage of the work.

    Raises:
        AnatomicalEmbeddingError: there are too few matches, or scikit-learn is not installed.
    """
    skipped: list[str] = []
    trials = {
        REGISTERED: registered_trials(build),
        BENT: copy_trials(model, build, skipped.append),
    }
    facts = {"scans": [image.name for image in build.images], "skipped": skipped}
    return learn(model, trials, _PAIRS + 2 * _COPIES, facts, progress)


def registered_trials(build: FrameBuild, seed: int = 0) -> Iterator[Trial]:
    """Yield trials of pairs of scans, whose true places are those of a direct registration.

    Args:
        build: the frame and its scans.
        seed: random seed.
    """
    rng = np.random.default_rng(seed)
    radius_mm = build.frame.spec.radius_mm
    folds = np.array_split(rng.permutation(len(build.images)), FOLDS)
    maps: dict[int, EmbeddingMap] = {}
    starts: dict[int, np.ndarray] = {}
    for fold in folds:
        frame = without(build, set(fold.tolist()))
        for n in fold.tolist():
            image = build.images[n]
            alignment = align(frame.grey_image, image, radius_mm, build.alignments[n].affine)
            starts[n] = alignment.affine
            maps[n] = frame.map_by(alignment, image, Provenance("", "", image.name, metric=False))
    for _ in range(_PAIRS):
        first, second = rng.choice(len(build.images), 2, replace=False).tolist()
        direct = align(
            build.images[first],
            build.images[second],
            radius_mm,
            starts[second] @ np.linalg.inv(starts[first]),
        )
        points = _random_points(maps[first], rng)
        truth = direct.to_scan(points)
        in_both = build.images[first].volume.contains(points)
        in_both &= build.images[second].volume.contains(truth)
        marked = _as_marked(truth, maps[first], points, rng)[in_both]
        groups = (LANDMARK,) * int(in_both.sum())
        yield Trial(maps[first], points[in_both], maps[second], marked, True, groups)


def copy_trials(
    model: Model, build: FrameBuild, skip: Callable[[str], None], seed: int = 0
) -> Iterator[Trial]:
    """Yield trials of scans with copies: bent and turned as another scan is, then the same with a part broken off.

    Args:
        model: the weights.
        build: their frame and its scans.
        skip: called with the reason if a copy cannot be embedded.
        seed: random seed.
    """
    rng = np.random.default_rng(seed)
    unit_mm = build.frame.unit_mm
    turned = [alignment.rotation for alignment in build.alignments]
    for n in range(_COPIES):
        number = n % len(build.images)
        image = build.images[number]
        provenance = Provenance("", "", image.name, metric=False)
        template = build.frame.map_by(build.alignments[number], image, provenance)
        rotation = turned[number] @ turned[rng.integers(len(turned))].T
        copy, transform = bent_copy(image, rotation, unit_mm, rng)
        points = _random_points(template, rng)
        truth = transform.to_frame(points)
        side = np.ones(len(truth))
        for is_broken in (False, True):
            if is_broken:
                copy, side = _broken(copy, truth, unit_mm, rng, n % 2 == 0)
            try:
                target = replace(model.embed(copy), provenance=provenance)
            except VolumeError as error:
                skip(str(error))
                continue
            used = (side < 0) | ((side > 0) & copy.contains(truth))
            used &= image.volume.contains(points)
            marked = _as_marked(truth, template, points, rng)[used]
            places = np.where(side[used, None] > 0, marked, np.nan)
            groups = (LANDMARK,) * int(used.sum())
            yield Trial(template, points[used], target, places, not is_broken, groups)


def bent_copy(
    image: GreyImage, rotation: np.ndarray, unit_mm: float, rng: np.random.Generator
) -> tuple[Volume, Alignment]:
    """Return a copy of a scan, turned, scaled and bent, with noise; and the transform from the copy to the scan.

    Args:
        image: the scan.
        rotation: (3, 3).
        unit_mm: unit of the kind.
        rng: random numbers.
    """
    half = _COPY_RADII * image.radius_mm
    spacing = (_COPY_SPACING * unit_mm,) * 3
    lattice = Lattice.within(np.full(3, -half), np.full(3, half), spacing[0])
    affine = np.eye(4)
    affine[:3, :3] = rotation * np.exp(rng.uniform(-_SCALE, _SCALE))
    affine[:3, 3] = image.centre_ras
    field = SplineField.over(np.full(3, -half), np.full(3, half), _KNOTS * unit_mm)
    bend = rng.normal(0, _BEND * unit_mm, field.coefficients.shape)
    transform = Alignment(
        affine, replace(field, coefficients=torch.from_numpy(bend).float()), 1.0, 1.0
    )
    grid = image.on_grid(spacing[0])
    values = read_grey(grid.hu, grid.lattice, transform.on(lattice)).numpy()
    values += rng.normal(0, _NOISE, values.shape).astype(np.float32)
    ijk_to_ras = np.diag([*spacing, 1.0])
    ijk_to_ras[:3, 3] = lattice.origin_ras
    return GreyImage.of_values(values, ijk_to_ras, f"copy of {image.name}").volume, transform


def _broken(
    copy: Volume, points: np.ndarray, unit_mm: float, rng: np.random.Generator, is_cut: bool
) -> tuple[Volume, np.ndarray]:
    """Break a part off a copy, or cut it by the edge of the scan.

    Args:
        copy: the copy.
        points: (n, 3) RAS mm.
        unit_mm: unit of the kind.
        rng: random numbers.
        is_cut: True to cut the scan across an axis; False to replace the part by background.

    Returns:
        The copy, and (n,): 1 for a point that it shows, -1 for a point that it lacks, 0 for a point near the break.
    """
    normal = rng.normal(size=3)
    if is_cut:
        normal = np.eye(3)[rng.integers(3)] * rng.choice((-1, 1))
    normal /= np.linalg.norm(normal)
    limit = np.quantile(points @ normal, 1 - rng.uniform(*_BROKEN))
    k, j, i = np.meshgrid(*map(np.arange, copy.shape), indexing="ij", sparse=True)
    steps = copy.ijk_to_ras[:3, :3].T @ normal
    beyond = i * steps[0] + j * steps[1] + k * steps[2] + copy.ijk_to_ras[:3, 3] @ normal > limit
    if is_cut:
        volume = _box_of(copy, ~beyond)
    else:
        volume = replace(copy, voxels=np.where(beyond, copy.voxels.min(), copy.voxels))
    distance = (points @ normal - limit) / unit_mm
    return volume, np.where(distance < -_INSIDE, 1, np.where(distance > _OUTSIDE, -1, 0))


def _box_of(volume: Volume, inside: np.ndarray) -> Volume:
    """Return the part of a volume in the box of a mask (k, j, i)."""
    box = mask_box(inside)
    matrix = volume.ijk_to_ras.copy()
    matrix[:3, 3] += matrix[:3, :3] @ np.array([part.start for part in reversed(box)])
    return replace(volume, voxels=volume.voxels[box], ijk_to_ras=matrix)


def _as_marked(
    truth: np.ndarray, template: EmbeddingMap, points: np.ndarray, rng: np.random.Generator
) -> np.ndarray:
    """Move true places as far as a person who marks them misses them, so that the stated error contains this.

    Args:
        truth: (n, 3) RAS mm.
        template: map of the template.
        points: (n, 3) RAS mm, the points in the template.
        rng: random numbers.
    """
    cells = template.cells_at(points)
    voxel_mm = np.cbrt(np.abs(np.linalg.det(template.scan_to_ras[:3, :3])))
    error_mm = _MARK_VOXELS * voxel_mm * template.vagueness_at(cells).sqrt().numpy()
    return truth + rng.normal(size=truth.shape) * error_mm[:, None]


def _random_points(embedding: EmbeddingMap, rng: np.random.Generator) -> np.ndarray:
    """Return random points (n, 3), RAS mm, in the body cells of a map."""
    cells = embedding.body_index.numpy()
    chosen = cells[rng.integers(len(cells), size=_POINTS)] + rng.uniform(-0.5, 0.5, (_POINTS, 3))
    return transform_points(embedding.cell_to_ras, chosen)
