"""Calibrates weights of the kind "any" without labels: from bent and broken copies of scans, and from pairs of scans.

The true places in a bent copy are known. For a pair of scans, the places of a direct registration of the two count as
true. Each scan of a pair was left out of the mean image with which it is aligned. No person marks a point more exactly
than the two images show it, so an error that grows with their slack is added to the true places.
"""

from collections.abc import Callable, Iterator
from dataclasses import replace

import numpy as np
import torch

from ..embedding.calibration import Calibration
from ..embedding.frames.alignment import Alignment, align
from ..embedding.frames.grey_image import GreyImage, read_grey
from ..embedding.inference import Model
from ..embedding.map import EmbeddingMap, Provenance
from ..errors import ProgressCallback, VolumeError
from ..fields.spline import Lattice, SplineField
from ..matching.slack import read_window, slack
from ..scan.cropping import crop_voxels
from ..scan.geometry import grid_matrix
from ..scan.volume import Volume
from .calibrate import BENT, REGISTERED, learn
from .frame_building import FOLDS, FrameBuild, without
from .known_matches import Trial, random_points

_POINTS = 150  # of a pair; by hand
_COPIES = 8  # bent copies, of as many scans, and as many broken ones
_PAIRS = 20  # registered directly; by hand
_SCALE = 0.06  # change of the size of a copy
_NOISE = 0.02  # in a copy, as a share of the range of grey values
_BEND, _KNOTS = 5.0, 60.0  # size of the bending, and distance of its knots, in the unit of the kind
_BROKEN = (0.2, 0.45)  # share of the object that is broken off
_INSIDE, _OUTSIDE = 2.0, 10.0  # points this near a break, in the unit of the kind, are left out
# A person marks a point in two scans about this exactly, along each axis, as a share of the slack. Least and largest
# slack that counts, in the unit of the kind. Chosen on 45 points of mouse skulls, for all kinds; the least is a voxel.
_MARK = 0.41
_SLACK = (2.5, 10.0)
_COPY_RADII = 1.35  # half side of a copy, in radii of the object
_COPY_SPACING = 4.0  # size of its voxels, in the unit of the kind


def calibrate_frame(model: Model, build: FrameBuild, progress: ProgressCallback) -> Calibration:
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


def registered_trials(build: FrameBuild) -> Iterator[Trial]:
    """Yield trials of pairs of scans, whose true places are those of a direct registration.

    Args:
        build: the frame and its scans.
    """
    rng = np.random.default_rng(0)
    radius_mm = build.frame.spec.radius_mm
    folds = np.array_split(rng.permutation(len(build.images)), FOLDS)
    maps = {}
    starts = {}
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
        points = random_points(maps[first], _POINTS, rng)
        truth = direct.to_scan(points)
        in_both = build.images[first].volume.contains(points)
        in_both &= build.images[second].volume.contains(truth)
        marked = _as_marked(truth, maps[second], maps[first], points, rng)[in_both]
        yield Trial(maps[first], points[in_both], maps[second], marked, True)


def copy_trials(model: Model, build: FrameBuild, skip: Callable[[str], None]) -> Iterator[Trial]:
    """Yield trials of scans with copies: bent and turned as another scan is, then the same with a part broken off.

    Args:
        model: the weights.
        build: their frame and its scans.
        skip: called with the reason if a copy cannot be embedded.
    """
    rng = np.random.default_rng(0)
    unit_mm = build.frame.unit_mm
    turned = [alignment.rotation for alignment in build.alignments]
    for n, image in enumerate(build.images[:_COPIES]):
        provenance = Provenance("", "", image.name, metric=False)
        template = build.frame.map_by(build.alignments[n], image, provenance)
        rotation = turned[n] @ turned[rng.integers(len(turned))].T
        copy, transform = bent_copy(image, rotation, unit_mm, rng)
        points = random_points(template, _POINTS, rng)
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
            marked = _as_marked(truth, target, template, points, rng)[used]
            places = np.where(side[used, None] > 0, marked, np.nan)
            yield Trial(template, points[used], target, places, not is_broken)


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
    low = np.full(3, -half)
    high = np.full(3, half)
    lattice = Lattice.within(low, high, _COPY_SPACING * unit_mm)
    affine = np.eye(4)
    affine[:3, :3] = rotation * np.exp(rng.uniform(-_SCALE, _SCALE))
    affine[:3, 3] = image.centre_ras
    field = SplineField.over(low, high, _KNOTS * unit_mm)
    bend = rng.normal(0, _BEND * unit_mm, field.coefficients.shape)
    transform = Alignment(
        affine, replace(field, coefficients=torch.from_numpy(bend).float()), 1.0, 1.0
    )
    grid = image.on_grid(lattice.spacing_mm[0])
    values = read_grey(grid.hu, grid.lattice, transform.on(lattice)).numpy()
    values += rng.normal(0, _NOISE, values.shape).astype(np.float32)
    ijk_to_ras = grid_matrix(lattice.origin_ras, lattice.spacing_mm)
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
    if is_cut:
        box_ras = copy.bounds_ras.copy()
        box_ras[int(normal.sum() > 0), normal != 0] = limit * normal.sum()
        volume = crop_voxels(copy, box_ras)
    else:
        slope = normal @ copy.ijk_to_ras[:3]
        beyond = np.tensordot(slope[:3], np.indices(copy.shape)[::-1], 1) + slope[3] > limit
        volume = replace(copy, voxels=np.where(beyond, copy.voxels.min(), copy.voxels))
    distance = (points @ normal - limit) / unit_mm
    return volume, np.where(distance < -_INSIDE, 1, np.where(distance > _OUTSIDE, -1, 0))


def _as_marked(
    truth: np.ndarray,
    target: EmbeddingMap,
    template: EmbeddingMap,
    points: np.ndarray,
    rng: np.random.Generator,
) -> np.ndarray:
    """Move true places as far as a person who marks them misses them, so that the stated error contains this.

    Args:
        truth: (n, 3) RAS mm.
        target: map of the scan in which they lie.
        template: map of the template.
        points: (n, 3) RAS mm, the points in the template.
        rng: random numbers.
    """
    window = read_window(template, template.cells_at(points))
    target_window = read_window(target, target.cells_at(truth))
    error_mm = _MARK * template.unit_mm * slack(window, target_window).clamp(*_SLACK).numpy()
    return truth + rng.normal(size=truth.shape) * error_mm[:, None]
