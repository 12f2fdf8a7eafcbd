"""Pairs of scans with points whose true matches are known.

There are three kinds of pairs: two labelled scans, a scan and its copy bent by a known transform, and two synthetic
patients. Some targets are cut to a part of their height. A point outside this part is absent from the target, and its
true place is NaN. Points near a border of the part (2 mm inside to 10 mm outside) are left out.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from ..embedding.map import EmbeddingMap
from ..errors import VolumeError
from ..matching.match import Matches
from ..phantom import Phantom
from ..phantom.patient import phantom_views
from ..scan.cropping import crop_voxels
from ..scan.geometry import transform_points
from ..scan.volume import Volume
from ..structures.examples import phantom_labels
from ..structures.label_names import (
    CENTRE,
    EXTREME,
    INNER,
    KINDS,
    LANDMARK,
    find_structures,
    measure_all,
)
from ..structures.labelled_scans import Case
from .warped_scans import warp_scan

_UPRIGHT = 0.999  # least cosine of the angle between the slices and the horizontal plane
_INSIDE_MM = 2.0  # points so deep in a cut scan are present; by hand
_OUTSIDE_MM = 10.0  # points so far outside are absent; between both, they are left out; by hand
_CUT_SHARE = 0.6  # share of a labelled scan's height that is kept
_BENT_SHARE = (0.35, 0.6)  # range of the share of a bent scan's height that is kept
_BENT_POINTS = 120  # of a pair; by hand
_PHANTOM_POINTS = 150  # most of a pair; by hand
# if the ratio of a structure's heights in two scans is smaller, one outline is incomplete
_SAME_HEIGHT = 2 / 3
# group of each point of `measure_all`
_ROWS = np.array([CENTRE] + 6 * [EXTREME] + 6 * [INNER])
_TOP = KINDS.index("superior")
_BOTTOM = KINDS.index("inferior")
# People click such points. Extreme points also depend on the person who drew the outline.
CLICKED = (CENTRE, INNER, LANDMARK)

Embed = Callable[[Volume], EmbeddingMap]
# called with the reason if a scan, or a part of it, cannot be embedded
Skip = Callable[[str], None]


@dataclass(frozen=True, eq=False)
class Trial:
    """N points of a template, with their true places in a target.

    template_ras, target_ras: (N, 3) RAS mm; rows of target_ras are NaN for points absent from the target.
    whole: False if the target is cut to a part of its height. groups: for each point, one of `label_names.GROUPS`;
    empty if nobody asks.
    """

    template: EmbeddingMap
    template_ras: np.ndarray
    target: EmbeddingMap
    target_ras: np.ndarray
    whole: bool
    groups: tuple[str, ...] = ()

    def errors_mm(self, matches: Matches) -> np.ndarray:
        """Return the distance of each answer from its true place, (N,) mm; infinite if the point is absent."""
        errors = np.linalg.norm(matches.points_ras - self.target_ras, axis=1)
        return np.where(np.isfinite(errors), errors, np.inf)


def cut_scan(volume: Volume, low_mm: float, high_mm: float) -> Volume:
    """Return the slices of a scan between two heights, RAS z in mm. Raises VolumeError if there is no such slice.

    Args:
        volume: the scan.
        low_mm, high_mm: the heights.
    """
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
    upper part and without its lower part.

    Args:
        cases: the labelled scans.
        embed: makes the maps.
        groups: the groups of points that are tried, of `label_names.GROUPS`.
        skip: called with the reason if a part of a scan cannot be embedded.
    """
    maps = {case.id: embed(case.volume) for case in cases}
    cases = [_with_inner_points(case) for case in cases]
    for target in cases:
        for template in cases:
            if template.id != target.id:
                points, truth, kinds = _shared(template, target, None, groups)
                if len(points):
                    yield Trial(maps[template.id], points, maps[target.id], truth, True, kinds)
        if not target.structures or not _upright(target.volume):
            continue
        low, high = target.volume.bounds_ras[:, 2]
        reach = _CUT_SHARE * (high - low)
        for cut in ((low, low + reach), (high - reach, high)):
            try:
                part = embed(cut_scan(target.volume, *cut))
            except VolumeError as error:  # the part may show hardly anything but air
                skip(str(error))
                continue
            for template in cases:
                if template.patient != target.patient:
                    points, truth, kinds = _shared(template, target, cut, groups)
                    if len(points):
                        yield Trial(maps[template.id], points, part, truth, False, kinds)


def _with_inner_points(case: Case) -> Case:
    """Return a case whose structures have the points of `measure_all`: name -> points (13, 3) RAS mm."""
    if not case.structures:
        return case
    return replace(case, structures=find_structures(case.label_map, measure_all)[0])


def _shared(
    template: Case, target: Case, cut: tuple[float, float] | None, groups: Collection[str]
) -> tuple[np.ndarray, np.ndarray, tuple[str, ...]]:
    """Return the n points that two cases share: (n, 3) RAS mm in the template, in the target, and groups (n,).

    A place of the target is NaN if it lies outside `cut`, that is, if the point is absent. Points near a height of
    `cut`, and structures that are not measured equally in both cases, are left out.

    Args:
        template, target: the cases, with the points of `measure_all`.
        cut: lowest and highest RAS z of the target's part that is shown, mm; None for the whole scan.
        groups: the groups of points to return.
    """
    one_patient = template.patient == target.patient
    names = sorted(template.landmarks.keys() & target.landmarks.keys())
    structures = sorted(template.structures.keys() & target.structures.keys())
    if one_patient:
        structures = []
    else:
        names = [name for name in names if not name[-1].isdigit()]
    points = [np.array([template.landmarks[name] for name in names]).reshape(-1, 3)]
    truth = [np.array([target.landmarks[name] for name in names]).reshape(-1, 3)]
    sides = [_side_of_cut(truth[0], cut)]
    kinds = [np.full(len(names), LANDMARK)]
    for name in structures:
        template_points = template.structures[name]
        target_points = target.structures[name]
        heights = [shape[_TOP, 2] - shape[_BOTTOM, 2] for shape in (template_points, target_points)]
        side = _side_of_cut(target_points[: len(KINDS)], cut)
        # structures that the cut divides are left out, because their centre and extremes would change
        if min(heights) >= _SAME_HEIGHT * max(heights) and (side == side[0]).all():
            points.append(template_points)
            truth.append(target_points)
            sides.append(np.full(len(template_points), side[0]))
            kinds.append(_ROWS)
    template_ras = np.concatenate(points)
    target_ras = np.concatenate(truth)
    side = np.concatenate(sides)
    group = np.concatenate(kinds)
    used = (
        (side != 0)
        & np.isin(group, list(groups))
        & np.isfinite(template_ras + target_ras).all(axis=1)
    )
    present_ras = np.where(side[used, None] > 0, target_ras[used], np.nan)
    return template_ras[used], present_ras, tuple(group[used].tolist())


def _upright(volume: Volume) -> bool:
    """Return whether the slices of a scan are horizontal. Only a scan with horizontal slices can be cut at a height."""
    # of the angles between the voxel axes and S
    cosines = np.abs(volume.ijk_to_ras[2, :3] / volume.spacing)
    return bool(cosines.max() > _UPRIGHT)


def _side_of_cut(places: np.ndarray, cut: tuple[float, float] | None) -> np.ndarray:
    """Return (n,): 1 for a place between the heights `cut`, -1 for a place outside, 0 near a height. No cut: all 1."""
    if cut is None:
        return np.ones(len(places))
    beyond = np.maximum(cut[0] - places[:, 2], places[:, 2] - cut[1])
    return np.where(beyond < -_INSIDE_MM, 1, np.where(beyond > _OUTSIDE_MM, -1, 0))


def bent_trials(
    volumes: Iterable[Volume], embed: Embed, skip: Skip = lambda reason: None
) -> Iterator[Trial]:
    """Yield trials of random points of each scan. The target is a bent copy of the scan, first whole, then cut.

    Args:
        volumes: the scans.
        embed: makes the maps.
        skip: called with the reason if a scan, or a part of it, cannot be embedded.
    """
    for number, volume in enumerate(volumes):
        rng = np.random.default_rng(number)
        copy = warp_scan(volume, number)
        try:
            template = embed(volume)
            whole = embed(copy.volume)
        except VolumeError as error:
            skip(str(error))
            continue
        truth = random_points(whole, _BENT_POINTS, rng)
        truth = truth[copy.volume.contains(truth)]
        points = copy.to_original(truth)
        in_field = volume.contains(points)
        points = points[in_field]
        truth = truth[in_field]
        low, high = copy.volume.bounds_ras[:, 2]
        share = rng.uniform(*_BENT_SHARE)
        start = low + rng.uniform(0.0, 1.0 - share) * (high - low)
        cut = (start, start + share * (high - low))
        landmarks = (LANDMARK,) * len(points)
        yield Trial(template, points, whole, truth, whole=True, groups=landmarks)
        if not _upright(copy.volume):
            continue
        side = _side_of_cut(truth, cut)
        clear = side != 0
        cut_truth = np.where(side[clear, None] > 0, truth[clear], np.nan)
        try:
            part = embed(cut_scan(copy.volume, *cut))
        except VolumeError as error:
            skip(str(error))
            continue
        landmarks = (LANDMARK,) * int(clear.sum())
        yield Trial(template, points[clear], part, cut_truth, whole=False, groups=landmarks)


def random_points(embedding: EmbeddingMap, count: int, rng: np.random.Generator) -> np.ndarray:
    """Return random points (count, 3), RAS mm, in the body cells of a map."""
    body = embedding.body_index.numpy()
    cells = body[rng.integers(len(body), size=count)] + rng.uniform(-0.5, 0.5, (count, 3))
    return transform_points(embedding.cell_to_ras, cells)


def phantom_trials(seeds: Sequence[int], embed: Embed, groups: Collection[str]) -> Iterator[Trial]:
    """Yield trials that match each synthetic patient with every scan of the next patient, and the last with the first.

    Args:
        seeds: seeds of the synthetic patients.
        embed: makes the maps.
        groups: the groups of points that are tried, of `label_names.GROUPS`.
    """
    if not seeds:
        return
    rng = np.random.default_rng(0)
    first_views = template_views = phantom_views(seeds[0])
    for number in range(1, len(seeds) + 1):
        is_last = number == len(seeds)
        target_views = first_views if is_last else phantom_views(seeds[number])
        template_scan = template_views["whole"].volume
        template_map = embed(template_scan)
        template = _phantom_case(template_views["whole"])
        target = _phantom_case(target_views["whole"])
        for view, phantom in target_views.items():
            is_whole = view == "whole"
            low, high = phantom.volume.bounds_ras[:, 2]
            cut = None if is_whole else (low, high)
            points, truth, kinds = _shared(template, target, cut, groups)
            chosen = np.flatnonzero(template_scan.contains(points))
            chosen = np.sort(rng.permutation(chosen)[:_PHANTOM_POINTS])
            kinds = tuple(kinds[n] for n in chosen)
            target_map = embed(phantom.volume)
            yield Trial(template_map, points[chosen], target_map, truth[chosen], is_whole, kinds)
        template_views = target_views


def _phantom_case(phantom: Phantom) -> Case:
    structures, left_out = find_structures(phantom_labels(phantom), measure_all)
    return Case(phantom.volume.name, Path(), structures, {}, left_out)
