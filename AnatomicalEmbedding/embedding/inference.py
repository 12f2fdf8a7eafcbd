"""Volume -> EmbeddingMap: working grid, body, network on any device within a memory budget."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Protocol, cast

import numpy as np
import torch
import torch.nn.functional as F

from ..errors import CancelledError, MemoryLimitError
from ..scan.geometry import transform_points
from ..scan.volume import Volume, check_voxels
from .anchoring import anchored
from .body import no_patient, patient_on_grid
from .cache import MapCache
from .calibration import Calibration
from .device import choose_device, is_out_of_memory, memory_budget
from .grid_reading import in_rows
from .map import EmbeddingMap, Provenance
from .models.convolution import fold_norms
from .models.network import Features
from .models.registry import find_weights
from .organ_boxes import organ_boxes
from .orientation import doubtful_axes, find_faults, orientation_of, turn_over
from .slabs import FINE_REACH_CELLS, SlabNetwork, run_in_slabs
from .working_grid import axis_matrix, levels_of

_BODY_SHARE = 0.3  # share of body voxels from which a cell may be an answer


class Backbone(Protocol):
    """The network interface that inference uses; see EmbeddingNetwork for each member."""

    stride: int
    spacing_mm: tuple[float, float, float]
    unit_mm: float | None
    metric: bool
    lattice: int
    size_step: int
    bytes_per_voxel: float
    descriptor_bytes_per_voxel: float
    scales: tuple[float, ...]
    organ_places: torch.Tensor | None
    organ_names: tuple[str, ...]

    def prepare(self, hu: torch.Tensor) -> torch.Tensor: ...

    def to(self, device: torch.device) -> torch.nn.Module: ...

    def __call__(self, x: torch.Tensor, descriptors: bool = True) -> Features: ...


ProgressCallback = Callable[[float, str], None]


def load_model(name: str = "auto", device: str = "auto", cache: MapCache | None = None) -> Model:
    """Load weights and return a model that embeds scans.

    >>> model = load_model()
    >>> embedding = model.embed("scan.nii.gz")

    Args:
        name: "auto" (the shipped weights), another shipped name, or the path of a weights file.
        device: "auto" (a GPU if there is one), "cpu", "cuda", "cuda:1" or "mps".
        cache: folder where maps are kept and found again, such as `MapCache(Path("maps"))`; default: maps are not kept.

    Raises:
        WeightsError: the weights are unknown or damaged.
        AnatomicalEmbeddingError: the device is not there.
    """
    found = find_weights(name)
    network, on = fold_norms(found.network), choose_device(device)
    return Model(network, found.name, found.sha256, on, found.card, cache, calibration=found.calibration)


@dataclass(eq=False)
class Model:
    """A network ready to embed scans.

    Args:
        weights_hash: SHA-256 of the weights file.
        card: the model card.
        cache: where maps are kept, or None.
        budget_bytes: limit of the memory of one embedding beyond the volume; None: 60 % of the free memory.
        calibration: of answers by these weights, or None.
    """

    network: Backbone
    name: str
    weights_hash: str
    device: torch.device = field(default_factory=lambda: torch.device("cpu"))
    card: dict = field(default_factory=dict)
    cache: MapCache | None = None
    budget_bytes: int | None = None
    calibration: Calibration | None = None

    def __post_init__(self) -> None:
        self.network.to(self.device).eval()

    def predicted_bytes(self, volume: Volume) -> int:
        """Estimate the peak memory of embedding a volume in one piece, beyond the volume itself, in bytes."""
        extent = volume.bounds_ras[1] - volume.bounds_ras[0]
        voxels = np.prod(extent / self.network.spacing_mm + self.network.lattice + self.network.size_step)
        return int(voxels * max(scale**3 * self._bytes_per_voxel(scale == 1.0) for scale in self.network.scales))

    def _bytes_per_voxel(self, descriptors: bool) -> float:
        return self.network.bytes_per_voxel + (self.network.descriptor_bytes_per_voxel if descriptors else 0.0)

    def embed(
        self,
        scan: Volume | str | Path,
        progress: ProgressCallback | None = None,
        cancelled: Callable[[], bool] | None = None,
    ) -> EmbeddingMap:
        """Make the map of a scan, or read it from the cache.

        scan: a Volume, a path, or another scan that `Volume.of` accepts.

        progress: called with (share done, what is being done). cancelled: asked between steps; True raises
        CancelledError. Raises VolumeError when the voxels are no CT or show no body, MemoryLimitError when even
        slabs do not fit.
        """
        volume = Volume.of(scan)

        def step(share: float, what: str) -> None:
            if cancelled is not None and cancelled():
                raise CancelledError(f"embedding of {volume.name or 'the scan'} was cancelled; nothing was kept.")
            if progress is not None:
                progress(share, what)

        step(0.0, "reading the cache")
        scan_hash = volume_hash(volume)
        provenance = Provenance(self.name, self.weights_hash, volume.name, scan_hash, self.network.metric)
        result = self.cache.get(provenance) if self.cache is not None else None
        if result is not None:  # the same content may be cached under another name
            result = replace(result, provenance=provenance, notes=volume.notes, calibration=self.calibration)
        else:
            result = self._compute(volume, provenance, step)
            if self.cache is not None:
                self.cache.put(result)
        if progress is not None:
            progress(1.0, "done")
        return result

    def _compute(self, volume: Volume, provenance: Provenance, step: ProgressCallback) -> EmbeddingMap:
        if not volume.path:  # a file was checked when it was read
            check_voxels(volume)
        found, log_odds = self._run_network(volume, provenance, step)

        def check(share: float, what: str) -> None:
            step(0.95, "checking which way round the scan is stored")

        mirrored = {
            axis: self._run_network(turn_over(volume, axis), provenance, check)[0]
            for axis in doubtful_axes(found, log_odds)
        }
        return replace(found, faults=find_faults(found, log_odds, mirrored))

    @torch.no_grad()
    def _run_network(
        self, volume: Volume, provenance: Provenance, step: ProgressCallback
    ) -> tuple[EmbeddingMap, tuple[float, float, float]]:
        """Make the map of a scan. Also returns the log odds of `orientation_of`."""
        network = self.network
        grid, body = patient_on_grid(
            volume,
            network.spacing_mm,
            network.lattice,
            network.size_step,
            lambda share, what: step(0.05 + 0.45 * share, what),
        )
        step(0.5, "embedding")
        x = network.prepare(grid.hu)
        found = self._run_scales(x, lambda share: step(0.5 + 0.45 * share, "embedding"))
        cell_mm = np.asarray(grid.spacing_mm) * network.stride
        cell_to_ras = np.diag([*cell_mm, 1.0])
        cell_to_ras[:3, 3] = grid.origin_ras + (network.stride - 1) / 2 * np.asarray(grid.spacing_mm)
        share = F.avg_pool3d(torch.from_numpy(body).float()[None], network.stride)[0]
        cells = (share >= _BODY_SHARE) & _centres_inside(volume, cell_to_ras, share.shape)
        if not cells.any():
            raise no_patient(volume)
        coordinate = found.coordinate
        if coordinate is not None and found.organs is not None and network.organ_places is not None:
            coordinate = anchored(coordinate, found.organs * cells, network.organ_places, cells, cell_mm)
        boxes = {}
        if found.organs is not None:
            boxes = organ_boxes(found.organs * cells, network.organ_names, cell_to_ras)
        found_map = EmbeddingMap(
            None if coordinate is None else coordinate * (network.unit_mm or 1.0), cells, cell_to_ras,
            volume.ijk_to_ras, volume.shape, provenance, volume.notes, found.global_, found.local, self.calibration,
            boxes, image=levels_of(grid.hu),
        )  # fmt: skip
        return found_map, orientation_of(grid, body)

    def _run_scales(self, x: torch.Tensor, step: Callable[[float], None]) -> Features:
        """Run the network on input (1, k, j, i) at each of its scales and average the coordinate; no batch axis.

        The network was trained to give the same coordinate at any scale; averaging reduces its error.
        """
        scales, found = self.network.scales, Features()
        coordinates: list[torch.Tensor] = []
        for number, scale in enumerate(scales):
            resized = x if scale == 1.0 else _resized(x, scale, self.network.size_step)

            def step_of_scale(share: float, done: int = number) -> None:
                step((done + share) / len(scales))

            part = self._run(resized, scale == 1.0, step_of_scale)
            if scale == 1.0:
                found = part
            elif part.coordinate is not None:
                part = Features(_resampled(part.coordinate, x.shape, scale, self.network.stride))
            coordinates.append(part.coordinate)
        return found if found.coordinate is None else found._replace(coordinate=sum(coordinates) / len(scales))

    def _run(self, x: torch.Tensor, descriptors: bool, step: Callable[[float], None]) -> Features:
        budget = self.budget_bytes if self.budget_bytes is not None else memory_budget(self.device)
        need = x[0].numel() * self._bytes_per_voxel(descriptors)
        while True:
            try:
                return self._run_within(budget, x, descriptors, step)
            except (MemoryError, RuntimeError) as error:
                if not is_out_of_memory(error):
                    raise
            # another program took the free memory: slabs of half the size, until MemoryLimitError
            fixed = int(x[0].numel() * getattr(self.network, "fixed_bytes_per_voxel", 0.0))
            budget = fixed + (int(min(budget, need)) - fixed) // 2
            if self.device.type == "cuda":
                torch.cuda.empty_cache()

    def _run_within(self, budget: int, x: torch.Tensor, descriptors: bool, step: Callable[[float], None]) -> Features:
        network, voxels = self.network, x[0].numel()
        need = voxels * self._bytes_per_voxel(descriptors)
        if need <= budget:
            with self._precision():
                found = network(x[None].to(self.device), descriptors)
            step(1.0)
            return _without_batch(found)
        slab_cells = 0
        slabs = cast(SlabNetwork, network)
        if hasattr(network, "fine"):
            left = budget - voxels * slabs.fixed_bytes_per_voxel
            in_slabs = self._bytes_per_voxel(descriptors) - slabs.fixed_bytes_per_voxel
            layer = x[0, 0].numel() * network.stride * in_slabs
            reach = (slabs.reach_cells if descriptors else FINE_REACH_CELLS) + FINE_REACH_CELLS
            slab_cells = int(left // layer - 2 * reach) // 2 * 2
        if slab_cells < 2:
            raise MemoryLimitError(
                f"embedding needs about {need / 2**20:.0f} MB but "
                f"{budget / 2**20:.0f} MB are allowed, too few even in slabs; close other programs or raise the limit."
            )
        with self._precision():
            return _without_batch(run_in_slabs(slabs, x, slab_cells, self.device, step, descriptors))

    def _precision(self) -> torch.autocast:
        # on CUDA only: on a CPU, some convolutions choose bfloat16 themselves
        return torch.autocast(self.device.type, dtype=torch.float16, enabled=self.device.type == "cuda")


def _without_batch(found: Features) -> Features:
    """Features on the CPU: coordinate and organs in float32, descriptors in float16, exact to a thousandth.

    Each cell's descriptor is contiguous in memory, as matching reads it.
    """
    coordinate, global_, local, organs = (None if value is None else value[0].cpu() for value in found)
    coordinate = None if coordinate is None else coordinate.float()
    global_, local = (in_rows(None if each is None else each.half()) for each in (global_, local))
    return Features(coordinate, global_, local, organs)


def _resized(x: torch.Tensor, scale: float, size_step: int) -> torch.Tensor:
    """Input (1, k, j, i) magnified about voxel corner 0; padded with air to multiples of `size_step`."""
    size = [-(-round(n * scale) // size_step) * size_step for n in x.shape[1:]]
    return _read_along_axes(x, [(np.arange(n) + 0.5) / scale - 0.5 for n in size])


def _resampled(cells: torch.Tensor, shape: torch.Size, scale: float, stride: int) -> torch.Tensor:
    """The map of a resized input at the cells of the original input; beyond the border, of the border cells."""
    places = [(np.arange(n // stride) + 0.5) * scale - 0.5 for n in shape[1:]]
    return _read_along_axes(cells, [p.clip(0, n - 1) for p, n in zip(places, cells.shape[1:], strict=True)])


def _read_along_axes(x: torch.Tensor, places: list[np.ndarray]) -> torch.Tensor:
    """x (c, k, j, i) read linearly at the continuous `places` along k, j and i; zero outside."""
    k, j, i = (axis_matrix(n, place) for n, place in zip(x.shape[1:], places, strict=True))
    return torch.einsum("ak,ckyx->cayx", k, j @ (x @ i.T))


def volume_hash(volume: Volume) -> str:
    """Content hash of a scan: of its voxels and its matrix."""
    digest = hashlib.blake2b(np.ascontiguousarray(volume.voxels).data, digest_size=20)
    digest.update(repr((volume.shape, str(volume.voxels.dtype), np.round(volume.ijk_to_ras, 5).tolist())).encode())
    return digest.hexdigest()


def _centres_inside(volume: Volume, cell_to_ras: np.ndarray, shape: torch.Size) -> torch.Tensor:
    """(k, j, i) bool: cells whose centre lies inside the scan (oblique scans leave corners of the grid empty)."""
    k, j, i = np.meshgrid(*(np.arange(n) for n in shape), indexing="ij")
    points = transform_points(cell_to_ras, np.stack([i, j, k], axis=-1).reshape(-1, 3))
    return torch.from_numpy(volume.contains(points).reshape(tuple(shape)))
