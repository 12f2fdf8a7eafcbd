"""Building an atlas: scans with labels, label maps without their scans, and synthetic patients, in one frame.

A scan's voxels get the coordinates of its embedding. A label map with bones is drawn as a CT-like volume first
(`drawn_scan`). One with few organs alone is laid on the mean places of these organs. Synthetic patients count a small
part in what is known of each structure, and stand in for real ones where too few show it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import SimpleITK as sitk
import torch

from ..anatomy.names import SUMS
from ..embedding.grid_reading import smoothed
from ..embedding.inference import Model
from ..errors import PointsError
from ..files import parse_json
from ..phantom import make_phantom
from ..scan.geometry import image_affine
from ..scan.image_files import IMAGE_SUFFIXES, display_name, image_suffix, is_label_map, read_image
from ..scan.volume import Volume, transform_points
from ..structures.label_names import reason_left_out
from .atlas import LOW_MM, SHAPE, STEP_MM, Atlas, Occupancy
from .descriptor_evidence import learn_discriminant
from .drawn_scan import draw_pseudo_scan
from .organ_parts import whole_name

_SAMPLE_MM = 4.0
_FEWEST_TO_DRAW = 16  # labels of a map that is drawn
_FEWEST_REAL = 3  # real examples that need no synthetic ones to stand in
_SYNTHETIC = 0.1  # what synthetic patients, all together, count against real ones; see RESULTS
_BLUR_MM, _BLUR_FEW_MM = 5.0, 12.0  # of an atlas of many, and what is added, over the root of their number
_LEAST_SHARE = 0.02
_FIT_MM, _FIT_REACH_MM, _FIT_NOISE_MM = 14.0, 90.0, 8.0
_SCALE_SPREAD = 0.12
_FEWEST_DESCRIBED = 2  # bodies that a discriminant of descriptors is learnt from
_FEWEST_POINTS, _MOST_POINTS = 5, 2000  # of one body, inside or about a structure
_SPREAD = (
    "body_other",
    "subcutaneous_fat",
    "visceral_fat",
    "torso_fat",
    "vertebrae_unspecified",
    "stomach_and_duodenum",
)
_KEPT = (None, reason_left_out("spinal_cord"))  # a part of the cord has a place, though no centre
PHANTOM_SEED = 73_000


@dataclass(frozen=True, eq=False)
class LabelledBody:
    """Points (n, 3) of one body: places in the frame, mm, and label (n,). names: label -> canonical name. whole: names
    that no border of the scan cuts. kind: "real", "drawn", "laid" or "synthetic". descriptor: float16 (n, d) or None.
    """

    name: str
    body_mm: np.ndarray
    label: np.ndarray
    names: dict[int, str]
    whole: frozenset[str]
    kind: str
    descriptor: np.ndarray | None = None


_Counted = tuple[LabelledBody, np.ndarray, np.ndarray]  # a body, the frame's cells that hold a structure, how often


@dataclass(frozen=True, eq=False)
class _LabelFile:
    name: str
    voxels: np.ndarray
    ijk_to_ras: np.ndarray
    names: dict[int, str]
    scan: Path | None


def build_atlas(
    folders: Iterable[Path],
    model: Model,
    phantoms: int = 18,
    progress: Callable[[float, str], None] = lambda share, what: None,
) -> Atlas:
    """An atlas of every structure of the label maps in some folders, and of synthetic patients.

    folders: of NAME.seg.nii.gz + NAME.labels.json, with or without the scan NAME.nii.gz.
    Raises PointsError for a folder without label maps.
    """
    bodies = collect_bodies(folders, model, phantoms, progress)
    progress(0.92, "counting")
    occupancies = with_discriminants(count_occupancy(bodies), bodies)
    return Atlas(model.weights_hash, occupancies, _about(bodies, model))


def collect_bodies(
    folders: Iterable[Path], model: Model, phantoms: int, progress: Callable[[float, str], None]
) -> list[LabelledBody]:
    """Every body of some folders, and synthetic ones, with the places of its voxels in the frame."""
    files = [path for folder in folders for path in list_label_files(folder)]
    bodies: list[LabelledBody] = []
    few: list[_LabelFile] = []
    for number, path in enumerate(files):
        progress(0.7 * number / max(len(files), 1), display_name(path))
        given = _read(path)
        if given.scan is None and len(given.names) < _FEWEST_TO_DRAW:
            few.append(given)
            continue
        bodies.append(_embedded(given, model))
    for number in range(phantoms):
        progress(0.7 + 0.2 * number / max(phantoms, 1), f"synthetic patient {number + 1}")
        bodies.append(_synthetic(PHANTOM_SEED + number, model))
    centres = _mean_centres(bodies)
    bodies += [body for body in (_laid(given, centres) for given in few) if body is not None]
    return bodies


def _about(bodies: list[LabelledBody], model: Model) -> dict:
    kinds = ("real", "drawn", "laid", "synthetic")
    return {"weights": model.name, "bodies": {kind: [b.name for b in bodies if b.kind == kind] for kind in kinds}}


def list_label_files(folder: Path) -> list[Path]:
    """Label maps NAME.seg.* with NAME.labels.json next to them. Raises PointsError where there is none."""
    if not folder.is_dir():
        raise PointsError(f"{folder}: no such folder; give a folder of label maps.")
    found = [
        path
        for path in sorted(folder.iterdir())
        if image_suffix(path) and is_label_map(path) and _names_file(path).exists()
    ]
    if not found:
        raise PointsError(f"{folder}: holds no label map; put NAME.seg.nii.gz with NAME.labels.json there.")
    return found


def _names_file(path: Path) -> Path:
    return path.with_name(display_name(path).removesuffix(".seg") + ".labels.json")


def _read(path: Path) -> _LabelFile:
    image, _ = read_image(path)
    name = display_name(path).removesuffix(".seg")
    try:
        names = {int(value): str(label) for value, label in parse_json(_names_file(path).read_text("utf-8")).items()}
    except (OSError, ValueError, AttributeError):
        raise PointsError(f'{_names_file(path)}: is not a list of label names; write {{"1": "liver", ...}}.') from None
    voxels = sitk.GetArrayFromImage(image).astype(np.int32)
    scan = next(filter(Path.exists, (path.with_name(name + suffix) for suffix in IMAGE_SUFFIXES)), None)
    return _LabelFile(name, voxels, image_affine(image), names, scan)


def _embedded(given: _LabelFile, model: Model) -> LabelledBody:
    if given.scan is not None:
        volume = Volume.read(given.scan)
    else:
        volume = draw_pseudo_scan(given.voxels, given.ijk_to_ras, given.names, given.name)
    embedding = model.embed(volume)
    ras, label = _samples(given)
    inside = embedding.in_body(ras)
    inside &= (label > 0) | (np.arange(len(label)) % 2 == 0)  # tissue without a name is plenty
    found = _body(given, embedding.sample(ras[inside]), label[inside], "drawn" if given.scan is None else "real")
    if embedding.local is None:
        return found
    return replace(found, descriptor=embedding.describe(ras[inside])[0].half().numpy())


def _synthetic(seed: int, model: Model) -> LabelledBody:
    phantom = make_phantom(seed, (3.0, 3.0, 3.0))
    given = _LabelFile(phantom.volume.name, phantom.labels, phantom.volume.ijk_to_ras, dict(phantom.label_names), None)
    embedding = model.embed(phantom.volume)
    ras, label = _samples(given)
    inside = embedding.in_body(ras)
    return _body(given, embedding.sample(ras[inside]), label[inside], "synthetic")


def _laid(given: _LabelFile, centres: dict[str, np.ndarray]) -> LabelledBody | None:
    """By the mean places of its organs: a scale and a shift along each axis, and a smooth displacement."""
    ras, label = _samples(given)
    whole = _whole(given)
    anchors = []
    for value, name in ((value, whole_name(text)) for value, text in given.names.items()):
        held = ras[label == value]
        if name in whole and name in centres and len(held):
            anchors.append((held.mean(axis=0), centres[name]))
    if len(anchors) < 4:
        return None
    source, goal = (np.array(points) for points in zip(*anchors, strict=True))
    middle = source.mean(axis=0)
    spread = (source - middle).std(axis=0)
    # ridge on the scale: so many mm of noise against so much spread of body sizes
    ridge = (_FIT_NOISE_MM**2 / _SCALE_SPREAD**2) / len(source)
    slope = ((source - middle) * (goal - goal.mean(axis=0) - (source - middle))).mean(axis=0) / (spread**2 + ridge)
    laid = (ras - middle) * (1 + slope) + goal.mean(axis=0)
    left = goal - ((source - middle) * (1 + slope) + goal.mean(axis=0))
    kernel = _FIT_MM**2 * _nearness(source, source)
    weights = np.linalg.solve(kernel + _FIT_NOISE_MM**2 * np.eye(len(source)), left)
    laid += _FIT_MM**2 * _nearness(ras, source) @ weights
    return _body(given, laid, label, "laid")


def _nearness(one: np.ndarray, other: np.ndarray) -> np.ndarray:
    square = np.square(one[:, None] - other[None]).sum(axis=-1)
    return np.exp(-square / (2 * _FIT_REACH_MM**2))


def _samples(given: _LabelFile) -> tuple[np.ndarray, np.ndarray]:
    """Every few voxels: RAS mm (n, 3) and label (n,); labels that the stride would miss keep all of their voxels."""
    spacing = np.linalg.norm(given.ijk_to_ras[:3, :3], axis=0)
    step = np.maximum(np.rint(_SAMPLE_MM / spacing), 1).astype(int)
    k, j, i = (np.arange(0, n, s) for n, s in zip(given.voxels.shape, step[::-1], strict=True))
    grid = np.stack(np.meshgrid(k, j, i, indexing="ij"), axis=-1).reshape(-1, 3)
    label = given.voxels[tuple(grid.T)]
    return transform_points(given.ijk_to_ras, grid[:, ::-1]), label


def _whole(given: _LabelFile) -> frozenset[str]:
    cut: set[str] = set()
    seen = np.unique(given.voxels)
    for axis in range(3):
        for end in (0, -1):
            values, counts = np.unique(given.voxels.take(end, axis=axis), return_counts=True)
            cut |= {whole_name(given.names[v]) for v, n in zip(values, counts, strict=True) if v in given.names}
    return frozenset(whole_name(given.names[v]) for v in seen if v in given.names) - cut


def _body(given: _LabelFile, body: np.ndarray, label: np.ndarray, kind: str) -> LabelledBody:
    names = {value: whole_name(text) for value, text in given.names.items()}
    names = {value: name for value, name in names.items() if reason_left_out(name) in _KEPT and name not in _SPREAD}
    return LabelledBody(given.name, body, label, names, _whole(given), kind)


def _mean_centres(bodies: list[LabelledBody]) -> dict[str, np.ndarray]:
    """Mean place of each structure that real patients show whole; of synthetic ones, where no real one does."""
    found: dict[str, dict[str, list[np.ndarray]]] = {}
    for body in bodies:
        for name in set(body.names.values()) & body.whole:
            held = np.isin(body.label, [value for value, n in body.names.items() if n == name])
            if held.sum() >= 5:
                kind = "synthetic" if body.kind == "synthetic" else "real"
                found.setdefault(name, {}).setdefault(kind, []).append(body.body_mm[held].mean(axis=0))
    return {name: np.median(of.get("real", of.get("synthetic")), axis=0) for name, of in found.items()}


def count_occupancy(bodies: list[LabelledBody]) -> dict[str, Occupancy]:
    """How often each structure is found in each cell, of the bodies that show the cell and have the structure named."""
    counted: dict[str, list[_Counted]] = {}
    shown: dict[str, np.ndarray] = {}
    for body in bodies:
        index = np.rint((body.body_mm - LOW_MM) / STEP_MM).astype(int)
        held = ((index >= 0) & (index < SHAPE[::-1])).all(axis=1)
        i, j, k = index[held].T
        flat, label = np.ravel_multi_index((k, j, i), SHAPE), body.label[held]
        points = np.bincount(flat, minlength=np.prod(SHAPE)).astype(np.float32)
        shown[body.name] = points
        for name, values in _labels_of(body).items():
            cells, number = np.unique(flat[np.isin(label, values)], return_counts=True)
            if len(cells):
                counted.setdefault(name, []).append((body, cells, number.astype(np.float32)))
    return {name: found for name, of in sorted(counted.items()) if (found := _occupancy(of, shown)) is not None}


def with_discriminants(occupancies: dict[str, Occupancy], bodies: list[LabelledBody]) -> dict[str, Occupancy]:
    """The same with what the descriptors of bodies say, where two bodies that have any show the structure."""
    patients: dict[str, list[tuple[np.ndarray, np.ndarray, np.ndarray]]] = {}
    for body in bodies:
        if body.descriptor is None:
            continue
        index = np.rint((body.body_mm - LOW_MM) / STEP_MM).astype(int)
        for name, values in _labels_of(body).items():
            if name not in occupancies:
                continue
            first, share = occupancies[name].first, occupancies[name].share
            near = ((index >= first) & (index < np.add(first, share.shape[::-1]))).all(axis=1)
            i, j, k = (index[near] - first).T
            weight = share[k, j, i] / 255.0
            label, descriptor = body.label[near], body.descriptor[near].astype(np.float32)
            inside = np.isin(label, values)
            weight = np.where(label == 0, 2, 1) * weight * ~inside  # every second point without a name is kept
            if inside.sum() >= _FEWEST_POINTS and (weight > 0).sum() >= _FEWEST_POINTS:
                about = _most(np.flatnonzero(weight > 0))
                inside = _most(np.flatnonzero(inside))
                patients.setdefault(name, []).append((descriptor[inside], descriptor[about], weight[about]))
    return {
        name: replace(of, discriminant=learn_discriminant(patients[name]))
        if len(patients.get(name, [])) >= _FEWEST_DESCRIBED
        else of
        for name, of in occupancies.items()
    }


def _most(index: np.ndarray) -> np.ndarray:
    """Evenly thinned to about so many that a structure's descriptors have a mean and a covariance."""
    return index[:: max(len(index) // _MOST_POINTS, 1)]


def _labels_of(body: LabelledBody) -> dict[str, list[int]]:
    """Labels of each structure that a body has, and of sums of them."""
    parts = set(body.names.values())
    wanted = {name: (name,) for name in parts} | {
        name: of for name, of in SUMS.items() if name not in parts and any(part in parts for part in of)
    }
    return {name: [value for value, n in body.names.items() if n in of] for name, of in wanted.items()}


def _occupancy(of: list[_Counted], shown: dict[str, np.ndarray]) -> Occupancy | None:
    real = [one for one in of if one[0].kind != "synthetic"]
    synthetic = [one for one in of if one[0].kind == "synthetic"]
    every = np.unique(np.concatenate([cells for _, cells, _ in of]))
    index = np.stack(np.unravel_index(every, SHAPE))
    reach = int(np.ceil(2.5 * _blur_of(1) / STEP_MM)) + 1
    low = np.maximum(index.min(axis=1) - reach, 0)
    size = np.minimum(index.max(axis=1) + reach + 1, SHAPE) - low
    if len(real) < _FEWEST_REAL or not synthetic:
        share, volumes = _share(of, shown, low, size)
    else:
        share, volumes = _share(real, shown, low, size)
        share = (1 - _SYNTHETIC) * share + _SYNTHETIC * _share(synthetic, shown, low, size)[0]
    share[share < _LEAST_SHARE] = 0
    if not share.any():
        return None
    kept = np.argwhere(share > 0)
    first, last = kept.min(axis=0), kept.max(axis=0) + 1
    share = share[tuple(slice(a, b) for a, b in zip(first, last, strict=True))]
    share = np.rint(np.clip(share, 0, 1) * 255).astype(np.uint8)
    origin = tuple(int(n) for n in (low + first)[::-1])
    return Occupancy(origin, share, len(of), len(real), float(np.median(volumes)))


def _share(
    of: list[_Counted], shown: dict[str, np.ndarray], low: np.ndarray, size: np.ndarray
) -> tuple[np.ndarray, list[float]]:
    """How often (k, j, i) some bodies have the structure in the cells of a box, and its volume in each, ml."""
    crop = tuple(slice(a, a + n) for a, n in zip(low, size, strict=True))
    inside = np.zeros(tuple(size), dtype=np.float32)
    seen = np.zeros_like(inside)
    volumes = []
    for body, cells, number in of:
        grid = np.zeros_like(inside)
        grid[tuple(np.array(np.unravel_index(cells, SHAPE)) - low[:, None])] = number
        density = _blurred(shown[body.name].reshape(SHAPE)[crop], _BLUR_MM)
        # each body counts alike, however densely it was sampled
        share = _blurred(grid, _BLUR_MM) / np.maximum(density, 1e-3)
        known = np.minimum(density / max(float(np.median(density[density > 0.05])), 1e-3), 1.0)
        inside += np.clip(share, 0, 1) * known
        seen += known
        volumes.append(float(np.clip(share, 0, 1).sum()) * STEP_MM**3 / 1000)
    rest = float(np.sqrt(max(_blur_of(len(of)) ** 2 - _BLUR_MM**2, 0.0)))
    return _blurred(inside, rest) / np.maximum(_blurred(seen, rest), 0.2), volumes


def _blur_of(bodies: int) -> float:
    """mm by which what is known of so many is blurred."""
    return float(np.hypot(_BLUR_MM, _BLUR_FEW_MM / np.sqrt(bodies)))


def _blurred(grid: np.ndarray, sigma_mm: float) -> np.ndarray:
    if sigma_mm < 0.2 * STEP_MM:
        return grid
    return smoothed(torch.from_numpy(np.ascontiguousarray(grid))[None], [sigma_mm / STEP_MM] * 3, sigmas=3)[0].numpy()
