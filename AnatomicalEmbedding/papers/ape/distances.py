"""The objective "distances": distances between points that two crops of a scan show (Goncharov 2024, section 2.1)."""

from dataclasses import dataclass, fields

import numpy as np
import torch

from ...embedding.grid_reading import read_linear
from ...embedding.models.network import STRIDE, EmbeddingNetwork
from ...training.augmentation import augment
from ...training.crops import cut_crop, draw_geometry
from ...training.objectives import LossContext, Objective
from ...training.sampler import BatchSampler

_FEWEST_POINTS = 32  # if fewer of the random points in the overlap of a pair lie in the body, another pair is made


@dataclass
class PairBatch:
    """n pairs of crops of one scan. Positives are the p points that both crops of a pair show.

    first, second: (n, 1, k, j, i) network input. first_ijk, second_ijk: (n, p, 3) voxel indices of the positives in the
    first and in the second crop; they may be fractions. position_mm: (n, p, 3) positives, mm along the scan's axes.
    """

    first: torch.Tensor
    second: torch.Tensor
    first_ijk: torch.Tensor
    second_ijk: torch.Tensor
    position_mm: torch.Tensor


class PairSampler(BatchSampler):
    """Makes batches of pairs of overlapping crops of one scan, for the objectives "distances" and "offsets"."""

    def __getitem__(self, step: int) -> PairBatch:
        rng = self.rng(step)
        batch = self.recipe.batch
        spec = self.recipe.augmentation
        i, j, k = batch.crop_sizes[0]
        size = i, j, k
        index, _ = self.aim(rng)
        scan = self.scans[index]
        spacing = np.diag(scan.grid_to_ras)[:3]
        shape_ijk = np.array(scan.hu.shape[::-1])
        rows: dict[str, list[torch.Tensor]] = {field.name: [] for field in fields(PairBatch)}
        while len(rows["first"]) < batch.pairs:
            k = int(rng.choice(self.rows[index]))
            in_slice = torch.nonzero(scan.body[k])
            j, i = in_slice[int(rng.integers(len(in_slice)))].tolist()
            seed_voxel = np.array([i, j, k], dtype=float)
            views = []
            for _ in range(2):
                lattice = draw_geometry(spec, size, spacing, rng)
                half = lattice.max((1, 2, 3)) / spacing
                centre = seed_voxel + rng.uniform(-0.8, 0.8, size=3) * half
                views.append((lattice, centre, half))
            low = np.maximum(np.max([c - h for _, c, h in views], axis=0), 0)
            high = np.minimum(np.min([c + h for _, c, h in views], axis=0), shape_ijk - 1)
            points = rng.uniform(low, high, size=(batch.points_per_pair * 4, 3))
            nearest = torch.from_numpy(points.round().astype(int))
            points = points[scan.body[nearest[:, 2], nearest[:, 1], nearest[:, 0]].cpu().numpy()]
            if len(points) < min(_FEWEST_POINTS, batch.points_per_pair):
                continue
            points = points[np.arange(batch.points_per_pair) % len(points)]
            for view, (lattice, centre, half) in zip(("first", "second"), views, strict=True):
                crop = cut_crop(scan, centre, lattice, size)
                rows[view].append(augment(crop.hu, spec, self.recipe.network, rng))
                in_crop = ((points - centre) / (2 * half) + 0.5) * (np.array(size) - 1)
                rows[f"{view}_ijk"].append(torch.from_numpy(in_crop.astype(np.float32)))
            rows["position_mm"].append(torch.from_numpy((points * spacing).astype(np.float32)))
        stacked = {name: torch.stack(values) for name, values in rows.items()}
        return PairBatch(
            **{n: v[:, None] if n in ("first", "second") else v for n, v in stacked.items()}
        )


def in_cells(voxel_ijk: torch.Tensor) -> torch.Tensor:
    """Convert voxel indices of the input to indices of cells of 4 x 4 x 4 voxels. Indices may be fractions."""
    return (voxel_ijk + 0.5) / STRIDE - 0.5


def distance_loss(
    first: torch.Tensor, second: torch.Tensor, position: torch.Tensor, equivariance: float = 1.0
) -> torch.Tensor:
    """Equation 2 of Goncharov 2024: L = 1/N^2 sum_ij (|a_i - a_j+| - |p_i - p_j|)^2 + lambda 1/N sum_i |a_i - a_i+|^2.

    Args:
        first, second: (N, 3) outputs a_i, a_i+ at N points, in the first and in the second crop.
        position: (N, 3) points p_i in the scan, mm; they are shifted and scaled to zero mean and unit deviation per
            axis.
        equivariance: lambda (1: APE-equiv, 0: APE-aug). With `second = first` and lambda 0 this is equation 1
            (APE-naive).
    """
    standard = (position - position.mean(0)) / position.std(0).clamp_min(1e-6)
    predicted = _distances(first, second)
    loss = (predicted - _distances(standard, standard)).square().mean()
    return loss + equivariance * (first - second).square().sum(1).mean()


def _distances(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    # cdist's gradient at zero distance is zero, which is needed for the pairs (i, i) of equation 1
    return torch.cdist(a, b, compute_mode="donot_use_mm_for_euclid_dist")


def read_pairs(
    network: EmbeddingNetwork, batch: PairBatch, context: LossContext
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Run the network, and read its outputs at the points of a batch.

    Args:
        network: the network.
        batch: pairs of crops with N points in all.
        context: precision of the network.

    Returns three arrays (N, 3): the outputs in the first crop, the outputs in the second crop, and the positions in mm.
    """
    with context.precision:
        maps = network(torch.cat([batch.first, batch.second])).coordinate
    pairs = len(batch.first)
    first = read_linear(maps[:pairs], in_cells(batch.first_ijk)).flatten(0, 1)
    second = read_linear(maps[pairs:], in_cells(batch.second_ijk)).flatten(0, 1)
    return first, second, batch.position_mm.flatten(0, 1)


def _loss(network: EmbeddingNetwork, batch: PairBatch, context: LossContext) -> torch.Tensor:
    return distance_loss(*read_pairs(network, batch, context), context.recipe.loss.equivariance)


DISTANCES = Objective(PairSampler, _loss)
