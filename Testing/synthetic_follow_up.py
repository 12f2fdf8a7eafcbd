"""A synthetic patient scanned two or more times. Lesions appear, grow, shrink, vanish, split and merge.

Between scans, the patient gains or loses weight, breathes differently and lies in another position on the table. Scans
differ in field of view, slices, noise and contrast phase. The history of each lesion is known.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Self

import numpy as np

from AnatomicalEmbedding.phantom.anatomy import canonical_anatomy
from AnatomicalEmbedding.phantom.deformation import (
    MAX_BUMP_SLOPE,
    Bumps,
    Deformation,
    rotation_of,
    solve_displacement,
)
from AnatomicalEmbedding.phantom.patient import grid_about
from AnatomicalEmbedding.phantom.render import ScanGrid, add_noise, render
from AnatomicalEmbedding.phantom.tissues import LABEL_ID, PHASES, hu_table
from AnatomicalEmbedding.scan.volume import Volume

VISIBLE, NOT_THERE, OUTSIDE, MERGED = "visible", "not there", "outside", "merged"

_COVERAGE_MM = ((150.0, 565.0), (60.0, 565.0), (230.0, 565.0), (60.0, 430.0))
_SPACINGS = ((2.0, 2.0, 3.0), (1.6, 1.6, 2.5), (1.8, 1.8, 5.0))
_EDGE_MM = 10.0  # least distance of a lesion from the ends of a scan
_SMALLEST_RADIUS_MM, _LARGEST_RADIUS_MM = 3.5, 20.0  # limits of growth
_FATES = {"same": 0.68, "vanish": 0.16, "split": 0.16}
_SPLIT_FROM_MM = 8.0  # smaller lesions do not split

_SOFT_MM = 0.8  # width of the soft border of a lesion
_LOBES = 0.12  # height of the lobes, as a share of the radius
_TEXTURE_HU = 7.0
_FINE_MM = 1.5  # distance of the points that are averaged in a voxel

_BREATH_MM = 12.0  # standard deviation of the diaphragm's height
_MOST_BREATH_MM = 22.0
_TURN_DEG = 2.5
# Moves by breathing: centre of the bump (body mm), reach (mm), share of the diaphragm's move.
_BREATH = (
    ((75, 10, 390), 150, 0.75),
    ((-78, 10, 385), 150, 0.75),
    ((70, 25, 300), 150, 0.45),
    ((-90, -15, 300), 130, 0.35),
    ((-22, 45, 405), 120, 0.15),
)
# Random moves by position: number of bumps, range of their reach (mm), standard deviation of the move per axis (mm).
_LIMP = ((10, (90.0, 150.0), 4.5), (4, (230.0, 320.0), 9.0))

# Kind: labels in which the lesion lies, probability, least and largest radius in mm, CT number by contrast phase.
_BONES = ("vertebrae_", "sacrum", "hip_")
_MUSCLES = ("muscle", "autochthon_", "iliopsoas_", "gluteal_muscles_")
KINDS: dict[
    str, tuple[tuple[str, ...], float, tuple[float, float], tuple[float, float, float, float]]
] = {
    "lung nodule": (("lung_left", "lung_right"), 0.3, (4, 13), (35, 55, 50, 45)),
    "liver metastasis": (("liver",), 0.25, (5, 16), (32, 40, 52, 50)),
    "lymph node": (("visceral_fat",), 0.2, (5, 12), (40, 75, 80, 70)),
    "lytic bone metastasis": (_BONES, 0.07, (5, 11), (50, 70, 65, 60)),
    "sclerotic bone metastasis": (_BONES, 0.06, (5, 11), (780, 780, 780, 780)),
    "spleen metastasis": (("spleen",), 0.04, (5, 11), (25, 45, 55, 50)),
    "kidney metastasis": (("kidney_left", "kidney_right"), 0.04, (5, 10), (40, 65, 70, 60)),
    "muscle metastasis": (_MUSCLES, 0.04, (6, 12), (30, 100, 95, 85)),
}


@dataclass(frozen=True)
class Rescan:
    """The map of a patient who is scanned again, in another position.

    `to_body` undoes the turn and the shift on the table, adds `moves` and applies the patient's map. All points are
    (N, 3) mm.
    """

    patient: Deformation
    rotation: np.ndarray
    middle: np.ndarray
    shift: np.ndarray
    moves: Bumps

    @classmethod
    def random(cls, patient: Deformation, rng: np.random.Generator) -> Self:
        """Draw a random rescan of a patient."""
        breath = float(np.clip(rng.normal(0, _BREATH_MM), -_MOST_BREATH_MM, _MOST_BREATH_MM))
        fat = replace(
            patient.fat,
            change=float(np.clip(patient.fat.change + rng.uniform(-0.3, 0.3), -0.6, 0.65)),
        )
        patient = replace(
            patient, fat=fat, thickness_scale=patient.thickness_scale * (1 - 0.002 * breath)
        )
        center = [np.array(c, float) for c, _, _ in _BREATH]
        reach = [float(r) for _, r, _ in _BREATH]
        move = [share * breath * np.array([0.0, 0.2, -1.0]) for _, _, share in _BREATH]
        for count, reaches, size in _LIMP:
            center += list(rng.uniform((-140, -80, -40), (140, 110, 580), (count, 3)))
            reach += list(rng.uniform(*reaches, count))
            move += list(rng.normal(0, size, (count, 3)))
        moves = Bumps(patient.from_body(np.array(center)), np.array(reach), np.array(move))
        moves = Bumps(
            moves.center,
            moves.reach_mm,
            moves.shift_mm / max(moves.slope_bound / MAX_BUMP_SLOPE, 1.0),
        )
        return cls(
            patient,
            rotation_of(np.deg2rad(rng.normal(0, _TURN_DEG, 3)).clip(-0.1, 0.1)),
            patient.from_body(np.array([[0.0, 0.0, 300.0]]))[0],
            rng.uniform((-40, -40, -300), (40, 40, 300)),
            moves,
        )

    def to_body(self, points_ras: np.ndarray) -> np.ndarray:
        """Patient RAS of the rescan (N, 3) -> canonical body frame (N, 3)."""
        points = (
            np.atleast_2d(points_ras) - self.shift - self.middle
        ) @ self.rotation.T + self.middle
        return self.patient.to_body(points + self.moves(points))

    def from_body(self, points_body: np.ndarray) -> np.ndarray:
        """Canonical body frame (N, 3) -> patient RAS of the rescan (N, 3); inverse of `to_body`."""
        points = solve_displacement(self.patient.from_body(points_body), self.moves)
        return (points - self.middle) @ self.rotation + self.middle + self.shift


@dataclass(frozen=True)
class Shape:
    """The shape of a lesion: an ellipsoid with lobes.

    axes: (3, 3), orthonormal rows. stretch: relative lengths of the half axes; the longest is 1. waves: (3, 4),
    direction (3) and phase of three waves that make the lobes. texture: seed of the texture.
    """

    axes: np.ndarray
    stretch: tuple[float, float, float]
    waves: np.ndarray
    texture: int

    @classmethod
    def random(cls, rng: np.random.Generator) -> Self:
        axes = np.linalg.qr(rng.normal(size=(3, 3)))[0]
        stretch = (1.0, float(rng.uniform(0.8, 1.0)), float(rng.uniform(0.7, 0.95)))
        waves = np.column_stack([rng.normal(0, 2.2, (3, 3)), rng.uniform(0, 2 * np.pi, 3)])
        return cls(axes, stretch, waves, int(rng.integers(2**31)))

    def outside_mm(self, offset: np.ndarray, radius_mm: float) -> np.ndarray:
        """Return the approximate distance, mm, of offsets (..., 3) mm from the surface; negative inside."""
        scaled = offset @ self.axes.T / (radius_mm * np.array(self.stretch))
        away = np.linalg.norm(scaled, axis=-1)
        direction = scaled / np.maximum(away, 1e-6)[..., None]
        lobes = np.cos(direction @ self.waves[:, :3].T + self.waves[:, 3]).mean(axis=-1)
        return (away - 1 - _LOBES * lobes) * radius_mm * float(np.mean(self.stretch))


def draw_lesion(
    voxels: np.ndarray,
    grid: ScanGrid,
    kind: str,
    phase: str,
    blobs: Sequence[tuple[np.ndarray, float]],
    shape: Shape,
) -> None:
    """Draw one lesion into voxels (k, j, i), float HU: the union of its blobs, each (middle RAS mm, radius mm)."""
    middles = np.array([middle for middle, _ in blobs])
    reach = max(radius for _, radius in blobs) * (1 + _LOBES) + 4 * _SOFT_MM
    to_ijk = np.linalg.inv(grid.ijk_to_ras)
    corners = np.concatenate([middles - reach, middles + reach]) @ to_ijk[:3, :3].T + to_ijk[:3, 3]
    size = np.array(grid.shape[::-1])
    low = np.clip(np.floor(corners.min(0)).astype(int), 0, size)
    high = np.clip(np.ceil(corners.max(0)).astype(int) + 1, 0, size)
    if (high <= low).any():
        return
    share = _share(grid, low, high, blobs, shape)
    part = voxels[tuple(slice(a, b) for a, b in zip(low[::-1], high[::-1], strict=True))]
    rng = np.random.default_rng(shape.texture)
    hu = KINDS[kind][3][PHASES.index(phase)] + rng.normal(0, _TEXTURE_HU, part.shape)
    part += share * (hu - part)


def _share(
    grid: ScanGrid,
    low: np.ndarray,
    high: np.ndarray,
    blobs: Sequence[tuple[np.ndarray, float]],
    shape: Shape,
) -> np.ndarray:
    """Compute the share of the lesion in each voxel (k, j, i) of a box; large voxels are averages over many points."""
    counts = [max(round(spacing / _FINE_MM), 1) for spacing in grid.spacing]
    steps = [(np.arange(count) + 0.5) / count - 0.5 for count in counts]
    total = np.zeros((high - low)[::-1])
    for shift in np.stack(np.meshgrid(*steps, indexing="ij"), axis=-1).reshape(-1, 3):
        i, j, k = (np.arange(a, b) + s for a, b, s in zip(low, high, shift, strict=True))
        k, j, i = np.meshgrid(k, j, i, indexing="ij")
        places = np.stack([i, j, k], axis=-1) @ grid.ijk_to_ras[:3, :3].T + grid.ijk_to_ras[:3, 3]
        outside = np.min(
            [shape.outside_mm(places - middle, radius) for middle, radius in blobs], axis=0
        )
        total += 1 / (1 + np.exp(np.clip(outside / (_SOFT_MM / 2), -40, 40)))
    return total / np.prod(counts)


@dataclass(frozen=True)
class LesionState:
    """A lesion in one study.

    state: one of VISIBLE, NOT_THERE, OUTSIDE, MERGED. point_ras: place of the lesion, RAS mm, known in every state.
    radius_mm: half the longest diameter; 0 if not visible. into: id of the lesion with which this lesion has merged.
    """

    state: str
    point_ras: np.ndarray
    radius_mm: float = 0.0
    into: str = ""


@dataclass(frozen=True)
class LesionHistory:
    """A lesion in all studies. states: one per study, in order. split_from: id of the lesion of which it was a part."""

    id: str
    kind: str
    states: tuple[LesionState, ...]
    split_from: str = ""


@dataclass(frozen=True, eq=False)
class PhantomFollowUp:
    """Scans (`volumes`) in order of time, lesions visible in at least one, and the patient's map of each (`days`)."""

    volumes: tuple[Volume, ...] = field(repr=False)
    lesions: tuple[LesionHistory, ...]
    days: tuple[Deformation | Rescan, ...] = field(repr=False)

    def to_study(self, points_ras: np.ndarray, source: int, target: int) -> np.ndarray:
        """Map points (N, 3) RAS mm of study `source` to the same anatomy in study `target`: (N, 3) RAS mm, exact."""
        return self.days[target].from_body(self.days[source].to_body(points_ras))


@dataclass(frozen=True)
class _Lesion:
    """A lesion in one study. place: body mm. blobs: (middle in body mm, radius in mm); () if there is no lesion."""

    id: str
    kind: str
    shape: Shape
    place: np.ndarray
    blobs: tuple[tuple[np.ndarray, float], ...] = ()
    split_from: str = ""
    into: str = ""
    is_final: bool = False  # a lesion that vanished, split or merged does not do so again

    @property
    def radius(self) -> float:
        middle = np.mean([p for p, _ in self.blobs], axis=0)
        return max(float(np.linalg.norm(p - middle)) + r for p, r in self.blobs)


def make_follow_up(seed: int, studies: int = 2) -> PhantomFollowUp:
    """Make one synthetic patient and scan the patient several times. Equal arguments give equal scans.

    seed: 0 or more; the patient is the same as in `make_phantom(seed)`. studies: number of scans, 2 or more.
    """
    shape_rng, phase_rng, hu_rng, image_rng = (
        np.random.default_rng(s) for s in np.random.SeedSequence(seed).spawn(4)
    )
    texture = image_rng.bit_generator.state
    rng = np.random.default_rng([seed, 8])
    patient = Deformation.random(shape_rng)
    days: list[Deformation | Rescan] = [
        patient,
        *(Rescan.random(patient, rng) for _ in range(studies - 1)),
    ]
    course = _draw_course(studies, rng)
    coverage = [_choose_coverage(number, days, course, rng) for number in range(studies)]
    phase = str(phase_rng.choice(PHASES))
    tissue_seed = int(hu_rng.integers(2**31))
    anatomy = canonical_anatomy(False)
    volumes = []
    for number, (day, (low, high)) in enumerate(zip(days, coverage, strict=True)):
        if number and rng.uniform() < 0.3:
            phase = str(rng.choice(PHASES))
        grid = grid_about(day, anatomy, _SPACINGS[rng.integers(len(_SPACINGS))], low, high)
        image_rng.bit_generator.state = texture
        hu = hu_table(phase, np.random.default_rng(tissue_seed))
        voxels = render(day.to_body, grid, anatomy, hu, 0.0, True, image_rng)[0].astype(np.float32)
        for lesion in course[number]:
            if lesion.blobs:
                blobs = [(day.from_body(place)[0], radius) for place, radius in lesion.blobs]
                draw_lesion(voxels, grid, lesion.kind, phase, blobs, lesion.shape)
        add_noise(voxels, rng.uniform(8, 18), rng)
        voxels = np.clip(np.rint(voxels), -1024, 3071).astype(np.int16)
        volumes.append(Volume(voxels, grid.ijk_to_ras, name=f"patient-{seed}-study-{number + 1}"))
    by_id = [{lesion.id: lesion for lesion in lesions} for lesions in course]
    histories = [
        _history([lesions[name] for lesions in by_id], volumes, days) for name in by_id[-1]
    ]
    seen = [each for each in histories if any(state.state == VISIBLE for state in each.states)]
    return PhantomFollowUp(tuple(volumes), tuple(seen), tuple(days))


def _choose_coverage(
    number: int,
    days: Sequence[Deformation | Rescan],
    course: list[list[_Lesion]],
    rng: np.random.Generator,
) -> tuple[float, float]:
    """Choose the range of body heights that a scan shows, so that no lesion lies at an end of the scan."""
    places = np.array([lesion.place for lesions in course for lesion in lesions])
    heights = days[number].from_body(places)[:, 2]
    odds = (0.55, 0.15, 0.15, 0.15)
    while True:
        low, high = np.array(_COVERAGE_MM[rng.choice(len(odds), p=odds)]) + rng.uniform(-15, 15, 2)
        ends = days[number].from_body(np.array([[0, 0, low], [0, 0, high]]))[:, 2]
        if np.abs(heights[:, None] - ends).min() > _EDGE_MM:
            return float(low), float(high)


# -- the course of lesions --------------------------------------------------------------------------------------------


def _draw_course(studies: int, rng: np.random.Generator) -> list[list[_Lesion]]:
    """Draw the lesions of each study. Every list holds all lesions; a lesion that is not there has no blobs."""
    present: list[_Lesion] = []
    for _ in range(int(rng.integers(5, 10))):
        _add_lesion(present, rng, near=present[-1] if present and rng.uniform() < 0.25 else None)
    pairs = {}
    if (
        rng.uniform() < 0.6
        and _add_lesion(present, rng)
        and _add_lesion(present, rng, present[-1], gap=(1.2, 1.4))
    ):
        # the two lesions are close, and merge in the second study
        pairs = {present[-2].id: present[-1].id}
    course = [present]
    for number in range(1, studies):
        later = _next(course[-1], rng, pairs if number == 1 else {})
        for _ in range(int(rng.integers(0, 3))):
            _add_lesion(
                later, rng, near=later[rng.integers(len(later))] if rng.uniform() < 0.3 else None
            )
        course.append(later)
    last = course[-1]
    for number, lesions in enumerate(course):
        known = {lesion.id for lesion in lesions}
        course[number] = lesions + [
            replace(each, blobs=(), into="") for each in last if each.id not in known
        ]
    return course


def _next(lesions: list[_Lesion], rng: np.random.Generator, pairs: dict[str, str]) -> list[_Lesion]:
    later: list[_Lesion] = []
    parts: list[_Lesion] = []
    by_id = {lesion.id: lesion for lesion in lesions}
    for lesion in lesions:
        fate = ""
        if lesion.blobs and lesion.id not in {*pairs, *pairs.values()}:
            fate = (
                "same"
                if lesion.is_final
                else str(rng.choice(list(_FATES), p=list(_FATES.values())))
            )
        if not lesion.blobs:
            later.append(lesion)
        elif lesion.id in pairs:
            later.append(_merged(lesion, by_id[pairs[lesion.id]]))
        elif not fate:
            into = next(one for one, other in pairs.items() if other == lesion.id)
            later.append(replace(lesion, blobs=(), into=into, is_final=True))
        elif fate == "vanish":
            later.append(replace(lesion, blobs=(), is_final=True))
        elif fate == "split" and lesion.radius >= _SPLIT_FROM_MM:
            one, other = _split(lesion, f"{lesion.id}b", rng)
            later.append(one)
            parts.append(other)
        else:
            later.append(_grown(lesion, rng))
    return later + parts


def _grown(lesion: _Lesion, rng: np.random.Generator) -> _Lesion:
    factor = np.exp(rng.uniform(np.log(0.6), np.log(1.6)))
    factor = np.clip(
        factor, _SMALLEST_RADIUS_MM / lesion.radius, max(_LARGEST_RADIUS_MM / lesion.radius, 1.0)
    )
    drift = rng.normal(size=3)
    drift *= 0.25 * abs(factor - 1) * lesion.radius / np.linalg.norm(drift)
    middle = lesion.place
    blobs = tuple(
        (middle + (place - middle) * factor + drift, radius * factor)
        for place, radius in lesion.blobs
    )
    return replace(lesion, blobs=blobs, place=middle + drift)


def _split(lesion: _Lesion, other_id: str, rng: np.random.Generator) -> tuple[_Lesion, _Lesion]:
    direction = rng.normal(size=3)
    direction /= np.linalg.norm(direction)
    radius = lesion.radius
    sizes = radius * np.sort(rng.uniform(0.45, 0.6, 2))[::-1]
    places = lesion.place + np.outer([0.65, -0.75], direction) * radius
    one = replace(lesion, place=places[0], blobs=((places[0], float(sizes[0])),), is_final=True)
    other = replace(
        one,
        id=other_id,
        place=places[1],
        blobs=((places[1], float(sizes[1])),),
        split_from=lesion.id,
    )
    return one, replace(other, shape=Shape.random(rng))


def _merged(lesion: _Lesion, other: _Lesion) -> _Lesion:
    """Merge two lesions: both grow until they overlap clearly."""
    gap = float(np.linalg.norm(lesion.place - other.place))
    factor = 1.25 * gap / (lesion.radius + other.radius)
    blobs = tuple((each.place, each.radius * factor) for each in (lesion, other))
    return replace(lesion, blobs=blobs, place=(lesion.place + other.place) / 2, is_final=True)


def _add_lesion(
    present: list[_Lesion],
    rng: np.random.Generator,
    near: _Lesion | None = None,
    gap: tuple[float, float] | None = None,
) -> bool:
    """Add one lesion at a free place; returns whether there was a free place.

    near: a lesion of the same kind, close to the new lesion; None: any place. gap: least and largest distance from
    `near`, as a multiple of the sum of both radii; None: 20 to 45 mm.
    """
    kinds = list(KINDS)
    odds = np.array([share for _, share, *_ in KINDS.values()])
    for _ in range(300):
        kind = near.kind if near is not None else str(rng.choice(kinds, p=odds / odds.sum()))
        labels, _, (least, most), _ = KINDS[kind]
        radius = float(rng.uniform(least, most))
        if near is None:
            place = _somewhere(labels, rng)
        else:
            direction = rng.normal(size=3)
            away = rng.uniform(*gap) * (radius + near.radius) if gap else rng.uniform(20, 45)
            place = near.place + direction / np.linalg.norm(direction) * away
        if not _fits(place, 0.6 * radius, labels):
            continue
        others = [each for each in present if each.blobs and not (gap and each is near)]
        # keep a distance, because lesions may grow, and lesions that touch look like one
        if all(
            np.linalg.norm(place - each.place) > 1.7 * (radius + each.radius) for each in others
        ):
            number = sum(not each.split_from for each in present) + 1
            present.append(_Lesion(f"{number}", kind, Shape.random(rng), place, ((place, radius),)))
            return True
    return False


def _somewhere(labels: tuple[str, ...], rng: np.random.Generator) -> np.ndarray:
    low = np.array([-170.0, -110.0, 70.0])
    high = np.array([170.0, 130.0, 555.0])
    while True:
        places = rng.uniform(low, high, (2000, 3))
        found = np.flatnonzero(_is_in(places, labels))
        if len(found):
            return places[found[0]]


def _fits(place: np.ndarray, margin_mm: float, labels: tuple[str, ...]) -> bool:
    corners = np.array(
        [[x, y, z] for x in (-1, 0, 1) for y in (-1, 0, 1) for z in (-1, 0, 1)], float
    )
    corners /= np.maximum(np.linalg.norm(corners, axis=1, keepdims=True), 1)
    return bool(_is_in(place + margin_mm * corners, labels).all())


def _is_in(points_body: np.ndarray, labels: tuple[str, ...]) -> np.ndarray:
    """Return (N,) bool: whether each point (N, 3), body mm, lies in a structure whose name begins with a label."""
    anatomy = canonical_anatomy(False)
    numbers = [number for name, number in LABEL_ID.items() if name.startswith(labels)]
    return np.isin(anatomy.nearest(anatomy.label, anatomy.index(points_body)), numbers)


def _history(
    states: list[_Lesion], volumes: Sequence[Volume], days: Sequence[Deformation | Rescan]
) -> LesionHistory:
    found = []
    for lesion, volume, day in zip(states, volumes, days, strict=True):
        place = lesion.place if not lesion.blobs else np.mean([p for p, _ in lesion.blobs], axis=0)
        point = day.from_body(place)[0]
        state = MERGED if lesion.into else VISIBLE if lesion.blobs else NOT_THERE
        if not volume.contains(point[None])[0]:
            state = OUTSIDE
        radius_mm = lesion.radius if state == VISIBLE else 0.0
        into = lesion.into if state == MERGED else ""
        found.append(LesionState(state, point, radius_mm, into))
    return LesionHistory(states[-1].id, states[-1].kind, tuple(found), states[-1].split_from)
