"""Match points by descriptors alone (Yan 2022, III-D): find the body cell of highest global + local similarity."""

from typing import NamedTuple

import numpy as np
import torch
import torch.nn.functional as F

from ...embedding.film_grid import scan_on_grid
from ...embedding.grid_reading import peak_offsets, read_linear
from ...embedding.models.convolution import fold_norms
from ...embedding.models.network import LOCAL_STRIDE, EmbeddingNetwork
from ...scan.geometry import transform_points
from ...scan.volume import Volume
from ...structures.labelled_scans import Case
from .descriptors import PER_GLOBAL, global_cells

_BODY_SHARE = 0.3  # a cell may be an answer if at least this share of its voxels is body
_CHUNK_SIMILARITIES = 4_000_000


class DescribedScan(NamedTuple):
    """The descriptors of one scan, as vectors of length 1.

    Args:
        local: (l, k, j, i) local descriptor of each cell.
        global_: (g, k/4, j/4, i/4) global descriptors; sizes are rounded up.
        body: bool (k, j, i), cells that may be an answer.
        cell_to_ras: (4, 4), cell (i, j, k) -> RAS mm of its centre.
    """

    local: torch.Tensor
    global_: torch.Tensor
    body: torch.Tensor
    cell_to_ras: np.ndarray


class DescriptorMatcher:
    """Matches points by a network with global and local descriptors; the descriptors of a scan are computed once."""

    def __init__(self, network: EmbeddingNetwork) -> None:
        self._network = fold_norms(network)
        self._scans: dict[str, DescribedScan] = {}

    def __call__(self, template: Case, points_ras: np.ndarray, target: Case) -> np.ndarray:
        for case in (template, target):
            if case.id not in self._scans:
                self._scans[case.id] = describe(self._network, case.volume)
        return find_points(self._scans[template.id], points_ras, self._scans[target.id])


@torch.no_grad()
def describe(network: EmbeddingNetwork, volume: Volume) -> DescribedScan:
    grid, body = scan_on_grid(volume, network.spacing_mm, network.lattice, network.size_step)
    features = network(network.prepare(grid.hu)[None])
    share = F.avg_pool3d(torch.from_numpy(body).float()[None], LOCAL_STRIDE)[0]
    cell_to_ras = np.diag([*(LOCAL_STRIDE * np.asarray(grid.spacing_mm)), 1.0])
    cell_to_ras[:3, 3] = grid.origin_ras + (LOCAL_STRIDE - 1) / 2 * np.asarray(grid.spacing_mm)
    return DescribedScan(
        features.local[0].float(), features.global_[0], share >= _BODY_SHARE, cell_to_ras
    )


def find_points(
    template: DescribedScan, points_ras: np.ndarray, target: DescribedScan
) -> np.ndarray:
    """Find points of a template in a target. Returns (n, 3) RAS mm.

    Args:
        template: descriptors of the template.
        points_ras: (n, 3) RAS mm, the points.
        target: descriptors of the target.
    """
    cells = torch.from_numpy(
        transform_points(np.linalg.inv(template.cell_to_ras), points_ras)
    ).float()[None]
    local = F.normalize(read_linear(template.local[None], cells)[0], dim=1)
    coarse = F.normalize(read_linear(template.global_[None], global_cells(cells))[0], dim=1)
    shape = target.body.shape
    rows = max(1, _CHUNK_SIMILARITIES // target.body.numel())
    places = []
    for local_part, coarse_part in zip(local.split(rows), coarse.split(rows), strict=True):
        similarity = torch.einsum("ng,gkji->nkji", coarse_part, target.global_)
        up = F.interpolate(similarity[:, None], scale_factor=PER_GLOBAL, mode="trilinear")[:, 0]
        up = up[:, : shape[0], : shape[1], : shape[2]]
        total = (
            (torch.einsum("nl,lkji->nkji", local_part, target.local) + up)
            .masked_fill(~target.body, -2.0)
            .flatten(1)
        )
        best = total.argmax(1)
        peaks = (
            np.stack(np.unravel_index(best.numpy(), shape), axis=1)
            + peak_offsets(total, best, shape).numpy()
        )
        places.append(transform_points(target.cell_to_ras, peaks[:, ::-1]))
    return np.concatenate(places)
