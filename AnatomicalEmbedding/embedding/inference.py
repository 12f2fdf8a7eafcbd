"""Makes the map of a scan. The network runs on any device, within a memory budget."""

from __future__ import annotations

import hashlib
import math
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F

from ..errors import (
    CancelCallback,
    CancelledError,
    MemoryLimitError,
    ProgressCallback,
    ShareCallback,
    VolumeError,
    WeightsError,
    stoppable,
)
from ..resources import weights_file
from ..scan.geometry import grid_matrix, transform_points
from ..scan.volume import Film, Volume, check_any, check_ct, check_voxels
from .body import no_patient
from .cache import MapCache
from .calibration import Calibration
from .device import choose_device, is_out_of_memory, memory_budget, mixed_precision
from .film_check import check_film
from .film_grid import film_grey_values, scan_on_grid
from .frames.frame import Frame
from .grid_reading import in_rows
from .map import EmbeddingMap, Provenance
from .models.convolution import fold_norms
from .models.network import LOCAL_STRIDE, STRIDE, EmbeddingNetwork, Features
from .models.registry import find_weights
from .organ_anchors import anchored
from .organ_boxes import organ_boxes
from .orientation import doubtful_axes, find_faults, orientation_of, turn_over
from .spine_reading import read_spine
from .straightening import straightened
from .working_grid import axis_matrix, grey_values_of

_BODY_SHARE = 0.3  # least share of body voxels in a body cell
_CPU = torch.device("cpu")
_FINE_REACH_CELLS = 2  # reach of two 3x3x3 convolutions of the finest resolution


def load_model(name: str = "auto", device: str = "auto", cache: MapCache | None = None) -> Model:
    """Load weights and return a model that embeds scans.

    >>> model = load_model()
    >>> embedding = model.embed("scan.nii.gz")

    Args:
        name: "auto" (the shipped weights), another shipped name, or the path of a weights file.
        device: "auto" (a GPU if there is one), "cpu", "cuda", "cuda:1" or "mps".
        cache: where to store maps and find them again, such as `MapCache(Path("maps"))`; default: maps are not stored.

    Raises:
        WeightsError: the weights are unknown, damaged, or without coordinates.
        AnatomicalEmbeddingError: the device is not available.
    """
    weights = find_weights(name)
    if not weights.network.spec.coordinates:
        raise WeightsError(
            f"{weights.name}: these weights give no coordinates for a map; choose other weights."
        )
    model_class = FrameModel if isinstance(weights.network, Frame) else Model
    return model_class(
        fold_norms(weights.network),
        weights.name,
        weights.sha256,
        choose_device(device),
        weights.card,
        cache,
        calibration=weights.calibration,
        path=weights_file(name),
    )


@dataclass(eq=False)
class Model:
    """A network ready to embed scans.

    Args:
        weights_hash: SHA-256 of the weights file.
        card: the model card.
        cache: where maps are stored, or None.
        budget_bytes: memory that `embed` may use in addition to the volume; None: 60 % of the free memory.
        calibration: predicts the errors of matches made with these weights, or None.
        path: the weights file, or None. Its library and its atlas may lie next to it.
    """

    network: EmbeddingNetwork
    name: str
    weights_hash: str
    device: torch.device = _CPU
    card: dict = field(default_factory=dict)
    cache: MapCache | None = None
    budget_bytes: int | None = None
    calibration: Calibration | None = None
    path: Path | None = None

    def __post_init__(self) -> None:
        self.network.to(self.device).eval()

    @property
    def for_films(self) -> bool:
        """Whether the weights embed films, not CTs."""
        return self.network.spec.planar

    def check_scan(self, volume: Volume) -> Volume:
        """Return a scan that was read as a CT or a film. Raises VolumeError if it is neither."""
        return check_ct(volume)

    def embed(
        self,
        scan: Volume | str | Path,
        progress: ProgressCallback | None = None,
        cancelled: CancelCallback | None = None,
        only_kept: bool = False,
    ) -> EmbeddingMap:
        """Make the map of a scan, or read it from the cache.

        Args:
            scan: a Volume, a path, or anything else that `Volume.of` accepts.
            progress: called with (fraction done, text of the step).
            cancelled: called between steps; if it returns True, CancelledError is raised.
            only_kept: True to raise CancelledError if the cache does not contain the map.

        Raises:
            VolumeError: the voxels are not a CT, or show no body.
            MemoryLimitError: the memory budget is too small even for computing the scan slab by slab.
        """
        volume = Volume.of(scan, check=self.check_scan)

        message = f"embedding of {volume.name or 'the scan'} was cancelled; no map was stored."
        step = stoppable(progress, cancelled, message)
        step(0.0, "reading the cache")
        scan_hash = volume_hash(volume)
        provenance = Provenance(
            self.name, self.weights_hash, volume.name, scan_hash, self.network.metric
        )
        embedding = self.cache.get(provenance) if self.cache is not None else None
        if embedding is None and only_kept:
            raise CancelledError(f"{volume.name or 'the scan'}: the cache contains no map of it.")
        if embedding is None:
            embedding = self._compute(volume, provenance, step)
            if self.cache is not None:
                self.cache.put(embedding)
                # a file stores fewer bits per value. Read the map back, so that the first answers equal later answers.
                embedding = self.cache.get(provenance) or embedding
        # the cache may hold the map of a scan with the same voxels but another name
        result = replace(
            embedding, provenance=provenance, notes=volume.notes, calibration=self.calibration
        )
        if progress is not None:
            progress(1.0, "done")
        return result

    def _compute(
        self, volume: Volume, provenance: Provenance, step: ProgressCallback
    ) -> EmbeddingMap:
        """Make the map of a scan. Run the network again on changed copies of a scan that may be stored wrongly."""
        if not volume.path:  # a file was checked when it was read
            check_voxels(volume)
        self._check_kind(volume)
        embedding, log_odds = self._run_network(volume, provenance, step)

        def embed_copy(copy: Volume) -> EmbeddingMap:
            return self._run_network(
                copy, provenance, lambda share, text: step(0.95, "checking the orientation")
            )[0]

        if isinstance(volume, Film):
            if not volume.is_projection:
                check_film(embedding, volume, embed_copy)
            return embedding
        mirrored = {
            axis: embed_copy(turn_over(volume, axis)) for axis in doubtful_axes(embedding, log_odds)
        }
        embedding = replace(embedding, faults=find_faults(embedding, log_odds, mirrored))
        embedding = straightened(embedding, volume, embed_copy)
        return embedding.with_spine(read_spine(embedding, volume))

    def _check_kind(self, volume: Volume) -> None:
        """Raise VolumeError for a film if the weights embed CTs, and the reverse."""
        is_film = isinstance(volume, Film)
        if is_film and not self.for_films:
            raise VolumeError(
                f"{volume.where}: is a film, but the weights {self.name} are for CTs; find points in films with "
                "`match` and film-open; boxes, words and registration need a CT."
            )
        if self.for_films and not is_film:
            raise VolumeError(
                f"{volume.where}: is a CT, but the weights {self.name} are for films; choose weights for CTs."
            )

    @torch.no_grad()
    def _run_network(
        self, volume: Volume, provenance: Provenance, step: ProgressCallback
    ) -> tuple[EmbeddingMap, tuple[float, ...]]:
        """Return the map of a scan, and three log odds: that the scan is not mirrored along R, along A and along S."""
        network = self.network
        is_film = isinstance(volume, Film)
        grid, body = scan_on_grid(
            volume,
            network.spacing_mm,
            network.lattice,
            network.size_step,
            lambda share, text: step(0.05 + 0.45 * share, text),
        )
        step(0.5, "embedding")
        features = self._run_scales(
            network.prepare(grid.hu), lambda share: step(0.5 + 0.45 * share, "embedding")
        )
        voxel_mm = np.asarray(grid.spacing_mm)
        cell_mm = voxel_mm * network.stride
        # the first cell consists of the first `stride` voxels along each axis
        cell_to_ras = grid_matrix(grid.origin_ras + (network.stride - 1) / 2 * voxel_mm, cell_mm)
        cells = _body_cells(body, network.stride, cell_to_ras, volume)
        coordinate = features.coordinate  # in the unit of the network
        boxes = {}
        if features.organs is not None:
            organs = features.organs * cells
            coordinate = anchored(coordinate, organs, network.organs.places, cells, cell_mm)
            boxes = organ_boxes(organs, network.organ_names, cell_to_ras)
        embedding = EmbeddingMap(
            coordinate * (network.unit_mm or 1.0),
            cells,
            cell_to_ras,
            volume.ijk_to_ras,
            volume.shape,
            provenance,
            volume.notes,
            features.local,
            self.calibration,
            boxes,
            image=film_grey_values(grid.hu) if is_film else grey_values_of(grid.hu),
        )
        log_odds = (0.0, 0.0, 0.0) if is_film else orientation_of(grid, body)
        return embedding, log_odds

    def _run_scales(self, x: torch.Tensor, step: ShareCallback) -> Features:
        """Run the network on one scan at each of its scales. Returns the features, with averaged coordinates.

        The network was trained to give the same coordinate at any scale, so the average has a smaller error. The
        features have no batch axis. x: (1, k, j, i), input of the network.
        """
        scales = self.network.scales
        features = Features()
        coordinates = []
        for number, scale in enumerate(scales):

            def step_of_scale(share: float, done: int = number) -> None:
                step((done + share) / len(scales))

            if scale == 1.0:
                features = self._run(x, step_of_scale)
                coordinates.append(features.coordinate)
            else:
                resized = _resized(x, scale, self.network.size_step)
                part = self._run(resized, step_of_scale, descriptors=False)
                coordinates.append(_resampled(part.coordinate, x.shape, scale, self.network.stride))
        return features._replace(coordinate=sum(coordinates) / len(scales))

    def _run(self, x: torch.Tensor, step: ShareCallback, descriptors: bool = True) -> Features:
        """Run the network on `x` (1, k, j, i); in slabs along k if the whole `x` needs too much memory."""
        network = self.network
        of_voxel = network.bytes_per_voxel
        if descriptors:
            of_voxel += network.descriptor_bytes_per_voxel
        # bytes: `need` for the whole `x` at once; in slabs, `fixed`, and `layer` for each layer of cells
        fixed = x.numel() * network.fixed_bytes_per_voxel
        need = x.numel() * of_voxel
        budget = memory_budget(self.device) if self.budget_bytes is None else self.budget_bytes
        layer = x[0, 0].numel() * network.stride * (of_voxel - network.fixed_bytes_per_voxel)
        reach = _FINE_REACH_CELLS + _reach_cells(network, descriptors)
        while True:
            slab_cells = int((budget - fixed) // layer - 2 * reach) // 2 * 2
            if need <= budget:
                slab_cells = 0  # no slabs
            elif slab_cells < 2:
                raise MemoryLimitError(
                    f"embedding needs about {need / 2**20:.0f} MB but {budget / 2**20:.0f} MB are allowed; "
                    "close other programs, or give a larger limit with --memory-mb."
                )
            try:
                features = self._features(x, slab_cells, step, descriptors)
                step(1.0)
                return _without_batch(features)
            except (MemoryError, RuntimeError) as error:
                if not is_out_of_memory(error):
                    raise
            # another program took the free memory: halve the budget and try again, until MemoryLimitError is raised
            budget = int(fixed + (min(budget, need) - fixed) / 2)
            if self.device.type == "cuda":
                torch.cuda.empty_cache()

    def _features(
        self, x: torch.Tensor, slab_cells: int, step: ShareCallback, descriptors: bool
    ) -> Features:
        """Compute the features of `x` as a batch of one. slab_cells: as in `run_in_slabs`; 0 for the whole at once."""
        # on a CPU, `Convolution` chooses the number type
        dtype = torch.float16 if self.device.type == "cuda" else torch.float32
        with mixed_precision(self.device, dtype):
            if slab_cells:
                return run_in_slabs(self.network, x, slab_cells, self.device, step, descriptors)
            return self.network(x[None].to(self.device), descriptors)


class FrameModel(Model):
    """Weights of the kind "any": a frame, with which scans of one kind are aligned. It takes the place of a network."""

    network: Frame

    def check_scan(self, volume: Volume) -> Volume:
        """Return the scan. Raises VolumeError if it has too few voxels, or only one value."""
        return check_any(volume)

    def _compute(
        self, volume: Volume, provenance: Provenance, step: ProgressCallback
    ) -> EmbeddingMap:
        self.check_scan(volume)
        return self.network.map_of(volume, provenance, step)


def run_in_slabs(
    network: EmbeddingNetwork,
    x: torch.Tensor,
    slab_cells: int,
    device: torch.device,
    step: ShareCallback,
    descriptors: bool = True,
) -> Features:
    """Compute the features of a scan slab by slab. Returns them on the CPU, as a batch of one.

    The coordinate of a cell depends on the whole body. So independent tiles would give other coordinates than the whole
    scan (measured: up to 17 mm with 20 cm of overlap, 3 mm with 30 cm). But only the finest resolution of the U-Net and
    the local descriptors need much memory, and they depend on a few cells only. So slabs along k are computed one by
    one, in two passes: first the finest resolution of the encoder, then the finest resolution of the decoder and the
    descriptors. Between the passes, the coarser resolutions, with an eighth of the cells, are computed for the whole
    scan at once. Apart from rounding, the result is the same as without slabs. The global descriptor is left out; only
    training needs it.

    Args:
        network: the network.
        x: (1, k, j, i) its input.
        slab_cells: thickness of a slab in cells along k; even, so that no 2 x 2 x 2 block of the pooling is split.
        device: the device of the network.
        step: called after each slab with the fraction of the work done.
        descriptors: if False, only the coordinate is computed.
    """
    cells = x.shape[1] // network.stride
    reach = _reach_cells(network, descriptors)
    slabs = [(k, min(k + slab_cells, cells)) for k in range(0, cells, slab_cells)]

    def voxels_of(low: int, high: int) -> torch.Tensor:
        """Return the input of the cells low to high - 1 along k, as a batch of one."""
        return x[None, :, low * network.stride : high * network.stride].to(device)

    def fine(low: int, high: int) -> torch.Tensor:
        """Return the U-Net's finest features of the cells low to high - 1. Slabs do not change the features."""
        first = max(low - _FINE_REACH_CELLS, 0)
        last = min(high + _FINE_REACH_CELLS, cells)
        features = network.fine(voxels_of(first, last))
        return features[:, :, low - first : high - first]

    pooled = []
    for number, (low, high) in enumerate(slabs, start=1):
        pooled.append(network.pool(fine(low, high)))
        step(0.4 * number / len(slabs))
    coarse = network.coarse(torch.cat(pooled, dim=2))
    step(0.5)
    parts = []
    for number, (low, high) in enumerate(slabs, start=1):
        first = max(low - reach, 0)
        last = min(high + reach, cells)
        coarse_part = coarse[:, :, first // 2 : math.ceil(last / 2)]
        features = network.finish(
            coarse_part, fine(first, last), voxels_of(first, last), descriptors
        )
        parts.append(_cells_of(features, low - first, high - first))
        step(0.5 + 0.5 * number / len(slabs))
    joined = []
    for slabs_of_feature in zip(*parts, strict=True):
        is_missing = slabs_of_feature[0] is None
        joined.append(None if is_missing else torch.cat(slabs_of_feature, dim=2))
    return Features(*joined)


def _reach_cells(network: EmbeddingNetwork, descriptors: bool) -> int:
    """Return how many cells on each side the second pass of `run_in_slabs` reads."""
    return network.reach_cells if descriptors else _FINE_REACH_CELLS


def _cells_of(features: Features, low: int, high: int) -> Features:
    """Return the features of the cells low to high - 1 along k, on the CPU."""
    layers_of_cell = (1, 1, STRIDE // LOCAL_STRIDE, 1)  # along k, by feature
    parts = []
    for feature, layers in zip(features, layers_of_cell, strict=True):
        part = None if feature is None else feature[:, :, low * layers : high * layers].cpu()
        parts.append(part)
    return Features(*parts)


def _without_batch(features: Features) -> Features:
    """Return the features of a batch of one, on the CPU, without the batch's axis and the global descriptor."""
    coordinate, _, local, organs = (None if value is None else value[0].cpu() for value in features)
    if local is not None:
        local = in_rows(local.half())
    return Features(coordinate.float(), None, local, organs)


def _body_cells(
    body: np.ndarray, stride: int, cell_to_ras: np.ndarray, volume: Volume
) -> torch.Tensor:
    """Return the cells, (k, j, i) bool, that lie in the scan and show the body. Raises VolumeError if there are none.

    Args:
        body: bool, the body mask of the working grid.
        stride: voxels of this grid along each axis of a cell.
        cell_to_ras: (4, 4).
        volume: the scan.
    """
    share = F.avg_pool3d(torch.from_numpy(body).float()[None], stride)[0]
    index = np.indices(share.shape)[::-1].reshape(3, -1).T  # i, j, k
    centres_ras = transform_points(cell_to_ras, index)
    inside = torch.from_numpy(volume.contains(centres_ras)).view(share.shape)
    cells = (share >= _BODY_SHARE) & inside
    if not cells.any():
        raise no_patient(volume)
    return cells


def _resized(x: torch.Tensor, scale: float, size_step: int) -> torch.Tensor:
    """Return `x` (1, k, j, i) magnified by `scale` and extended with 0 to sizes that are multiples of `size_step`."""
    places = []
    for voxels in x.shape[1:]:
        size = math.ceil(round(voxels * scale) / size_step) * size_step
        places.append((np.arange(size) + 0.5) / scale - 0.5)
    return _read_along_axes(x, places)


def _resampled(cells: torch.Tensor, shape: torch.Size, scale: float, stride: int) -> torch.Tensor:
    """Return the coordinates of a magnified input at the cells of the original input.

    Args:
        cells: (3, k, j, i) coordinates of the cells of the magnified input.
        shape: size of the original input, voxels.
        scale: magnification.
        stride: voxels per cell along an axis.
    """
    # the centre of cell c of the original input lies at (c + 0.5) * scale - 0.5 in cells of the magnified input
    places = []
    for voxels, size in zip(shape[1:], cells.shape[1:], strict=True):
        centres = (np.arange(voxels // stride) + 0.5) * scale - 0.5
        places.append(centres.clip(0, size - 1))
    return _read_along_axes(cells, places)


def _read_along_axes(x: torch.Tensor, places: list[np.ndarray]) -> torch.Tensor:
    """Interpolate `x` (c, k, j, i) linearly on a grid; outside `x`, return 0. places: the positions of the grid along
    k, j and i, in voxels of `x`."""
    k, j, i = (axis_matrix(n, place) for n, place in zip(x.shape[1:], places, strict=True))
    return torch.einsum("ak,ckyx->cayx", k, j @ (x @ i.T))


def volume_hash(volume: Volume) -> str:
    """Return the content hash of a scan: a hash of its voxels and of its matrix `ijk_to_ras`."""
    digest = hashlib.blake2b(np.ascontiguousarray(volume.voxels).data, digest_size=20)
    matrix = np.round(volume.ijk_to_ras, 5).tolist()
    digest.update(repr((volume.shape, str(volume.voxels.dtype), matrix)).encode())
    return digest.hexdigest()
