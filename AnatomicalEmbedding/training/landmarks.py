"""Labelled training scans aligned by their organs: the same organ gets the same body coordinates in all of them.

Two steps over the centres and extreme points of the organs that several scans share: generalised Procrustes analysis
(a shift and a scale per axis for each scan, towards the mean shape), then a smooth Gaussian field for the
remaining differences. The training target of a labelled scan thus follows its anatomy instead of an affine guess.
Scans without labels keep their guess.
"""

from dataclasses import replace

import numpy as np
import torch

from .frames import FrameGuess
from .scans import PreparedScan, as_field

_MIN_SCANS = 3  # that must share a structure before it is used
_MIN_STRUCTURES = 2  # of a scan: a single one determines no scale
_MAX_SPREAD_MM = 15.0  # larger variation over patients (or partial outlines) excludes a structure
_ROUNDS = 10
_SCALE_PRIOR_MM = 60.0  # spread of points at which data and prior (scale 1) weigh the same
_EXTREME_WEIGHT = 0.3  # extreme points are less reliable than centres
_FIELD_SIGMA_MM = 45.0
_FIELD_RIDGE = 0.5
_SETTLED_SCALE_SD, _SETTLED_SHIFT_SD_MM = 0.02, 4.0

Points = dict[str, np.ndarray]  # structure -> (7, 3) RAS mm: centre, then six extremes


def tie_by_labels(scans: list[PreparedScan]) -> list[PreparedScan]:
    """The scans with the frames of labelled ones replaced by exact body fields.

    Fewer than three scans that share a structure change nothing.
    """
    labelled = {scan.name: scan.structures for scan in scans if scan.structures}
    shared = _shared_structures(scans, labelled)
    members = [s for s in scans if sum(name in labelled.get(s.name, {}) for name in shared) >= _MIN_STRUCTURES]
    if not members:
        return scans
    points = {s.name: {n: labelled[s.name][n] for n in shared if n in labelled[s.name]} for s in members}
    guesses = {s.name: s.frame for s in members}
    origin = mean_shape(points, guesses)
    frames = _procrustes(points, guesses)
    spread_mm = spread(points, frames)
    points = {scan: {n: p for n, p in of.items() if spread_mm[n] <= _MAX_SPREAD_MM} for scan, of in points.items()}
    members = [s for s in members if len(points[s.name]) >= _MIN_STRUCTURES]
    if not members:
        return scans
    points = {s.name: points[s.name] for s in members}
    frames = _procrustes(points, {s.name: s.frame for s in members})
    shared = [name for name in shared if any(name in of for of in points.values())]
    mean = mean_shape(points, frames)
    drift = np.mean([mean[name] - origin[name] for name in shared], axis=(0, 1))  # the frame itself must not move
    frames = {name: replace(f, shift_mm=f.shift_mm - drift) for name, f in frames.items()}
    mean = {name: p - drift for name, p in mean.items()}
    return [
        replace(s, frame=frames[s.name], body_field=_field(s, points[s.name], mean, frames[s.name]))
        if s.name in frames
        else s
        for s in scans
    ]


def _shared_structures(scans: list[PreparedScan], labelled: dict[str, Points]) -> list[str]:
    count: dict[str, int] = {}
    for scan in scans:
        for name in labelled.get(scan.name, {}):
            count[name] = count.get(name, 0) + 1
    return [name for name, n in count.items() if n >= _MIN_SCANS]


def _procrustes(points: dict[str, Points], frames: dict[str, FrameGuess]) -> dict[str, FrameGuess]:
    for _ in range(_ROUNDS):
        mean = mean_shape(points, frames)
        frames = {name: fit_frame(points[name], mean) for name in frames}
        size = np.mean([f.scale for f in frames.values()], axis=0)  # least squares shrinks: keep the mean size
        frames = {name: replace(f, scale=f.scale / size, shift_mm=f.shift_mm / size) for name, f in frames.items()}
    return frames


def spread(points: dict[str, Points], frames: dict[str, FrameGuess]) -> dict[str, float]:
    """Root mean square distance in mm of each structure's centres from their mean."""
    mean = mean_shape(points, frames)
    found: dict[str, list[float]] = {}
    for scan, structures in points.items():
        for name, p in structures.items():
            found.setdefault(name, []).append(((frames[scan].apply(p[:1]) - mean[name][:1]) ** 2).sum())
    return {name: float(np.sqrt(np.mean(squares))) for name, squares in found.items()}


def mean_shape(points: dict[str, Points], frames: dict[str, FrameGuess]) -> Points:
    """Mean over scans of each structure's points in the body frame."""
    found: dict[str, list[np.ndarray]] = {}
    for scan, structures in points.items():
        for name, p in structures.items():
            found.setdefault(name, []).append(frames[scan].apply(p))
    return {name: np.mean(p, axis=0) for name, p in found.items()}


def _stack(points: Points, mean: Points) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    names = list(points)
    weight = np.tile([1.0] + [_EXTREME_WEIGHT] * 6, len(names))
    return np.concatenate([points[n] for n in names]), np.concatenate([mean[n] for n in names]), weight


def fit_frame(points: Points, mean: Points) -> FrameGuess:
    """Shift and per-axis scale that bring a scan's points onto the mean shape, scales shrunk towards 1."""
    source, target, weight = _stack(points, mean)
    weight = weight[:, None] / weight.sum()
    centre_s, centre_t = (weight * source).sum(0), (weight * target).sum(0)
    from_centre = source - centre_s
    prior = _SCALE_PRIOR_MM**2
    scale = ((weight * from_centre * (target - centre_t)).sum(0) + prior) / ((weight * from_centre**2).sum(0) + prior)
    settled = np.full(3, _SETTLED_SCALE_SD), np.full(3, _SETTLED_SHIFT_SD_MM)
    return FrameGuess(scale, centre_t - scale * centre_s, *settled)


def _field(scan: PreparedScan, points: Points, mean: Points, frame: FrameGuess) -> torch.Tensor:
    """Body coordinates at every FIELD_STEP-th voxel: frame plus a ridge-damped Gaussian interpolation of the rest."""
    source, target, weight = _stack(points, mean)
    kernel = _gaussian(source, source)
    coefficients = np.linalg.solve(kernel + np.diag(_FIELD_RIDGE / weight), target - frame.apply(source))
    nodes = scan.field_nodes_ras()
    body = frame.apply(nodes.reshape(-1, 3)) + _gaussian(nodes.reshape(-1, 3), source) @ coefficients
    return as_field(body.reshape(nodes.shape))


def _gaussian(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    square = ((a[:, None] - b[None]) ** 2).sum(-1)
    return np.exp(-square / (2 * _FIELD_SIGMA_MM**2))
