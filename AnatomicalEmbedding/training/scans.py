"""Prepared scans: training scans on the network's working grid, stored as safetensors."""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file

from ..embedding.film_grid import scan_on_grid
from ..errors import AnatomicalEmbeddingError
from ..files import atomic_path
from ..phantom import SPACING_MM, Phantom, make_phantom
from ..scan.geometry import transform_points
from ..scan.label_map import LabelMap
from ..scan.volume import Volume
from ..structures.label_names import structure_name
from ..structures.labelled_scans import patient_of
from .frames import STILL, FrameGuess, guess_frame

_LEAST_WATER_MM = 20.0  # a ray of a film through less tissue shows no body
_EVEN = 2  # sizes of prepared scans are multiples of this number, because the body mask needs such sizes
Spacing = tuple[float, float, float]
Report = Callable[[str], None]  # called with a line about the progress
PHANTOM_SEED = 1000  # seed of the first synthetic patient for training
ORIGINS = ("scan", "label map", "phantom")  # scan of a patient; label image; synthetic patient
FIELD_STEP = 8  # voxels between the nodes of a body field


@dataclass(frozen=True)
class PreparedScan:
    """One training scan, resampled to the network's working grid.

    Args:
        hu: int16 (k, j, i), air outside the body.
        body: bool (k, j, i), True inside the patient.
        grid_to_ras: (4, 4), axis-aligned.
        frame: approximate conversion from RAS mm to body coordinates.
        body_field: float32 (3, k, j, i) body coordinates at each FIELD_STEP-th voxel, more exact than `frame`; or None.
        origin: how the image was made, one of ORIGINS.
        labels: uint8 (k, j, i), 1 + index of the voxel's structure in `label_names`; 0 for a voxel without a label.
        label_names: names of the structures that the labels distinguish; the scan may not show them all.
    """

    name: str
    hu: torch.Tensor
    body: torch.Tensor
    grid_to_ras: np.ndarray
    frame: FrameGuess
    body_field: torch.Tensor | None = None
    origin: str = ORIGINS[0]
    labels: torch.Tensor | None = None
    label_names: tuple[str, ...] = ()

    @property
    def spacing_mm(self) -> np.ndarray:
        """(3,) voxel size along R, A, S."""
        return np.diag(self.grid_to_ras)[:3]

    @property
    def size_ijk(self) -> np.ndarray:
        """(3,) number of voxels along i, j, k."""
        return np.array(self.hu.shape[::-1])

    def field_nodes_ras(self) -> np.ndarray:
        """Return (k, j, i, 3) RAS mm: the places of the values of `body_field`, at every FIELD_STEP-th voxel."""
        nodes = [np.arange(0, n - 1 + FIELD_STEP, FIELD_STEP) for n in self.hu.shape]
        kji = np.stack(np.meshgrid(*nodes, indexing="ij"), axis=-1)
        return transform_points(self.grid_to_ras, kji[..., ::-1])

    @property
    def height_range_mm(self) -> tuple[float, float]:
        """Return the lowest and the highest body height in the scan, mm."""
        ends = transform_points(
            self.grid_to_ras, np.array([[0, 0, 0], [0, 0, self.hu.shape[0] - 1]])
        )
        low, high = self.frame.apply(ends)[:, 2]
        return float(low), float(high)

    def numbers_among(self, organs: Sequence[str]) -> torch.Tensor:
        """Return a uint8 table: value of `labels` -> 1 + index of the structure in `organs`; 0 if `organs` lacks it."""
        numbers = {name: n for n, name in enumerate(organs, 1)}
        return torch.tensor(
            [0, *(numbers.get(name, 0) for name in self.label_names)], dtype=torch.uint8
        )

    @property
    def patient(self) -> str:
        """Return the name of the patient, or of the label map, that the scan shows."""
        return patient_of(self.name) if self.origin == "scan" else self.name.rpartition("_")[0]

    @property
    def nbytes(self) -> int:
        """Size of the grids in memory, bytes."""
        return sum(grid.nbytes for grid in self._grids().values())

    def _grids(self) -> dict[str, torch.Tensor]:
        """Return the grids that the scan has: name of the field -> grid."""
        grids = {name: getattr(self, name) for name in ("hu", "body", "body_field", "labels")}
        return {name: grid for name, grid in grids.items() if grid is not None}

    def to(self, device: torch.device) -> "PreparedScan":
        """Copy the grids to a device; crops are then made on this device."""
        return replace(self, **{name: grid.to(device) for name, grid in self._grids().items()})

    def save(self, path: Path) -> None:
        """Write the scan to a file of safetensors, completely or not at all."""
        frame = {name: values.tolist() for name, values in vars(self.frame).items()}
        tensors = self._grids() | {"grid_to_ras": torch.from_numpy(self.grid_to_ras)}
        metadata = {
            "name": self.name,
            "frame": json.dumps(frame),
            "origin": self.origin,
            "label_names": json.dumps(self.label_names),
        }
        with atomic_path(path) as temporary:
            save_file(tensors, str(temporary), metadata)

    @classmethod
    def load(cls, path: Path) -> "PreparedScan":
        """Read a prepared scan. Its grids are memory-mapped."""
        try:
            with safe_open(str(path), "pt") as file:
                tensors = {key: file.get_tensor(key) for key in file.keys()}  # noqa: SIM118 - not a dict
                metadata = file.metadata()
            frame = json.loads(metadata["frame"])
            return cls(
                metadata["name"],
                grid_to_ras=tensors.pop("grid_to_ras").numpy(),
                frame=FrameGuess(**{name: np.array(values) for name, values in frame.items()}),
                origin=metadata["origin"],
                label_names=tuple(map(structure_name, json.loads(metadata["label_names"]))),
                **tensors,
            )
        except (SafetensorError, OSError, KeyError, TypeError):
            message = f"{path}: is damaged, outdated or not a prepared scan; delete this file and run again."
            raise AnatomicalEmbeddingError(message) from None


def prepare_volume(
    volume: Volume, frame: dict[float, float] | FrameGuess, spacing_mm: Spacing
) -> PreparedScan:
    """Prepare one scan: resample it to the working grid, and find the body. Raises VolumeError if no patient is found.

    Args:
        volume: the scan.
        frame: approximate conversion from RAS mm to body coordinates; or {body height mm: RAS S mm} with at least one
            entry, from which the conversion is guessed.
        spacing_mm: spacing of the working grid, mm.
    """
    grid, body = scan_on_grid(volume, spacing_mm, _EVEN, _EVEN)
    # half the memory; training adds more noise than the rounding
    hu = grid.hu.round().to(torch.int16)
    if not isinstance(frame, FrameGuess):
        frame = guess_frame(hu.numpy(), body, grid.grid_to_ras, frame)
    return PreparedScan(volume.name, hu, torch.from_numpy(body), grid.grid_to_ras, frame)


def prepare_phantom(phantom: Phantom, name: str, spacing_mm: Spacing) -> PreparedScan:
    """Prepare a phantom, with its exact body coordinates at every FIELD_STEP-th voxel.

    Args:
        phantom: the phantom.
        name: name of the prepared scan.
        spacing_mm: spacing of the working grid, mm.
    """
    scan = replace(prepare_volume(phantom.volume, STILL, spacing_mm), name=name, origin="phantom")
    values = {structure: value for value, structure in phantom.label_names.items() if value}
    labels = LabelMap(phantom.labels, phantom.volume.ijk_to_ras, values)
    return with_exact_body(with_labels(scan, labels), phantom.to_body)


def prepare_film(
    film: Volume,
    collimated: Volume,
    spacing_mm: Spacing,
    origin: str,
    on_rays: Callable[[np.ndarray], tuple[np.ndarray, np.ndarray]],
) -> PreparedScan:
    """Prepare a projected film.

    Args:
        film: the film.
        collimated: the same film with grey value 0 outside the collimator.
        spacing_mm: spacing of the working grid, mm.
        origin: how the film was made, one of ORIGINS.
        on_rays: from places of the film (n, 3) RAS mm to their body coordinates (n, 3) mm, and mm of water along each
            ray.
    """
    grid, exposed = scan_on_grid(film, spacing_mm, _EVEN, _EVEN)
    exposed &= scan_on_grid(collimated, spacing_mm, _EVEN, _EVEN)[1]
    bare = PreparedScan(
        film.name,
        grid.hu.round().to(torch.int16),
        torch.from_numpy(exposed),
        grid.grid_to_ras,
        STILL,
    )
    nodes = bare.field_nodes_ras()
    body, water_mm = on_rays(nodes.reshape(-1, 3))
    # for each axis, scale and shift
    scale, shift_mm = np.transpose(
        [np.polyfit(nodes[..., axis].ravel(), body[:, axis], 1) for axis in range(3)]
    )
    water = torch.from_numpy(water_mm).float().view(1, 1, *nodes.shape[:3])
    # each node stands for its FIELD_STEP^3 voxels
    filled = F.interpolate(water, scale_factor=FIELD_STEP, mode="nearest")[0, 0] > _LEAST_WATER_MM
    k, j, i = bare.hu.shape
    frame = replace(STILL, scale=scale, shift_mm=shift_mm)
    body_mask = bare.body & filled[:k, :j, :i]
    return replace(
        bare,
        body=body_mask,
        frame=frame,
        body_field=as_field(body.reshape(nodes.shape)),
        origin=origin,
    )


def with_labels(scan: PreparedScan, label_map: LabelMap) -> PreparedScan:
    """Add the labels of a label map to a prepared scan. All lobes of a lung get the label of the lung."""
    numbers: dict[str, int] = {}
    largest = max(int(label_map.voxels.max()), *label_map.values.values(), 0)
    table = np.zeros(largest + 1, np.uint8)
    for name, value in label_map.values.items():
        table[value] = numbers.setdefault(structure_name(name), len(numbers) + 1)
    renamed = replace(label_map, voxels=table[label_map.voxels], covered=())
    # read slice by slice, to limit the memory
    k, j, i = scan.hu.shape
    layer = np.stack(np.meshgrid(np.arange(i), np.arange(j), [0.0]), axis=-1).reshape(-1, 3)
    layers = []
    for z in range(k):
        points_ras = transform_points(scan.grid_to_ras, layer + np.array((0, 0, z)))
        layers.append(renamed.at(points_ras))
    labels = torch.from_numpy(np.stack(layers).reshape(k, j, i))
    return replace(scan, labels=labels, label_names=tuple(numbers))


def with_exact_body(
    scan: PreparedScan, to_body: Callable[[np.ndarray], np.ndarray]
) -> PreparedScan:
    """Give a label image or a phantom its exact body coordinates. to_body: from RAS mm (N, 3) to body coordinates."""
    nodes = scan.field_nodes_ras()
    exact = to_body(nodes.reshape(-1, 3))
    shift = exact.mean(axis=0) - nodes.reshape(-1, 3).mean(axis=0)
    field = as_field(exact.reshape(nodes.shape))
    return replace(scan, frame=replace(STILL, shift_mm=shift), body_field=field)


def as_field(body_mm: np.ndarray) -> torch.Tensor:
    """Convert body coordinates (k, j, i, 3), mm, to the format of `PreparedScan.body_field`: float32 (3, k, j, i)."""
    return torch.from_numpy(np.ascontiguousarray(np.moveaxis(body_mm, -1, 0), np.float32))


def prepare_phantoms(
    count: int, spacing_mm: Spacing, destination: Path, report: Report
) -> list[Path]:
    """Make and prepare `count` synthetic patients; patients prepared before are reused. Seeds start at PHANTOM_SEED.

    Args:
        count: number of patients.
        spacing_mm: spacing of the working grid, mm.
        destination: folder of the prepared scans.
        report: called with a line for each patient that is made.
    """
    destination.mkdir(parents=True, exist_ok=True)
    paths = []
    for seed in range(PHANTOM_SEED, PHANTOM_SEED + count):
        path = destination / f"phantom{seed}.safetensors"
        if not path.exists():
            phantom = make_phantom(seed, spacing=SPACING_MM)
            prepare_phantom(phantom, path.stem, spacing_mm).save(path)
            report(f"prepared {path.stem}")
        paths.append(path)
    return paths
