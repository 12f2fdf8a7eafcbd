"""Aligns a scan with another scan of its kind, or with a frame: rotation, affine transform, smooth displacement.

Positions and rotations need not be alike. All rotations are tried on small images, each at its best shift. The best
ones are improved as similarity transforms, and the one after which the images are most alike is taken.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
import torch.nn.functional as F

from ...errors import ShareCallback
from ...fields.comparison import WHERE, Comparison, correlation, windowed
from ...fields.spline import Lattice, SplineField
from ...scan.geometry import transform_points
from ..working_grid import WorkingGrid
from .grey_image import NOISE, GreyImage, read_grey, spread_rotations

UNITS = 200.0  # an object's radius in the unit of its kind
# All lengths are in this unit, and chosen on 18 mouse skulls. Levels: spacing of points, and of knots.
_LEVELS = ((12.0, 48.0), (6.0, 24.0))
_AFFINE_LEVELS = (12.0, 7.0)  # spacing of points in the affine fits
_SEARCH, _SIMILARITY = 30.0, 20.0
_ROTATIONS, _BATCH = 720, 60
_SIDE = 16  # points along each axis of the small images
_CANDIDATES, _APART = 8, np.cos(np.radians(20.0))
_ALIKE = np.cos(np.radians(45.0))  # scans that are turned by less lie alike; by hand
_ROUNDS, _AFFINE_ROUNDS = 6, 15
_SMOOTH = 0.6  # as for CTs, see registration/instance_optimisation.py
_RIDGE = 1e-6  # keeps the equations solvable where an image is flat
_LEAST_SHOWN = 0.4  # least share of the object of the fixed image that a scan shows
_STILL = 0.02  # a fit ends when it moves the points by less than this share of their spacing
# the inverse reads the field from a lattice, which is quicker
_INVERSE_ROUNDS, _PARTS_A_KNOT = 8, 4


@dataclass(frozen=True, eq=False)
class Alignment:
    """A transform from the frame, or from another scan, to a scan.

    Args:
        affine: (4, 4) RAS mm.
        field: displacement, mm, added after the affine transform; None for an affine alignment.
        likeness: correlation of both images, -1 to 1, in and near the object of the frame.
        affine_likeness: the same after the affine transform alone. Any two images can be displaced to look a bit alike.
    """

    affine: np.ndarray
    field: SplineField | None
    likeness: float
    affine_likeness: float

    @property
    def rotation(self) -> np.ndarray:
        """(3, 3) the rotation in the affine transform."""
        first, _, second = np.linalg.svd(self.affine[:3, :3])
        return first @ second

    @property
    def is_turned(self) -> bool:
        """Whether the scan lies otherwise than the frame: it is turned by more than 45 degrees."""
        return bool(_cosines(self.rotation) < _ALIKE)

    def to_scan(self, points: np.ndarray) -> np.ndarray:
        """Transform points (n, 3) of the frame to the scan."""
        moved = transform_points(self.affine, points)
        return moved if self.field is None else moved + self.field.at(points)

    def to_frame(self, points_ras: np.ndarray) -> np.ndarray:
        """Transform points (n, 3) of the scan to the frame: the inverse of `to_scan`, by fixed-point iteration."""
        inverse = np.linalg.inv(self.affine)
        first = points = transform_points(inverse, points_ras)
        if self._displacement is not None:
            values, lattice = self._displacement
            for _ in range(_INVERSE_ROUNDS):
                moved = [read_grey(part, lattice, torch.from_numpy(points.T)) for part in values]
                points = first - torch.stack(moved).double().numpy().T
        return points

    @cached_property
    def _displacement(self) -> tuple[torch.Tensor, Lattice] | None:
        """The field on a fine lattice, in mm of the frame: (3, k, j, i), and the lattice."""
        if self.field is None:
            return None
        low = np.array(self.field.low)
        high = low + self.field.knot_mm * np.array(self.field.intervals)
        lattice = Lattice.within(low, high, self.field.knot_mm / _PARTS_A_KNOT)
        turned = torch.from_numpy(np.linalg.inv(self.affine[:3, :3])).float()
        return torch.tensordot(turned, self.field.on(lattice), dims=1), lattice

    def on(self, lattice: Lattice) -> torch.Tensor:
        """Transform the points of a lattice in the frame to the scan: (3, k, j, i) RAS mm."""
        moved = lattice.through(self.affine)
        return moved if self.field is None else moved + self.field.on(lattice)


def align(
    fixed: GreyImage,
    moving: GreyImage,
    radius_mm: float,
    start: np.ndarray | None = None,
    step: ShareCallback = lambda share: None,
    *,
    any_rotation: bool = True,
) -> Alignment:
    """Align a scan with a frame or with another scan.

    Args:
        fixed: image of the frame.
        moving: image of the scan.
        radius_mm: radius of the objects of this kind, from which all distances follow.
        start: (4, 4) RAS mm of the frame -> scan, nearly right; None to search over all rotations.
        step: called with the share of the work that is done; may raise an error to stop.
        any_rotation: False if both images lie alike, so that rotations by more than 45 degrees are not tried.
    """
    unit = radius_mm / UNITS
    finest_mm = max(fixed.voxel_mm, moving.voxel_mm)
    affine = start
    if affine is None:
        affine = search_similarity(fixed, moving, unit, step, any_rotation)
    for spacing in _AFFINE_LEVELS:
        spacing_mm = max(spacing * unit, finest_mm)
        affine = fit_affine(fixed, moving, spacing_mm, affine)
    low, high = fixed.volume.bounds_ras
    field: SplineField | None = None
    for level, (spacing, knot) in enumerate(_LEVELS):
        spacing_mm = max(spacing * unit, finest_mm)
        knot_mm = knot * unit
        field = SplineField.over(low, high, knot_mm) if field is None else field.refined(knot_mm)
        comparison = Comparison(fixed.features(spacing_mm), moving.features(spacing_mm), affine)
        no_change = SplineField(field.low, field.knot_mm, torch.zeros_like(field.coefficients))
        for number in range(_ROUNDS):
            step(0.5 + 0.5 * (level + number / _ROUNDS) / len(_LEVELS))
            field, moved_mm = comparison.improved(field, no_change, _SMOOTH)
            if moved_mm < _STILL * spacing_mm:
                break
    likeness = _likeness(fixed, moving, affine, field, spacing_mm)
    affine_likeness = _likeness(fixed, moving, affine, None, spacing_mm)
    return Alignment(affine, field, likeness, affine_likeness)


def _likeness(
    fixed: GreyImage,
    moving: GreyImage,
    affine: np.ndarray,
    field: SplineField | None,
    spacing_mm: float,
) -> float:
    """Return the correlation of two images at points `spacing_mm` apart, in and near the object of the fixed image.

    Points of parts that the scan lacks do not count, unless it lacks most of the object: then the likeness is 0.
    """
    features = fixed.features(spacing_mm)
    in_object = features.weight > 0
    points = features.lattice.places[:, in_object]
    if not points.shape[1]:
        return 0.0
    places = Alignment(affine, field, 0.0, 0.0).on(features.lattice)[:, in_object]
    scan_features = moving.features(spacing_mm)
    in_scan = read_grey(scan_features.weight, scan_features.lattice, places) > 0.5
    if float(in_scan.float().mean()) < _LEAST_SHOWN:
        return 0.0
    still = fixed.on_grid(spacing_mm)
    scan = moving.on_grid(spacing_mm)
    fixed_values = read_grey(still.hu, still.lattice, points)
    moving_values = read_grey(scan.hu, scan.lattice, places)
    pair = torch.stack([fixed_values, moving_values])[:, in_scan]
    return float(torch.nan_to_num(torch.corrcoef(pair))[0, 1])


def search_similarity(
    fixed: GreyImage,
    moving: GreyImage,
    unit: float,
    step: ShareCallback = lambda share: None,
    any_rotation: bool = True,
) -> np.ndarray:
    """Search over rotations. Returns the best similarity transform, (4, 4) RAS mm fixed -> moving.

    Args:
        fixed, moving: the images.
        unit: the unit of the kind, mm.
        step: called with the share of the work that is done.
        any_rotation: as in `align`.
    """
    candidates = rotation_candidates(
        fixed, moving, _SEARCH * unit, lambda share: step(0.3 * share), any_rotation
    )
    fits = [
        fit_affine(fixed, moving, _SIMILARITY * unit, start, similarity=True)
        for start in candidates
    ]
    spacing_mm = _AFFINE_LEVELS[0] * unit

    def likeness(fit: np.ndarray) -> float:
        # a piece of a spine that lies one vertebra off may be as alike, but not after an affine fit
        affine = fit_affine(fixed, moving, spacing_mm, fit)
        return _likeness(fixed, moving, affine, None, spacing_mm)

    return max(fits, key=likeness)


def rotation_candidates(
    fixed: GreyImage,
    moving: GreyImage,
    spacing_mm: float,
    step: ShareCallback,
    any_rotation: bool,
) -> list[np.ndarray]:
    """Return the rotations, each with its best shift, after which two small images correlate best: (4, 4) each.

    Args:
        fixed, moving: the images.
        spacing_mm: distance of the points of the small images.
        step: called with the share of the work that is done.
        any_rotation: as in `align`.
    """
    rotations = spread_rotations(_ROTATIONS)
    if not any_rotation:
        rotations = rotations[_cosines(rotations) > _ALIKE]
    first = -spacing_mm * (_SIDE - 1) / 2
    cube = Lattice((first,) * 3, (spacing_mm,) * 3, (_SIDE,) * 3).places.flatten(1)
    # twice the side, so that a shift does not wrap around
    padded = (2 * _SIDE,) * 3
    still = _small_images(fixed.on_grid(spacing_mm), fixed.centre_ras, cube[None])
    spectrum = torch.fft.rfftn(still, padded).conj()
    scan = moving.on_grid(spacing_mm)
    scores, places = [], []
    for number in range(0, len(rotations), _BATCH):
        batch = torch.from_numpy(rotations[number : number + _BATCH]).float()
        turned = _small_images(scan, moving.centre_ras, batch @ cube)
        turned_spectrum = torch.fft.rfftn(turned, padded, dim=(1, 2, 3))
        likeness = torch.fft.irfftn(turned_spectrum * spectrum, padded, dim=(1, 2, 3))
        score, place = likeness.flatten(1).max(dim=1)
        scores.append(score)
        places.append(place)
        step(number / len(rotations))
    # the best shift of each rotation; those beyond the side are negative
    shift = np.stack(np.unravel_index(torch.cat(places).numpy(), padded)[::-1], axis=1)
    shift_mm = np.where(shift >= _SIDE, shift - 2 * _SIDE, shift) * spacing_mm
    starts = []
    for index in _distinct(rotations, torch.cat(scores)):
        start = np.eye(4)
        start[:3, :3] = rotations[index]
        start[:3, 3] = moving.centre_ras + rotations[index] @ (shift_mm[index] - fixed.centre_ras)
        starts.append(start)
    return starts


def _distinct(rotations: np.ndarray, scores: torch.Tensor) -> list[int]:
    """Return the indices of the rotations (n, 3, 3) with the highest scores (n,), without those near a better one."""
    chosen: list[int] = []
    for index in scores.argsort(descending=True).tolist():
        if not chosen or _cosines(rotations[chosen] @ rotations[index].T).max() < _APART:
            chosen.append(index)
        if len(chosen) == _CANDIDATES:
            break
    return chosen


def _cosines(rotations: np.ndarray) -> np.ndarray:
    """Return the cosines (...) of the angles of rotations (..., 3, 3)."""
    return (np.trace(rotations, axis1=-2, axis2=-1) - 1) / 2


def _small_images(
    grid: WorkingGrid, centre_ras: np.ndarray, offsets_mm: torch.Tensor
) -> torch.Tensor:
    """Read small images (n, _SIDE, _SIDE, _SIDE), each with the mean 0 and the length 1.

    Args:
        grid: the image from which they are read.
        centre_ras: (3,) RAS mm, their centre.
        offsets_mm: (n, 3, m) places of their points, from the centre.
    """
    places = offsets_mm + torch.from_numpy(centre_ras).float().view(3, 1)
    values = read_grey(grid.hu, grid.lattice, places.transpose(0, 1))
    values = values - values.mean(dim=1, keepdim=True)
    return F.normalize(values, dim=1).view(-1, _SIDE, _SIDE, _SIDE)


def fit_affine(
    fixed: GreyImage,
    moving: GreyImage,
    spacing_mm: float,
    affine: np.ndarray,
    similarity: bool = False,
) -> np.ndarray:
    """Improve an affine transform, (4, 4) RAS mm fixed -> moving, by Gauss-Newton steps on image features.

    Args:
        fixed, moving: the images.
        spacing_mm: distance of the points that are compared.
        affine: the start.
        similarity: True to keep one scale for all axes, and no shear.
    """
    fixed_features = fixed.features(spacing_mm)
    moving_features = moving.features(spacing_mm)
    points = fixed_features.lattice.places
    for _ in range(_AFFINE_ROUNDS):
        comparison = Comparison(fixed_features, moving_features, affine)
        force, matrix = comparison.terms(torch.zeros_like(points))
        informed = matrix[0] > 0
        if not informed.any():
            break
        # a change (3, 4) of the transform moves the points by change @ design
        places = points[:, informed].double()
        middle = places.mean(dim=1, keepdim=True)
        design = torch.cat([places - middle, torch.ones_like(places[:1])])
        basis = torch.eye(12, dtype=torch.double)
        if similarity:
            basis = torch.from_numpy(_similarities(affine[:3, :3]))
        force, matrix = force[:, informed].double(), matrix[:, informed].double()[WHERE]
        change = _gauss_newton(force, matrix, design, basis)
        centre = middle[:, 0].numpy()
        place = transform_points(affine, centre[None])[0] + change[:, 3].numpy()
        linear = affine[:3, :3] + change[:, :3].numpy()
        if similarity:
            turn, stretch, across = np.linalg.svd(linear)
            linear = turn @ across * stretch.mean()
        affine = np.eye(4)
        affine[:3, :3] = linear
        affine[:3, 3] = place - linear @ centre
        moved = change @ design
        if float(moved.norm(dim=0).mean()) < _STILL * spacing_mm:
            break
    return affine


def _gauss_newton(
    force: torch.Tensor, matrix: torch.Tensor, design: torch.Tensor, basis: torch.Tensor
) -> torch.Tensor:
    """Return the change (3, 4) of an affine transform that reduces the difference of two images most.

    Args:
        force, matrix: (3, n) gradients and (3, 3, n) Gauss-Newton matrices of the difference at n points.
        design: (4, n) the points and 1.
        basis: (m, 12) the changes that are possible, in rows.
    """
    square = torch.einsum("abn,cn,dn->acbd", matrix, design, design).reshape(12, 12)
    slope = (force @ design.T).reshape(12)
    square = basis @ square @ basis.T
    ridge = _RIDGE * square.diagonal().mean() * torch.eye(len(square))
    return -(torch.linalg.solve(square + ridge, basis @ slope) @ basis).reshape(3, 4)


def _similarities(linear: np.ndarray) -> np.ndarray:
    """Return the small changes (7, 12) of a 3 x 4 matrix that keep it a similarity: 3 rotations, scale, 3 shifts."""
    linear_changes = [*(np.cross(axis, linear.T).T for axis in np.eye(3)), linear]
    changes = [np.column_stack([change, np.zeros(3)]) for change in linear_changes]
    changes += [np.column_stack([np.zeros((3, 3)), axis]) for axis in np.eye(3)]
    return np.stack([change.ravel() for change in changes])


def local_likeness(fixed: GreyImage, moving: GreyImage, alignment: Alignment) -> torch.Tensor:
    """Return the correlation of two aligned images in a window around each point of the fixed image's own grid.

    Args:
        fixed, moving: the images.
        alignment: of the two.
    """
    still = fixed.on_grid(fixed.voxel_mm)
    scan = moving.on_grid(fixed.voxel_mm)
    first = still.hu
    second = read_grey(scan.hu, scan.lattice, alignment.on(still.lattice))
    products = torch.stack([first, second, first * first, second * second, first * second])
    return correlation(windowed(windowed(products[None]))[0], NOISE, NOISE**2)


def mean_image(
    images: Sequence[GreyImage], alignments: Sequence[Alignment], lattice: Lattice
) -> torch.Tensor:
    """Average aligned images at the points of a lattice in the frame: (k, j, i), 0 to 1."""
    total = torch.zeros(lattice.shape)
    for image, alignment in zip(images, alignments, strict=True):
        grid = image.on_grid(lattice.spacing_mm[0])  # a lattice of a frame has one spacing
        places = alignment.on(lattice)  # of the lattice's points in the scan
        total += read_grey(grid.hu, grid.lattice, places)
    return total / len(images)
