"""Builds an atlas from scans with labels, from label maps without their scans, and from synthetic patients.

Each labelled voxel gets its body coordinate from the map of the scan. For a label map without a scan, an artificial CT
is made first (`training/label_images.py`). For each structure, all synthetic patients together have the weight 0.1, all
real patients together 0.9. If fewer than three real patients show the structure, all patients have equal weights.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch

from ..anatomy.names import sums_of_parts, whole_name
from ..embedding.grid_reading import smoothed
from ..embedding.inference import Model
from ..embedding.map import EmbeddingMap
from ..errors import PointsError, ProgressCallback
from ..files import require_folder
from ..phantom import make_phantom
from ..scan.geometry import mask_box, spacing_of, transform_points
from ..scan.image_files import IMAGE_SUFFIXES
from ..scan.volume import Volume
from ..structures.label_files import list_of_names, read_label_image, read_texts
from ..structures.label_names import reason_left_out
from ..training import label_images
from ..training.label_frames import place
from .atlas import SHAPE, STEP_MM, Atlas, Occupancy, frame_index
from .grid_weights import as_cell
from .tokens import word_set

PHANTOM_SEED = 73_000  # seed of the first synthetic patient for atlases
_SAMPLE_MM = 4.0  # distance of the samples of a label map; by hand: finer than a cell of 6 mm
_FEWEST_REAL = 3  # from this number of real patients on, synthetic patients count less
_SYNTHETIC_SHARE = 0.1  # weight of all synthetic patients together; see RESULTS
_BLUR_MM, _BLUR_FEW_MM = 5.0, 12.0  # standard deviation of the blur: see `_blur_of`
_LEAST_SHARE = 0.02  # smaller shares count as 0; by hand
_FEWEST_DESCRIBED = 2  # bodies needed to learn a discriminant of descriptors
_RIDGE = 0.005  # added to each variance of the descriptors, which have length 1
# number of points of one body, inside or around a structure
_FEWEST_POINTS, _POINTS_LIMIT = 5, 2000
_SPREAD_OUT = word_set(
    "body_other subcutaneous_fat visceral_fat torso_fat vertebrae_unspecified stomach_and_duodenum"
)
# A structure is counted if its `reason_left_out` is None or that of the spinal cord, which has a place but no centre.
_KEPT = (None, reason_left_out("spinal_cord"))


@dataclass(frozen=True, eq=False)
class SampledBody:
    """n points of one labelled body. body_mm: (n, 3) body coordinates, mm. label: (n,) values of the label map; 0 for
    no label. names: value -> structure. kind: "real", "synthetic" or "drawn" (the CT was made from the label map).
    descriptor: float16 (n, d), descriptors of the points, or None.
    """

    name: str
    body_mm: np.ndarray
    label: np.ndarray
    names: dict[int, str]
    kind: str
    descriptor: np.ndarray | None = None


def build_atlas(
    folders: Iterable[Path],
    model: Model,
    phantoms: int = 18,
    progress: ProgressCallback = lambda share, text: None,
) -> Atlas:
    """Build an atlas from the label maps in `folders` and from synthetic patients.

    Args:
        folders: each holds NAME.seg.nii.gz with NAME.labels.json, with or without the scan NAME.nii.gz.
        phantoms: number of synthetic patients.
        progress: called with the finished fraction of the work, 0 to 1, and a text to display.

    Raises:
        PointsError: a folder holds no label map.
    """
    paths = [path for folder in folders for path in list_label_files(folder)]
    bodies = list(_labelled_bodies(paths, model, progress))
    for number in range(phantoms):
        progress(0.7 + 0.2 * number / phantoms, f"synthetic patient {number + 1}")
        phantom = make_phantom(PHANTOM_SEED + number, (3.0, 3.0, 3.0))
        volume = phantom.volume
        bodies.append(
            _sampled(
                volume.name,
                phantom.labels,
                volume.ijk_to_ras,
                phantom.label_names,
                model.embed(volume),
                "synthetic",
            )
        )
    progress(0.92, "counting the structures in each cell")
    named = {
        kind: [body.name for body in bodies if body.kind == kind]
        for kind in ("real", "drawn", "synthetic")
    }
    occupancies = with_discriminants(count_occupancy(bodies), bodies)
    return Atlas(model.weights_hash, occupancies, {"weights": model.name, "bodies": named})


def _labelled_bodies(
    paths: list[Path], model: Model, progress: ProgressCallback
) -> Iterator[SampledBody]:
    """Yield the points of each label map, with the body coordinates of its scan or of a CT made from the label map.

    A label map without a scan is left out if `place` found no place for it in the body frame. progress: from 0 to 0.7.
    """
    scans = {path: _scan_of(path) for path in paths}
    scanless = {path: label_images.LabelledBody.read(path) for path in paths if scans[path] is None}
    placement = place({body.name: body.points for body in scanless.values()}) if scanless else None
    for number, path in enumerate(paths):
        progress(0.7 * number / len(paths), path.name)
        voxels, ijk_to_ras = read_label_image(path, "LPS")
        names = read_texts(list_of_names(path))
        kind = "real"
        name = path.name.removesuffix(label_images.SUFFIX)
        if path not in scanless:
            volume = Volume.read(scans[path])
        elif name in placement.maps:
            kind = "drawn"
            ijk_to_ras = scanless[path].grid.ijk_to_ras
            volume = label_images.make_label_image(scanless[path], placement, 0).volume
        else:
            continue
        yield _sampled(name, voxels, ijk_to_ras, names, model.embed(volume), kind)


def list_label_files(folder: Path) -> list[Path]:
    """List label maps NAME.seg.nii.gz that have a NAME.labels.json. Raises PointsError if the folder holds none."""
    require_folder(folder, "label maps")
    files = sorted(folder.glob("*" + label_images.SUFFIX))
    label_files = [path for path in files if list_of_names(path).exists()]
    if not label_files:
        raise PointsError(
            f"{folder}: the folder holds no label map; add NAME.seg.nii.gz and NAME.labels.json."
        )
    return label_files


def _scan_of(path: Path) -> Path | None:
    """Return the scan, NAME.nii.gz or with another suffix, of a label map NAME.seg.nii.gz; None without a scan."""
    name = path.name.removesuffix(label_images.SUFFIX)
    images = (path.with_name(name + suffix) for suffix in IMAGE_SUFFIXES)
    return next(filter(Path.exists, images), None)


def _sampled(
    name: str,
    voxels: np.ndarray,
    ijk_to_ras: np.ndarray,
    labels: Mapping[int, str],
    embedding: EmbeddingMap,
    kind: str,
) -> SampledBody:
    """Sample the label map `voxels` (k, j, i) about every 4 mm. Samples outside the patient's body are left out.

    labels: label value -> name in the file. embedding: the map of the scan. kind: see `SampledBody`.
    """
    # voxels along i, j, k
    step = np.maximum(np.rint(_SAMPLE_MM / spacing_of(ijk_to_ras)), 1).astype(int)
    every = [slice(0, n, s) for n, s in zip(voxels.shape, step[::-1], strict=True)]
    kji = np.mgrid[tuple(every)].reshape(3, -1).T  # (n, 3)
    label = voxels[tuple(kji.T)]
    ras = transform_points(ijk_to_ras, kji[:, ::-1])
    inside = embedding.in_body(ras)
    # synthetic patients teach no discriminants
    described = kind != "synthetic" and embedding.local is not None
    if described:
        # half of the unlabelled points are enough
        inside &= (label > 0) | (np.arange(len(label)) % 2 == 0)
    names = {}
    for value, text in labels.items():
        structure = whole_name(text)
        if reason_left_out(structure) in _KEPT and structure not in _SPREAD_OUT:
            names[value] = structure
    descriptor = embedding.describe(ras[inside]).half().numpy() if described else None
    body = embedding.with_spine(None).sample(ras[inside])  # as `placing` reads the coordinates
    return SampledBody(name, body, label[inside], names, kind, descriptor)


def count_occupancy(bodies: list[SampledBody]) -> dict[str, Occupancy]:
    """Compute the Occupancy of each structure: the fraction of bodies in which the structure fills each cell.

    The fraction is taken over the bodies that show the cell and have labels of the structure.
    """
    counted: dict[str, list[_Counted]] = {}
    for body in bodies:
        index, in_frame = frame_index(body.body_mm)
        flat = np.ravel_multi_index(index[in_frame].T[::-1], SHAPE)  # from i, j, k to k, j, i
        label = body.label[in_frame]
        cell_counts = np.bincount(flat, minlength=np.prod(SHAPE)).astype(np.float32).reshape(SHAPE)
        for name, values in _labels_of(body).items():
            cells, number = np.unique(flat[np.isin(label, values)], return_counts=True)
            if len(cells):
                counted.setdefault(name, []).append(
                    _Counted(body.kind, cell_counts, cells, number.astype(np.float32))
                )
    occupancies = {name: _occupancy(counts) for name, counts in sorted(counted.items())}
    return {name: value for name, value in occupancies.items() if value is not None}


def with_discriminants(
    occupancies: dict[str, Occupancy], bodies: list[SampledBody]
) -> dict[str, Occupancy]:
    """Add a discriminant to each occupancy, or None if fewer than two bodies have descriptors of the structure."""
    patients: dict[str, list[_Described]] = {name: [] for name in occupancies}
    for body in bodies:
        if body.descriptor is None:
            continue
        index, _ = frame_index(body.body_mm)
        for name, values in _labels_of(body).items():
            if name in occupancies:
                patients[name] += _described(body, index, values, occupancies[name])
    result = {}
    for name, occupancy in occupancies.items():
        discriminant = None
        if len(patients[name]) >= _FEWEST_DESCRIBED:
            discriminant = _discriminant(patients[name])
        result[name] = replace(occupancy, discriminant=discriminant)
    return result


class _Described(NamedTuple):
    """Descriptors of one patient about one structure: inside (n, d) and around (m, d), whose weights are (m,)."""

    inside: np.ndarray
    around: np.ndarray
    weight: np.ndarray


def _described(
    body: SampledBody, index: np.ndarray, values: list[int], occupancy: Occupancy
) -> list[_Described]:
    """Return the descriptors of a body about a structure, in a list; [] if it has too few points of the structure.

    Args:
        body: the body, with descriptors.
        index: (n, 3) i, j, k of its points in the body frame.
        values: label values of the structure.
        occupancy: the structure in the body frame.
    """
    first = occupancy.first
    share = occupancy.share
    in_box = ((index >= first) & (index < np.add(first, share.shape[::-1]))).all(axis=1)
    i, j, k = (index[in_box] - first).T
    label = body.label[in_box]
    descriptor = body.descriptor[in_box].astype(np.float32)
    is_inside = np.isin(label, values)
    # a point counts by the share of the structure at its cell; points inside the structure do not count.
    # Unlabelled points have the weight 2, because `_sampled` kept only every second unlabelled point
    weight = np.where(label == 0, 2, 1) * (share[k, j, i] / 255.0) * ~is_inside
    inside = _thinned(np.flatnonzero(is_inside))
    around = _thinned(np.flatnonzero(weight > 0))
    if min(len(inside), len(around)) < _FEWEST_POINTS:
        return []
    return [_Described(descriptor[inside], descriptor[around], weight[around])]


def _discriminant(patients: list[_Described]) -> np.ndarray:
    """Return weights and constant, (d + 1,), that separate descriptors in a structure from descriptors around it.

    They are Fisher's linear discriminant (1936). All patients count equally.
    """
    inside_mean = np.mean([patient.inside.mean(axis=0) for patient in patients], axis=0)
    around_mean = np.mean(
        [np.average(patient.around, axis=0, weights=patient.weight) for patient in patients], axis=0
    )
    covariances = [np.cov(patient.inside.T, bias=True) for patient in patients]
    for patient in patients:
        covariances.append(np.cov(patient.around.T, bias=True, aweights=patient.weight))
    covariance = np.mean(covariances, axis=0) + _RIDGE * np.eye(len(inside_mean))
    weights = np.linalg.solve(covariance, inside_mean - around_mean)
    return np.append(weights, -weights @ (inside_mean + around_mean) / 2).astype(np.float32)


def _thinned(index: np.ndarray) -> np.ndarray:
    """Return every nth entry of `index`, so that fewer than 4,000 are left."""
    return index[:: max(len(index) // _POINTS_LIMIT, 1)]


def _labels_of(body: SampledBody) -> dict[str, list[int]]:
    """Return {structure: its label values}. A structure without a label of its own but with labels for its parts, such
    as a lung, gets the label values of its parts."""
    labels: dict[str, list[int]] = {}
    for value, name in body.names.items():
        labels.setdefault(name, []).append(value)
    sums = {}
    for name, parts in sums_of_parts().items():
        values = [value for value, part in body.names.items() if part in parts]
        if name not in labels and values:
            sums[name] = values
    return labels | sums


class _Counted(NamedTuple):
    """Counted points of one body. total: (k, j, i), number of all points of the body in each cell of the body frame.
    cells: (n,) flat indices of the cells with points of one structure. number: (n,) number of points of this structure
    in each of these cells."""

    kind: str
    total: np.ndarray
    cells: np.ndarray
    number: np.ndarray


def _occupancy(counts: list[_Counted]) -> Occupancy | None:
    """Return the occupancy of one structure; None if its share is too small in every cell.

    counts: one entry for each body that shows the structure.
    """
    real = [count for count in counts if count.kind != "synthetic"]
    synthetic = [count for count in counts if count.kind == "synthetic"]
    cells = np.unique(np.concatenate([count.cells for count in counts]))
    index = np.stack(np.unravel_index(cells, SHAPE))  # (3, n): k, j, i
    # low, size: first cell and number of cells of a box, k, j, i. The box must hold the blur of a structure that only
    # one patient shows, which is the widest.
    reach = int(np.ceil(2.5 * _blur_of(1) / STEP_MM)) + 1
    low = np.maximum(index.min(axis=1) - reach, 0)
    size = np.minimum(index.max(axis=1) + reach + 1, SHAPE) - low
    if len(real) < _FEWEST_REAL or not synthetic:
        share = _share(counts, low, size)
    else:
        real_share = _share(real, low, size)
        synthetic_share = _share(synthetic, low, size)
        share = (1 - _SYNTHETIC_SHARE) * real_share + _SYNTHETIC_SHARE * synthetic_share
    share[share < _LEAST_SHARE] = 0
    if not share.any():
        return None
    box = mask_box(share > 0)
    first_kji = low + [part.start for part in box]
    stored = np.rint(np.clip(share[box], 0, 1) * 255).astype(np.uint8)
    return Occupancy(as_cell(first_kji[::-1]), stored, len(real))


def _share(counts: list[_Counted], low: np.ndarray, size: np.ndarray) -> np.ndarray:
    """Return for each cell (k, j, i) of a box in the body frame the share (0 to 1) of the bodies whose structure fills
    the cell. low: first cell k, j, i of the box. size: number of cells of the box along k, j and i.

    A body counts in a cell by its visibility there, 0 to 1: 0 where the scan shows nothing of the body.
    """
    crop = tuple(slice(a, a + n) for a, n in zip(low, size, strict=True))
    inside = np.zeros(tuple(size), np.float32)
    seen_by = np.zeros(tuple(size), np.float32)
    for count in counts:
        grid = np.zeros_like(inside)
        k, j, i = np.array(np.unravel_index(count.cells, SHAPE)) - low[:, None]
        grid[k, j, i] = count.number
        density = _blurred(count.total[crop], _BLUR_MM)
        # divided by the density, so that each body counts the same, however densely it was sampled
        share = _blurred(grid, _BLUR_MM) / np.maximum(density, 1e-3)
        usual_density = float(np.median(density[density > 0.05]))
        visibility = np.minimum(density / max(usual_density, 1e-3), 1.0)
        inside += np.clip(share, 0, 1) * visibility
        seen_by += visibility
    # the shares are already blurred by _BLUR_MM; variances of blurs add up
    blur_mm = float(np.sqrt(max(_blur_of(len(counts)) ** 2 - _BLUR_MM**2, 0.0)))
    return _blurred(inside, blur_mm) / np.maximum(_blurred(seen_by, blur_mm), 0.2)


def _blur_of(bodies: int) -> float:
    """Return the standard deviation, mm, of the smoothing of fractions that were counted in `bodies` patients."""
    return float(np.hypot(_BLUR_MM, _BLUR_FEW_MM / np.sqrt(bodies)))


def _blurred(grid: np.ndarray, sigma_mm: float) -> np.ndarray:
    """Smooth values (k, j, i) of atlas cells by a Gaussian; one far narrower than a cell would change nothing."""
    if sigma_mm < 0.2 * STEP_MM:
        return grid
    channels = torch.from_numpy(np.ascontiguousarray(grid))[None]
    return smoothed(channels, [sigma_mm / STEP_MM] * 3)[0].numpy()
