"""Pairs of scans of one patient whose true correspondence is known, made from one real scan.

The copy is a later scan of the same patient. The patient is turned on the table, bent, and has breathed, with lungs
that slide along the ribs. Noise, kernel, slices, contrast phase, lung density and field of view differ. Lesions appear,
vanish, grow and shrink, and fluid fills the back of a lung.
"""

from dataclasses import dataclass

import numpy as np
import SimpleITK as sitk

from AnatomicalEmbedding.embedding.body import patient_on_grid
from AnatomicalEmbedding.scan.cropping import crop_voxels
from AnatomicalEmbedding.scan.geometry import AIR_HU, LPS_FROM_RAS, RAS_FROM_LPS, transform_points
from AnatomicalEmbedding.scan.volume import Volume

_GRID_MM = 4.0
_TABLE_MM = 6.0
_WALL_MM = 28.0  # thickness of the body wall, which does not breathe
_LUNG_HU = -450.0
_LESIONS = 6
_NEAR_MM = 4.0  # points this near to the border of changed tissue are left out
SAME, CHANGED = "same", "changed"


@dataclass(frozen=True)
class Ball:
    """A lesion. centre: (3,) RAS mm in the copy. before_mm, after_mm: radius in the original and in the copy, or 0."""

    centre: np.ndarray
    before_mm: float
    after_mm: float


@dataclass(frozen=True, eq=False)
class KnownPair:
    """The original scan (with some lesions), its later copy, and the exact transform from the copy to the original."""

    original: Volume
    copy: Volume
    transform: sitk.Transform
    balls: tuple[Ball, ...] = ()
    fluid: sitk.Image | None = None

    def to_original(self, points_ras: np.ndarray) -> np.ndarray:
        """Convert points (N, 3) from RAS mm of the copy to RAS mm of the original."""
        return _through(self.transform, points_ras)

    def kinds(self, points_ras: np.ndarray) -> np.ndarray:
        """Tell (N,) whether the tissue at points (N, 3) RAS mm of the copy is SAME or CHANGED in both scans; "" near a
        border."""
        kinds = np.full(len(points_ras), SAME, dtype="<U7")
        if self.fluid is not None:
            apart = _sampled(self.fluid, points_ras)  # mm, negative inside
            kinds[apart < _NEAR_MM] = ""
            kinds[apart < -_NEAR_MM / 2] = CHANGED
        for ball in self.balls:
            apart = np.linalg.norm(points_ras - ball.centre, axis=1)
            low, high = sorted((ball.before_mm, ball.after_mm))
            kinds[(apart < high + _NEAR_MM) & (apart > low - 2.0)] = ""
            kinds[(apart < high - 1.0) & (apart > low + 1.0)] = CHANGED
        return kinds


def make_pair(volume: Volume, seed: int) -> KnownPair:
    """Make a later copy of a scan."""
    rng = np.random.default_rng([seed, 19])
    grid, body = patient_on_grid(volume, (_GRID_MM,) * 3, 1, 1)
    hu = grid.hu.numpy()
    spots = np.argwhere(body)
    lungs = _opened((hu < _LUNG_HU) & body)
    breath = float(rng.uniform(-18, 18)) if rng.random() < 0.8 else 0.0
    frame = _image(hu, grid.grid_to_ras)
    transform = _tabulated(
        [*_turned_and_bent(volume, rng), _breathing(frame, body, lungs, breath, rng)], volume
    )
    balls = _balls(spots, grid.grid_to_ras, rng)
    original = volume.to_sitk()
    later = _other_look(volume, lungs, frame, transform, breath, rng)
    fluid = None
    if lungs.sum() * _GRID_MM**3 > 4e5 and rng.random() < 0.4:
        later, fluid = _with_fluid(later, frame, lungs, transform, rng)
    for ball in balls:
        value = float(rng.uniform(-10, 130))
        texture = float(rng.uniform(0, 25))
        original = _with_ball(
            original, _through(transform, ball.centre[None])[0], ball.before_mm, value, texture, rng
        )
        later = _with_ball(
            later, ball.centre, ball.after_mm, value + float(rng.normal(0, 15)), texture, rng
        )
    later = _scanned(later, volume, rng)
    copy = Volume.from_sitk(later, name=f"{volume.name} later")
    return KnownPair(
        Volume.from_sitk(sitk.Cast(original, sitk.sitkInt16), name=volume.name),
        _cut(copy, rng),
        transform,
        balls,
        fluid,
    )


def _turned_and_bent(volume: Volume, rng: np.random.Generator) -> list[sitk.Transform]:
    low, high = transform_points(LPS_FROM_RAS, volume.bounds_ras)
    low, high = np.minimum(low, high), np.maximum(low, high)
    turn = sitk.Euler3DTransform(
        ((low + high) / 2).tolist(),
        *rng.normal(0, 0.035, 3).tolist(),
        rng.normal(0, 10, 3).tolist(),
    )
    bends: list[sitk.Transform] = [turn]
    for control_mm, most_mm in ((90.0, 6.0), (45.0, 2.0)):
        bend = sitk.BSplineTransform(3, 3)
        bend.SetTransformDomainOrigin((low - control_mm).tolist())
        bend.SetTransformDomainPhysicalDimensions((high - low + 2 * control_mm).tolist())
        bend.SetTransformDomainMeshSize(
            (np.maximum(np.ceil((high - low) / control_mm), 1).astype(int) + 2).tolist()
        )
        bend.SetParameters(
            rng.normal(0.0, rng.uniform(0.3, 1) * most_mm, len(bend.GetParameters())).tolist()
        )
        bends.append(bend)
    return bends


def _tabulated(transforms: list[sitk.Transform], volume: Volume) -> sitk.Transform:
    """Join transforms into one table of displacements, which is faster. The table extends 60 mm beyond the scan."""
    low, high = volume.bounds_ras + np.array([[-60.0], [60.0]])
    size = np.ceil((high - low) / _TABLE_MM).astype(int)
    matrix = np.diag([*[_TABLE_MM] * 3, 1.0])
    matrix[:3, 3] = low
    make = sitk.TransformToDisplacementFieldFilter()
    make.SetReferenceImage(_image(np.zeros(size[::-1]), matrix))
    return sitk.DisplacementFieldTransform(make.Execute(sitk.CompositeTransform(transforms)))


def _breathing(
    frame: sitk.Image,
    body: np.ndarray,
    lungs: np.ndarray,
    breath_mm: float,
    rng: np.random.Generator,
) -> sitk.Transform:
    """Move the content of the trunk along the body; the wall and the spine stay, so the lungs slide along the ribs."""
    moved = np.zeros((*body.shape, 3))
    if lungs.sum() * _GRID_MM**3 > 3e5 and breath_mm:
        distance = sitk.GetArrayFromImage(_distance(body, frame))  # mm, negative inside
        content = _filled(lungs) | (distance < -_WALL_MM)
        content &= ~_spine(sitk.GetArrayFromImage(frame), body)
        layers = np.flatnonzero(lungs.any(axis=(1, 2)))
        base = layers[0]
        top = layers[-1]
        z = np.arange(len(body))
        strength = np.where(
            z >= base, (top - z) / max(top - base, 1), 1 - (base - z) * _GRID_MM / 250
        ).clip(0, 1)
        inside = _smoothed(content.astype(float), 4.0)
        moved[..., 2] = breath_mm * strength[:, None, None] * inside
        # LPS: also forwards or backwards
        moved[..., 1] = 0.25 * breath_mm * strength[:, None, None] * inside
    image = sitk.GetImageFromArray(moved, isVector=True)
    image.CopyInformation(frame)
    return sitk.DisplacementFieldTransform(image)


def _spine(hu: np.ndarray, body: np.ndarray) -> np.ndarray:
    """Find the spine: the back third of the body, within 35 mm of the middle."""
    _, j, i = np.nonzero(body)
    middle = np.median(i)
    back = np.percentile(j, 3)
    front = np.percentile(j, 97)
    _, rows, columns = np.indices(hu.shape)
    return (np.abs(columns - middle) * _GRID_MM < 35) & (rows < back + 0.45 * (front - back))


def _balls(
    spots: np.ndarray, grid_to_ras: np.ndarray, rng: np.random.Generator
) -> tuple[Ball, ...]:
    found = []
    for _ in range(_LESIONS):
        centre = transform_points(grid_to_ras, spots[rng.integers(len(spots))][None, ::-1])[0]
        radius = float(rng.uniform(5, 18))
        before, after = (
            (0.0, radius),
            (radius, 0.0),
            (radius, radius * float(rng.uniform(0.5, 1.8))),
        )[rng.integers(3)]
        found.append(Ball(centre, before, after))
    return tuple(found)


def _other_look(
    volume: Volume,
    lungs: np.ndarray,
    frame: sitk.Image,
    transform: sitk.Transform,
    breath: float,
    rng: np.random.Generator,
) -> sitk.Image:
    """Warp the scan, and change contrast medium and lung density."""
    image = sitk.Resample(
        sitk.Cast(volume.to_sitk(), sitk.sitkFloat32),
        volume.to_sitk(),
        transform,
        sitk.sitkLinear,
        AIR_HU,
    )
    hu = sitk.GetArrayFromImage(image)
    if rng.random() < 0.6:  # another contrast phase
        enhanced = np.exp(-(((hu - 150) / 90) ** 2)) * float(rng.normal(0, 60))
        organs = np.exp(-(((hu - 80) / 60) ** 2)) * _waves(image, rng) * float(rng.uniform(0, 35))
        hu = np.where(
            (hu > 20) & (hu < 450), hu + (enhanced + organs) * np.clip((hu - 20) / 30, 0, 1), hu
        )
    squeeze = float(np.exp(rng.normal(0, 0.12) + breath * 0.012))
    air = np.clip((-hu - 500) / 200, 0, 1)
    hu = hu + air * (hu + 1000) * (squeeze - 1)
    return _like(hu, image)


def _with_fluid(
    later: sitk.Image,
    frame: sitk.Image,
    lungs: np.ndarray,
    transform: sitk.Transform,
    rng: np.random.Generator,
) -> tuple[sitk.Image, sitk.Image]:
    """Fill the back of one lung with fluid. Also returns the distance from the fluid, mm, negative inside."""
    _, rows, columns = np.nonzero(lungs)
    side = np.indices(lungs.shape)[2] < np.median(columns)
    side = side if rng.random() < 0.5 else ~side
    level = np.percentile(rows, rng.uniform(10, 45))
    fluid = lungs & side & (np.indices(lungs.shape)[1] < level)
    distance = sitk.Resample(_distance(fluid, frame), later, transform, sitk.sitkLinear, 500.0)
    share = np.clip(0.5 - sitk.GetArrayFromImage(distance) / 4, 0, 1)
    hu = sitk.GetArrayFromImage(later)
    return _like(hu * (1 - share) + float(rng.uniform(0, 40)) * share, later), distance


def _with_ball(
    image: sitk.Image,
    centre_ras: np.ndarray,
    radius_mm: float,
    value: float,
    texture: float,
    rng: np.random.Generator,
) -> sitk.Image:
    if not radius_mm:
        return image
    at = np.array(
        image.TransformPhysicalPointToContinuousIndex((LPS_FROM_RAS[:3, :3] @ centre_ras).tolist())
    )
    spacing = np.array(image.GetSpacing())
    size = np.array(image.GetSize())
    low = np.maximum(np.floor(at - (radius_mm + 3) / spacing), 0).astype(int)
    high = np.minimum(np.ceil(at + (radius_mm + 3) / spacing), size - 1).astype(int) + 1
    if (high <= low).any():
        return image
    hu = sitk.GetArrayFromImage(image)
    box = tuple(slice(low[a], high[a]) for a in (2, 1, 0))
    k, j, i = np.meshgrid(*(np.arange(low[a], high[a]) for a in (2, 1, 0)), indexing="ij")
    apart = np.linalg.norm((np.stack([i, j, k], axis=-1) - at) * spacing, axis=-1)
    share = np.clip(0.5 + (radius_mm - apart) / 3, 0, 1)
    lesion = value + rng.normal(0, texture, share.shape)
    hu[box] = hu[box] * (1 - share) + lesion * share
    return _like(hu, image)


def _scanned(image: sitk.Image, volume: Volume, rng: np.random.Generator) -> sitk.Image:
    """Scan again: other kernel, other slices, other noise."""
    image = sitk.SmoothingRecursiveGaussian(image, float(rng.uniform(0.3, 1.2)))
    spacing = np.array(image.GetSpacing())
    wanted = np.maximum(spacing, (*([rng.uniform(0.7, 2.0)] * 2), rng.uniform(1.0, 5.0)))
    bins = np.maximum(np.round(wanted / spacing), 1).astype(int)
    image = sitk.BinShrink(image, bins.tolist())
    shift = rng.uniform(-0.5, 0.5, 3) * image.GetSpacing()
    origin = (np.array(image.GetOrigin()) + shift).tolist()
    image = sitk.Resample(
        image, image.GetSize(), sitk.Transform(), sitk.sitkLinear, origin, image.GetSpacing(), image.GetDirection(),
        AIR_HU,
    )  # fmt: skip
    hu = sitk.GetArrayFromImage(image)
    hu = hu + rng.normal(0, rng.uniform(4, 30), hu.shape) * (hu > AIR_HU + 30)
    return _like(np.round(np.clip(hu, -1024, 3071)), image)


def _cut(copy: Volume, rng: np.random.Generator) -> Volume:
    """Cut the field of view, in half of the copies."""
    box = copy.bounds_ras.copy()
    if rng.random() < 0.5:
        low, high = box[:, 2]
        share = rng.uniform(0.55, 0.95)
        start = low + rng.uniform(0, 1 - share) * (high - low)
        if share * (high - low) > 110:
            box[:, 2] = start, start + share * (high - low)
    return crop_voxels(copy, box)


def _through(transform: sitk.Transform, points_ras: np.ndarray) -> np.ndarray:
    moved = [
        transform.TransformPoint(p) for p in transform_points(LPS_FROM_RAS, points_ras).tolist()
    ]
    return transform_points(RAS_FROM_LPS, np.array(moved).reshape(-1, 3))


def _image(values: np.ndarray, grid_to_ras: np.ndarray) -> sitk.Image:
    return Volume(values.astype(np.float32), grid_to_ras).to_sitk()


def _like(values: np.ndarray, image: sitk.Image) -> sitk.Image:
    found = sitk.GetImageFromArray(values.astype(np.float32))
    found.CopyInformation(image)
    return found


def _distance(mask: np.ndarray, frame: sitk.Image) -> sitk.Image:
    """Measure mm from a mask, negative inside."""
    image = sitk.GetImageFromArray(mask.astype(np.uint8))
    image.CopyInformation(frame)
    return sitk.SignedMaurerDistanceMap(image, squaredDistance=False, useImageSpacing=True)


def _sampled(image: sitk.Image, points_ras: np.ndarray) -> np.ndarray:
    ijk = [
        image.TransformPhysicalPointToIndex(p)
        for p in transform_points(LPS_FROM_RAS, points_ras).tolist()
    ]
    i, j, k = np.clip(np.array(ijk).reshape(-1, 3), 0, np.array(image.GetSize()) - 1).T
    return sitk.GetArrayViewFromImage(image)[k, j, i]


def _smoothed(values: np.ndarray, sigma_mm: float) -> np.ndarray:
    return sitk.GetArrayFromImage(
        sitk.SmoothingRecursiveGaussian(sitk.GetImageFromArray(values), sigma_mm / _GRID_MM)
    )


def _opened(mask: np.ndarray) -> np.ndarray:
    return (
        sitk.GetArrayFromImage(
            sitk.BinaryMorphologicalOpening(sitk.GetImageFromArray(mask.astype(np.uint8)), (1,) * 3)
        )
        > 0
    )


def _filled(lungs: np.ndarray) -> np.ndarray:
    """Fill the space between the lungs: in each row of each slice, from the first to the last voxel of the lungs."""
    first = np.logical_or.accumulate(lungs, axis=2)
    return first & np.logical_or.accumulate(lungs[:, :, ::-1], axis=2)[:, :, ::-1]


def _waves(image: sitk.Image, rng: np.random.Generator) -> np.ndarray:
    """Make a smooth random pattern, about -1 to 1, of waves about 100 mm long; (k, j, i)."""
    axes = [mm * np.arange(n) for mm, n in zip(image.GetSpacing(), image.GetSize(), strict=True)]
    x, y, z = (np.sin(2 * np.pi * (axis / rng.uniform(80, 160) + rng.random())) for axis in axes)
    return (z[:, None, None] + y[:, None] + x) / 2
