"""Pairs of scans with points whose true matches are known.

There are three kinds of pairs: two labelled scans, a scan and its copy bent by a known transform, and two synthetic
patients. Some targets are cut to a part of their height. A point outside this part is absent from the target, and its
true place is NaN. Points near a border of the part (2 mm inside to 10 mm outside) are left out.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import SimpleITK as sitk

from ..embedding.map import EmbeddingMap
from ..errors import VolumeError
from ..matching.match import Matches
from ..phantom import Phantom
from ..phantom.patient import phantom_views
from ..scan.cropping import crop_voxels
from ..scan.geometry import LPS_FROM_RAS, RAS_FROM_LPS, transform_points
from ..scan.volume import OUTSIDE_HU, Volume
from ..structures.examples import structure_names
from ..structures.label_names import CENTRE, EXTREME, INNER, KINDS, LANDMARK, find_structures, measure_all
from ..structures.labelled_scans import Case

_CONTROL_MM = 70.0  # distance between control points of the bending
_BEND_MM = 7.0  # standard deviation of a control point's displacement along each axis
_TURN_RAD = 0.08
_SCALE = 0.07
_SHIFT_MM = 15.0
_SPACING_MM = (2.0, 4.0)  # lowest and highest slice spacing of a copy, mm
_NOISE_HU = 15.0
_UPRIGHT = 0.999  # least cosine of the angle between the slices and the horizontal plane


@dataclass(frozen=True, eq=False)
class WarpedScan:
    """A bent copy of a scan, and the exact transform from the copy to the original."""

    volume: Volume
    transform: sitk.Transform

    def to_original(self, points_ras: np.ndarray) -> np.ndarray:
        """Convert points (N, 3) from RAS mm of the copy to RAS mm of the original."""
        points_lps = transform_points(LPS_FROM_RAS, points_ras)
        moved = np.array([self.transform.TransformPoint(p) for p in points_lps.tolist()]).reshape(-1, 3)
        return transform_points(RAS_FROM_LPS, moved)


def warp_scan(volume: Volume, seed: int) -> WarpedScan:
    """Return a copy of a scan, randomly bent, turned and scaled, on another grid, with noise. seed: random seed."""
    rng = np.random.default_rng(seed)
    image = volume.to_sitk()
    low, high = transform_points(LPS_FROM_RAS, volume.bounds_ras)
    low, high = np.minimum(low, high), np.maximum(low, high)
    middle = (low + high) / 2
    turn = sitk.Euler3DTransform(middle.tolist(), *rng.uniform(-_TURN_RAD, _TURN_RAD, 3).tolist())
    matrix = np.array(turn.GetMatrix()).reshape(3, 3) @ np.diag(np.exp(rng.uniform(-_SCALE, _SCALE, 3)))
    affine = sitk.AffineTransform(matrix.ravel().tolist(), rng.uniform(-_SHIFT_MM, _SHIFT_MM, 3).tolist())
    affine.SetCenter(middle.tolist())
    mesh = np.maximum(np.ceil((high - low) / _CONTROL_MM), 1).astype(int)
    bend = sitk.BSplineTransform(3, 3)
    bend.SetTransformDomainOrigin((low - _CONTROL_MM).tolist())
    bend.SetTransformDomainPhysicalDimensions((high - low + 2 * _CONTROL_MM).tolist())
    bend.SetTransformDomainMeshSize((mesh + 2).tolist())
    bend.SetParameters(rng.normal(0.0, _BEND_MM, len(bend.GetParameters())).tolist())
    transform = sitk.CompositeTransform([affine, bend])
    spacing = np.maximum(volume.spacing, (1.5, 1.5, rng.uniform(*_SPACING_MM)))
    size = np.round(np.array(image.GetSize()) * image.GetSpacing() / spacing).astype(int)
    copy = sitk.Resample(
        image, size.tolist(), transform, sitk.sitkLinear, image.GetOrigin(), spacing.tolist(), image.GetDirection(),
        float(OUTSIDE_HU), sitk.sitkFloat32,
    )  # fmt: skip
    hu = sitk.GetArrayFromImage(copy)
    noise = rng.normal(0.0, _NOISE_HU, hu.shape).astype(np.float32)
    hu = np.clip(np.where(hu > OUTSIDE_HU, hu + noise, hu), -1024, 3071)
    result = sitk.GetImageFromArray(np.round(hu).astype(np.int16))
    result.CopyInformation(copy)
    return WarpedScan(Volume.from_sitk(result, name=f"{volume.name} bent"), transform)


_INSIDE_MM = 2.0
_OUTSIDE_MM = 10.0
_CUT_SHARE = 0.6  # share of a labelled scan's height that is kept
_BENT_SHARE = (0.35, 0.6)  # range of the share of a bent scan's height that is kept
_BENT_POINTS = 120
_PHANTOM_POINTS = 150
_SAME_HEIGHT = 2 / 3  # if the ratio of a structure's heights in two scans is smaller, one outline is incomplete
# group of each point of `measure_all`
_ROWS = np.array([CENTRE] + 6 * [EXTREME] + 6 * [INNER])
_TOP, _BOTTOM = KINDS.index("superior"), KINDS.index("inferior")
# People click such points. Extreme points also depend on the person who drew the outline.
CLICKED = (CENTRE, INNER, LANDMARK)

Embed = Callable[[Volume], EmbeddingMap]
Skip = Callable[[str], None]  # called with the reason if a scan, or a part of it, cannot be embedded


@dataclass(frozen=True, eq=False)
class Trial:
    """N points of a template, with their true places in a target.

    template_ras, target_ras: (N, 3) RAS mm; rows of target_ras are NaN for points absent from the target.
    whole: False if the target is cut to a part of its height. groups: for each point, one of `label_names.GROUPS`.
    """

    template: EmbeddingMap
    template_ras: np.ndarray
    target: EmbeddingMap
    target_ras: np.ndarray
    whole: bool
    groups: tuple[str, ...]

    def errors_mm(self, found: Matches) -> np.ndarray:
        """Return the distance of each answer from its true place, (N,) mm; infinite if the point is absent."""
        errors = np.linalg.norm(found.points_ras - self.target_ras, axis=1)
        return np.where(np.isfinite(errors), errors, np.inf)


def cut_scan(volume: Volume, low_mm: float, high_mm: float) -> Volume:
    """Return the slices of a scan between two heights, RAS z in mm. Raises VolumeError if there is no such slice."""
    box_ras = volume.bounds_ras.copy()
    box_ras[:, 2] = low_mm, high_mm
    return crop_voxels(volume, box_ras)


def labelled_trials(
    cases: Sequence[Case], embed: Embed, groups: Collection[str], skip: Skip = lambda reason: None
) -> Iterator[Trial]:
    """Yield trials of every ordered pair of labelled scans.

    If the two scans show one patient, the points are landmarks. Otherwise the points are points of structures, and
    landmarks whose name does not end with a number. A structure is left out if its heights in the two scans differ so
    much that one of the outlines is probably incomplete. A target with horizontal slices is also tried without its
    upper part and without its lower part. groups: the groups of points that are tried, of `label_names.GROUPS`.
    """
    maps = {case.id: embed(case.volume) for case in cases}
    cases = [_with_halves(case) for case in cases]
    for target in cases:
        low, high = target.volume.bounds_ras[:, 2]
        reach = _CUT_SHARE * (high - low)
        for cut in (None, (low, low + reach), (high - reach, high)):
            if cut is not None and not (target.structures and _upright(target.volume)):
                continue
            try:
                seen = maps[target.id] if cut is None else embed(cut_scan(target.volume, *cut))
            except VolumeError as error:  # the part may show hardly anything but air
                skip(str(error))
                continue
            for template in cases:
                if template.id == target.id or (template.patient == target.patient and cut is not None):
                    continue
                points, truth, kinds = _shared(template, target, cut, groups)
                if len(points):
                    yield Trial(maps[template.id], points, seen, truth, cut is None, kinds)


def _with_halves(case: Case) -> Case:
    """Return a case whose structures have the points of `measure_all`: name -> points (13, 3) RAS mm."""
    if not case.structures:
        return case
    labels = case.label_map
    names = {value: name for name, value in labels.values.items()}
    return replace(case, structures=find_structures(labels.layers, labels.ijk_to_ras, names, measure_all)[0])


def _shared(
    template: Case, target: Case, cut: tuple[float, float] | None, groups: Collection[str]
) -> tuple[np.ndarray, np.ndarray, tuple[str, ...]]:
    same = template.patient == target.patient
    named = [n for n in sorted(template.landmarks) if n in target.landmarks and (same or not n[-1].isdigit())]
    points, truth = ([np.array([case.landmarks[n] for n in named]).reshape(-1, 3)] for case in (template, target))
    placed, kinds = [_placed(truth[0], cut)], [np.full(len(named), LANDMARK)]
    for name in () if same else sorted(template.structures.keys() & target.structures.keys()):
        own, other = template.structures[name], target.structures[name]
        heights = own[_TOP, 2] - own[_BOTTOM, 2], other[_TOP, 2] - other[_BOTTOM, 2]
        there = _placed(other[: len(KINDS)], cut)
        # structures that the cut divides are left out, because their centre and extremes would change
        if min(heights) >= _SAME_HEIGHT * max(heights) and (there == there[0]).all():
            points.append(own)
            truth.append(other)
            placed.append(np.full(len(own), there[0]))
            kinds.append(_ROWS)
    one, other, where, group = map(np.concatenate, (points, truth, placed, kinds))
    used = (where != 0) & np.isin(group, list(groups)) & np.isfinite(one + other).all(axis=1)
    return one[used], np.where(where[used, None] > 0, other[used], np.nan), tuple(group[used].tolist())


def _upright(volume: Volume) -> bool:
    """Return whether the slices of a scan are horizontal. Only a scan with horizontal slices can be cut at a height."""
    axes = volume.ijk_to_ras[:3, :3] / np.linalg.norm(volume.ijk_to_ras[:3, :3], axis=0)
    return bool(np.abs(axes[2]).max() > _UPRIGHT)


def _placed(places: np.ndarray, cut: tuple[float, float] | None) -> np.ndarray:
    """Return (n,): 1 for a place between the heights `cut`, -1 for a place outside, 0 near a height. No cut: all 1."""
    if cut is None:
        return np.ones(len(places))
    beyond = np.maximum(cut[0] - places[:, 2], places[:, 2] - cut[1])
    return np.where(beyond < -_INSIDE_MM, 1, np.where(beyond > _OUTSIDE_MM, -1, 0))


def bent_trials(volumes: Iterable[Volume], embed: Embed, skip: Skip = lambda reason: None) -> Iterator[Trial]:
    """Yield trials of random points of each scan. The target is a bent copy of the scan, first whole, then cut."""
    for number, volume in enumerate(volumes):
        rng = np.random.default_rng(number)
        copy = warp_scan(volume, number)
        try:
            template, whole = embed(volume), embed(copy.volume)
        except VolumeError as error:
            skip(str(error))
            continue
        index = whole.body_index.numpy()
        cells = index[rng.integers(len(index), size=_BENT_POINTS)] + rng.uniform(-0.5, 0.5, (_BENT_POINTS, 3))
        truth = transform_points(whole.cell_to_ras, cells)
        truth = truth[copy.volume.contains(truth)]
        points = copy.to_original(truth)
        held = volume.contains(points)
        points, truth = points[held], truth[held]
        low, high = copy.volume.bounds_ras[:, 2]
        share = rng.uniform(*_BENT_SHARE)
        start = low + rng.uniform(0.0, 1.0 - share) * (high - low)
        cut = (start, start + share * (high - low))
        yield Trial(template, points, whole, truth, True, (LANDMARK,) * len(points))
        if not _upright(copy.volume):
            continue
        placed = _placed(truth, cut)
        kept = placed != 0
        there = np.where(placed[kept, None] > 0, truth[kept], np.nan)
        try:
            part = embed(cut_scan(copy.volume, *cut))
        except VolumeError as error:
            skip(str(error))
            continue
        yield Trial(template, points[kept], part, there, False, (LANDMARK,) * int(kept.sum()))


def phantom_trials(seeds: Iterable[int], embed: Embed, groups: Collection[str]) -> Iterator[Trial]:
    """Yield trials that match each synthetic patient with every scan of the next patient, and the last with the first.

    groups: the groups of points that are tried, of `label_names.GROUPS`.
    """
    seeds, rng = list(seeds), np.random.default_rng(0)
    first = one = phantom_views(seeds[0]) if seeds else {}
    for seed in [*seeds[1:], None][: len(seeds)]:
        other = first if seed is None else phantom_views(seed)
        template, whole = (_phantom_case(views["whole"]) for views in (one, other))
        template_map = embed(one["whole"].volume)
        for view, phantom in other.items():
            low, high = phantom.volume.bounds_ras[:, 2]
            points, truth, kinds = _shared(template, whole, None if view == "whole" else (low, high), groups)
            some = np.flatnonzero(one["whole"].volume.contains(points))
            some = np.sort(rng.permutation(some)[:_PHANTOM_POINTS])
            kinds = tuple(kinds[n] for n in some)
            yield Trial(template_map, points[some], embed(phantom.volume), truth[some], view == "whole", kinds)
        one = other


def _phantom_case(phantom: Phantom) -> Case:
    structures, left_out = find_structures(
        phantom.labels, phantom.volume.ijk_to_ras, structure_names(phantom), measure_all
    )
    return Case(phantom.volume.name, Path(), structures, {}, left_out)
