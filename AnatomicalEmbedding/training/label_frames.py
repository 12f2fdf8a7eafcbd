"""Place label maps in the body frame, so that each organ lies at its mean place in many patients.

First each label map gets a scale and a shift along each axis (generalised Procrustes analysis towards the mean shape).
The organs of the mean shape are aligned to the organs of the phantoms' canonical body, so that the frame does not
drift. Then a smooth field moves centres and extremes of the organs to their mean places. If a label map has no
vertebrae, the field is set to zero at the spine and the body wall, so that a low organ does not move spine and wall.

The canonical body was drawn by hand: relative to its organs, its spine is two centimetres from the right place.
`Placement` converts points between the canonical body and the mean of the patients.
"""

import re
from collections.abc import Container, Mapping
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from ..anatomy.names import other_side
from ..errors import AnatomicalEmbeddingError
from ..phantom.anatomy import canonical_anatomy
from ..phantom.frame import BODY, VERTEBRA_Z, spine_y
from ..phantom.tissues import LABEL_ID
from ..scan.label_map import LabelMap
from ..structures.label_names import find_structures, structure_name
from .frames import SETTLED_SCALE_SD, SETTLED_SHIFT_SD_MM, STILL, FrameGuess

FEWEST_STRUCTURES = 3  # a label map with fewer structures cannot be placed
_SHARED_BY = 3  # a structure that the canonical body lacks is used only if at least this many label maps contain it
_ROUNDS = 5  # of alignment with the mean shape; by hand
MOST_SPREAD_MM = 27.0  # a structure whose centre varies more between patients is not used
_BONES = ("vertebrae_", "rib_", "sacrum")
_SCALE_PRIOR_MM2 = 1e4  # spread of organs that counts for the scale 1; by hand
_SIGMA_MM = 35.0  # range over which places move together; by hand, not tuned
# noise variance at a structure's points; the field has variance 1
_CENTRE_NOISE = 0.03
_EXTREME_NOISE = 0.2
_LEAST_SLOPE = 0.25  # least slope of the body map along each axis, relative to its scale; below 0 the map would fold
_WALL_EVERY_MM = 40.0
_WALL_POINTS = 12
# at this variance of the points, the data and the prior (scale 1) have equal weight
_FRAME_PRIOR_MM2 = 3600.0
_EXTREME_WEIGHT = 0.3  # extreme points are less reliable than centres
# Structures whose mean places are symmetric. Some of them are known from few patients, so both sides are averaged.
_SYMMETRIC = re.compile(
    "(vertebrae|rib|clavicula|scapula|humerus|hip|femur|gluteus|iliopsoas|autochthon|eye|parotid)_.*"
    "|sacrum|sternum|skull|mandible|brain|urinary_bladder|prostate"
)
_MIRRORED = [0, 2, 1, 3, 4, 5, 6]  # the mirrored right extreme is the left extreme

Points = dict[str, np.ndarray]  # structure -> (7, 3) RAS mm: centre, then six extremes


@dataclass(frozen=True)
class BodyMap:
    """A function from RAS mm to body coordinates, mm: a scale and a shift on each axis, plus a sum of Gaussians.

    centres_ras: (n, 3) centres of the Gaussians. weights: (n, 3) mm, factor of each Gaussian.
    """

    frame: FrameGuess
    centres_ras: np.ndarray
    weights: np.ndarray

    def to_body(self, points_ras: np.ndarray) -> np.ndarray:
        """Convert points (N, 3) from RAS mm to body coordinates, mm."""
        points = np.atleast_2d(np.asarray(points_ras, np.float64))
        return self.frame.apply(points) + _gaussian(points, self.centres_ras) @ self.weights


@lru_cache(maxsize=1)
def canonical_structures() -> Points:
    """Return centre and extremes (7, 3), mm, of each complete structure in the body from which phantoms are made."""
    anatomy = canonical_anatomy(False)
    to_body = np.diag([anatomy.step] * 3 + [1.0])
    to_body[:3, 3] = anatomy.low
    values: dict[str, int] = {}
    merged = np.zeros(256, np.uint8)
    for name, value in LABEL_ID.items():
        if name != "background":
            merged[value] = values.setdefault(structure_name(name), len(values) + 1)
    return find_structures(LabelMap(merged[anatomy.label], to_body, values))[0]


@dataclass(frozen=True)
class Placement:
    """Where label maps lie in the body frame.

    maps: name of a label map -> its body map. mean: body coordinates (7, 3) of each structure's centre and extremes.
    to_canonical: converts body coordinates to mm in the canonical body. from_canonical: the opposite conversion. The
    two functions are fitted separately, so a point that both functions convert ends a few mm from its start.
    """

    maps: dict[str, BodyMap]
    to_canonical: BodyMap
    from_canonical: BodyMap
    mean: Points


def place(
    structures: Mapping[str, Points],
    count: Mapping[str, int] | None = None,
    first_mean: Points | None = None,
) -> Placement:
    """Place label maps in the body frame.

    Args:
        structures: name of the label map -> name of the structure -> (7, 3) RAS mm, centre and extremes. A label map
            with fewer than FEWEST_STRUCTURES usable structures is left out.
        count: name of the structure -> number of patients who show it; if None, each label map shows another patient.
        first_mean: first guess of the mean shape, (7, 3) mm for each structure; if None, the canonical body.

    Raises AnatomicalEmbeddingError if no label map is left.
    """
    canonical = canonical_structures()
    names = {name for points in structures.values() for name in points}
    if count is None:
        count = {name: sum(name in points for points in structures.values()) for name in names}
    usable = {name for name in names if name in canonical or count[name] >= _SHARED_BY}
    frames = {}
    mean = canonical if first_mean is None else first_mean
    # generalised Procrustes analysis: the label maps are fitted to the mean shape, and the mean of the fitted maps
    # becomes the new mean shape; structures that vary much are left out
    for _ in range(_ROUNDS):
        map_points = _rich_maps(structures, usable & mean.keys())
        if not map_points:
            raise AnatomicalEmbeddingError(
                f"no label map shows {FEWEST_STRUCTURES} or more complete structures; give other label maps."
            )
        frames = {label_map: fit_frame(points, mean) for label_map, points in map_points.items()}
        fitted = {label_map: _among(structures[label_map], usable) for label_map in frames}
        means = {}
        usable = set()
        for name, places_mm in _in_body(fitted, frames).items():
            means[name] = places_mm.mean(axis=0)
            if np.sqrt(places_mm[:, 0].var(axis=0).sum()) <= MOST_SPREAD_MM:
                usable.add(name)
        mean = _among(_symmetric(_fit_to_canonical(means, count), count), usable)
    maps = {}
    for label_map, points in _rich_maps(structures, mean).items():
        if label_map in frames:
            maps[label_map] = _body_map(points, mean, fit_frame(points, mean), count)
    shared = _among(canonical, mean)
    ours = {name: mean[name] for name in shared}
    to_canonical = _body_map(ours, shared, STILL, count)
    from_canonical = _body_map(shared, ours, STILL, count)
    return Placement(maps, to_canonical, from_canonical, mean)


def _rich_maps(structures: Mapping[str, Points], names: Container[str]) -> dict[str, Points]:
    """Return the structures in `names` of each label map with at least FEWEST_STRUCTURES of these structures."""
    rich = {}
    for label_map, points in structures.items():
        chosen = _among(points, names)
        if len(chosen) >= FEWEST_STRUCTURES:
            rich[label_map] = chosen
    return rich


def _among(points: Points, names: Container[str]) -> Points:
    """Return the points of the structures in `names`."""
    return {name: shape for name, shape in points.items() if name in names}


def fit_frame(points: Points, mean: Points) -> FrameGuess:
    """Fit for each axis a shift and a scale, to move a label map's points to the mean shape. Scales stay near 1."""
    # of each structure: its centre, then its six extreme points
    weight = np.tile([1.0] + [_EXTREME_WEIGHT] * 6, len(points))
    weight = weight[:, None] / weight.sum()
    source = np.concatenate(list(points.values()))
    target = np.concatenate([mean[name] for name in points])
    centre = (weight * source).sum(0)
    goal = (weight * target).sum(0)
    away = source - centre
    covariance = (weight * away * (target - goal)).sum(0)
    scale = (covariance + _FRAME_PRIOR_MM2) / ((weight * away**2).sum(0) + _FRAME_PRIOR_MM2)
    return FrameGuess(scale, goal - scale * centre, SETTLED_SCALE_SD, SETTLED_SHIFT_SD_MM)


def _in_body(
    points: Mapping[str, Points], frames: Mapping[str, FrameGuess]
) -> dict[str, np.ndarray]:
    """Return {structure: body coordinates (n, 7, 3) of its 7 points in each of the n label maps that contain it}."""
    body_points: dict[str, list[np.ndarray]] = {}
    for name, structures in points.items():
        for structure, p in structures.items():
            body_points.setdefault(structure, []).append(frames[name].apply(p))
    return {structure: np.array(shapes) for structure, shapes in body_points.items()}


def _fit_to_canonical(mean: Points, count: Mapping[str, int]) -> Points:
    """Return the mean shape, shifted and scaled so that its organs, but not its bones, fit the canonical body."""
    canonical = canonical_structures()
    shared = [name for name in mean if name in canonical and not name.startswith(_BONES)]
    weight = np.sqrt([count[name] for name in shared])[:, None]
    ours = np.array([mean[name][0] for name in shared])
    theirs = np.array([canonical[name][0] for name in shared])
    centre = (weight * ours).sum(0) / weight.sum()
    goal = (weight * theirs).sum(0) / weight.sum()
    variance = (weight * (ours - centre) ** 2).sum(0)
    covariance = (weight * (ours - centre) * (theirs - goal)).sum(0)
    scale = (covariance + _SCALE_PRIOR_MM2) / (variance + _SCALE_PRIOR_MM2)
    return {name: (p - centre) * scale + goal for name, p in mean.items()}


def _symmetric(mean: Points, count: Mapping[str, int]) -> Points:
    """Return the mean shape, in which the structures in _SYMMETRIC are averaged with their mirror images.

    A mirror image has the points of the right and the left extreme exchanged, and the other sign of R. The mirror image
    of a structure without sides is its own.
    """
    symmetric = dict(mean)
    for name in filter(_SYMMETRIC.fullmatch, mean):
        twin = other_side(name)
        if twin in mean:
            total = count[name] * mean[name] + count[twin] * mean[twin][_MIRRORED] * (-1, 1, 1)
            symmetric[name] = total / (count[name] + count[twin])
    return symmetric


def _body_map(points: Points, mean: Points, frame: FrameGuess, count: Mapping[str, int]) -> BodyMap:
    """Fit a field that moves `points` to `mean`. A structure with few patients (`count`) moves only a part of the way,
    because the variance of its mean place is 1 / count of the variance between patients."""
    source = np.concatenate(list(points.values()))
    remaining = np.concatenate([mean[name] for name in points]) - frame.apply(source)
    noise = np.concatenate(
        [np.array([_CENTRE_NOISE] + [_EXTREME_NOISE] * 6) + 1 / count[name] for name in points]
    )
    if not any(name.startswith("vertebrae_") for name in points):
        still = (_spine_and_wall(frame.apply(source)[:, 2]) - frame.shift_mm) / frame.scale
        source = np.concatenate([source, still])
        remaining = np.concatenate([remaining, np.zeros_like(still)])
        noise = np.append(noise, np.full(len(still), _EXTREME_NOISE))
    # Gaussian process regression; the noise is raised until the map does not fold
    kernel = _gaussian(source, source)
    while True:
        body_map = BodyMap(frame, source, np.linalg.solve(kernel + np.diag(noise), remaining))
        if _least_slope(body_map) >= _LEAST_SLOPE or noise.min() > 10:
            return body_map
        noise = noise * 1.6


def _spine_and_wall(heights: np.ndarray) -> np.ndarray:
    """Return points on the spine and the skin of the average body, as body coordinates (n, 3), mm. The points lie
    between the lowest and the highest of `heights`, mm, and slightly beyond."""
    low = heights.min() - _WALL_EVERY_MM
    high = heights.max() + _WALL_EVERY_MM
    spine = []
    for z in VERTEBRA_Z.values():
        if low < z < high:
            spine += [(0.0, float(spine_y(z)) + y, z) for y in (0.0, -45.0)]
    rows = np.arange(low, high, _WALL_EVERY_MM)
    half, middle, front, rear = BODY.section(rows)
    wall = []
    for angle in np.arange(_WALL_POINTS) * (2 * np.pi / _WALL_POINTS):
        deep = np.where(np.sin(angle) > 0, front, rear)
        wall.append(np.stack([half * np.cos(angle), middle + deep * np.sin(angle), rows], axis=1))
    return np.concatenate([np.reshape(spine, (-1, 3)), *wall])


def _least_slope(body_map: BodyMap) -> float:
    """Return the least increase of body coordinates along R, A or S, for each mm, near the Gaussians of a body map. The
    increase along an axis is divided by the map's scale on this axis."""
    points = body_map.centres_ras
    lattice = np.concatenate([points, *(points + step for step in 25 * np.eye(3))])
    slopes = []
    for axis in range(3):
        step = np.eye(3)[axis] * 4.0
        ahead = body_map.to_body(lattice + step)[:, axis]
        behind = body_map.to_body(lattice - step)[:, axis]
        slopes.append((ahead - behind).min() / 8.0 / body_map.frame.scale[axis])
    return float(min(slopes))


def _gaussian(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Return the covariance (n, m) of the field at places (n, 3) and (m, 3), mm: 1 at distance 0."""
    square = (a**2).sum(1)[:, None] + (b**2).sum(1) - 2 * a @ b.T
    return np.exp(-np.maximum(square, 0) / (2 * _SIGMA_MM**2))
