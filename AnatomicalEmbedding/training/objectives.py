"""The objectives of the recipes: the batches each needs, and the loss of a batch.

The paper's distances (equations 1-2), relative positions (Lei 2021), levels of slices (body part regression), and
ours, the coordinate itself.
"""

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

from ..embedding.grid_reading import read_linear
from ..embedding.models.network import LOCAL_STRIDE, STRIDE, EmbeddingNetwork, Features
from .contrast import near_loss, sam_loss
from .organs import organ_loss, share_of_cells
from .recipes import Recipe
from .sampler import (
    SLICES_PER_SCAN,
    BatchSampler,
    CoordinateBatch,
    CoordinateSampler,
    LevelSampler,
    PairBatch,
    PairSampler,
)
from .scans import PreparedScan
from .views import ViewBatch, ViewSampler


def distance_loss(
    first: torch.Tensor, second: torch.Tensor, position: torch.Tensor, equivariance: float = 1.0
) -> torch.Tensor:
    """Equation 2 of Goncharov 2024: L = 1/N^2 sum_ij (|a_i - a_j+| - |p_i - p_j|)^2 + lambda 1/N sum_i |a_i - a_i+|^2.

    first, second: (N, 3) embeddings a_i, a_i+ of positive pairs. position: (N, 3) mm in the one image; standardised
    here to zero mean and unit deviation per axis. equivariance: lambda (1: APE-equiv, 0: APE-aug). Equation 1
    (APE-naive) is the same with `second = first` and lambda 0.
    """
    standard = (position - position.mean(0)) / position.std(0).clamp_min(1e-6)
    predicted = _distances(first, second)
    loss = (predicted - _distances(standard, standard)).square().mean()
    return loss + equivariance * (first - second).square().sum(1).mean()


def offset_loss(first: torch.Tensor, second: torch.Tensor, position: torch.Tensor, reach_mm: float) -> torch.Tensor:
    """Relative position regression (Lei 2021): L = 1/(3 N^2) sum_ij |r tanh(b_j - a_i) - (x_j - x_i)|^2, in mm^2.

    first, second: (N, 3) outputs a_i, b_i at the same N places of one scan, seen in different crops. position: (N, 3)
    their RAS mm x_i. reach_mm: r, the longest offset that can be stated; short ones are r times the difference.
    """
    stated = reach_mm * torch.tanh(second[None] - first[:, None])
    return F.mse_loss(stated, position[None] - position[:, None])


def level_loss(score: torch.Tensor, height: torch.Tensor, seen: torch.Tensor) -> torch.Tensor:
    """Body part regression: L = mean_ij (sigmoid(s_j - s_i) - sigmoid(h_j - h_i))^2 + mean_i l1(s_i+1 - 2 s_i + s_i-1).

    score, height: (b, n) of n equally spaced slices of each of b scans, upwards. Heights are in units of the score:
    100 mm is the beta of 0.01 of Schuhegger 2021 (order loss). l1, smooth: equal steps for equal distances (Yan 2018).
    seen: (b, n) bool, slices that show body; pairs, and triples, with another one do not count.
    """
    upper = torch.ones(score.shape[1], score.shape[1], dtype=torch.bool, device=score.device).triu(1)
    pairs = seen[:, :, None] & seen[:, None] & upper
    rise, true_rise = score[:, None] - score[:, :, None], height[:, None] - height[:, :, None]
    order = (torch.sigmoid(rise) - torch.sigmoid(true_rise)).square() * pairs
    bend = score.diff(n=2, dim=1)
    triples = seen[:, 2:] & seen[:, 1:-1] & seen[:, :-2]
    steps = F.smooth_l1_loss(bend, torch.zeros_like(bend), reduction="none") * triples
    return order.sum() / pairs.sum().clamp_min(1) + steps.sum() / triples.sum().clamp_min(1)


def coordinate_loss(predicted: torch.Tensor, target: torch.Tensor, inside: torch.Tensor, beta: float) -> torch.Tensor:
    """Smooth L1 between coordinates (b, 3, ...) at the cells `inside` (b, ...), each crop weighing the same.

    A crop without such a cell counts as one without error, so that batches in parts average to the whole.
    """
    error = F.smooth_l1_loss(predicted, target, beta=beta, reduction="none").sum(1)
    weight = inside.to(error.dtype)
    cells = weight.flatten(1).sum(1)
    return ((error * weight).flatten(1).sum(1) / cells.clamp_min(1.0)).mean()


class FrameCorrections(nn.Module):
    """The learned correction of each scan's body frame: a small affine map about the scan's middle.

    The first guess (levels, skeleton) is right to a few centimetres; scans that the network sees as displaced or
    scaled against the others are moved, against a Gaussian prior whose deviations the guess states. Phantoms, whose
    frame is exact, have deviation zero and stay.
    """

    def __init__(self, scans: list[PreparedScan], unit_mm: float):
        super().__init__()
        priors = {
            "centre": np.array([_middle(s) for s in scans]) / unit_mm,
            "shift_sd": np.array([s.frame.shift_sd_mm for s in scans]) / unit_mm,
            "scale_sd": np.array([s.frame.scale_sd for s in scans]),
        }
        for name, values in priors.items():
            self.register_buffer(name, torch.from_numpy(values).float(), persistent=False)
        # both in standard deviations of their priors: one learning rate fits all
        self.shift = nn.Parameter(torch.zeros(len(scans), 3))
        self.scale = nn.Parameter(torch.zeros(len(scans), 3))

    def forward(self, target: torch.Tensor, scan: torch.Tensor) -> torch.Tensor:
        """target: (b, 3, k, j, i) guessed coordinates in units; scan: (b,) index. Returns the corrected ones."""

        def spread(x: torch.Tensor) -> torch.Tensor:
            return x[scan][:, :, None, None, None]

        scale = spread(self.scale * self.scale_sd)
        return target + (target - spread(self.centre)) * scale + spread(self.shift * self.shift_sd)

    def prior(self, scan: torch.Tensor) -> torch.Tensor:
        """Mean squared correction, in prior deviations, of the scans in the batch."""
        return (self.shift[scan].square() + self.scale[scan].square()).sum(1).mean()


def _middle(scan: PreparedScan) -> np.ndarray:
    middle_ijk = np.array(scan.hu.shape[::-1]) / 2
    ras = scan.grid_to_ras[:3, :3] @ middle_ijk + scan.grid_to_ras[:3, 3]
    return scan.frame.apply(ras[None])[0]


def _distances(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    # cdist's gradient at zero distance is zero, as wanted on the diagonal of equation 1
    return torch.cdist(a, b, compute_mode="donot_use_mm_for_euclid_dist")


Batch = CoordinateBatch | PairBatch | ViewBatch
_SAMPLERS = {
    "coordinates": CoordinateSampler,
    "distances": PairSampler,
    "descriptors": ViewSampler,
    "hybrid": ViewSampler,
    "offsets": PairSampler,
    "levels": LevelSampler,
}


def make_sampler(
    scans: list[PreparedScan], recipe: Recipe, seed: int, steps: int, share: tuple[int, int] = (0, 1)
) -> BatchSampler:
    """The sampler for a recipe's objective. share: (rank, world) of processes that train together."""
    return _SAMPLERS[recipe.objective](scans, recipe, seed, steps, share)


class Learner(nn.Module):
    """Network, frames and loss as one module, which processes that train together synchronise."""

    def __init__(self, network: EmbeddingNetwork, frames: FrameCorrections, recipe: Recipe, dtype: torch.dtype):
        super().__init__()
        self.network, self.frames, self.recipe, self.dtype = network, frames, recipe, dtype

    def forward(self, batch: Batch, generator: torch.Generator) -> torch.Tensor:
        device = next(self.network.parameters()).device.type
        precision = torch.autocast(device, self.dtype, enabled=self.dtype != torch.float32)
        return batch_loss(self.network, self.frames, batch, self.recipe, precision, generator)


def batch_loss(
    network: EmbeddingNetwork,
    frames: FrameCorrections,
    batch: Batch,
    recipe: Recipe,
    precision: torch.autocast,
    generator: torch.Generator,
) -> torch.Tensor:
    """Loss of a batch, a scalar. precision: what the network runs under. generator: of random negatives."""
    if isinstance(batch, PairBatch):
        with precision:
            maps = network(torch.cat([batch.first, batch.second])).coordinate
        pairs = len(batch.first)
        a = read_linear(maps[:pairs], _in_cells(batch.first_ijk)).flatten(0, 1)
        b = read_linear(maps[pairs:], _in_cells(batch.second_ijk)).flatten(0, 1)
        position = batch.position_mm.flatten(0, 1)
        if recipe.objective == "offsets":
            return offset_loss(a, b, position, recipe.network.unit_mm)
        return distance_loss(a, b, position, recipe.loss.equivariance)
    with precision:
        found = network(batch.image)
    if recipe.objective == "levels":
        return _of_middles(found.coordinate, batch, recipe.network.unit_mm)
    if isinstance(batch, CoordinateBatch):
        return _in_frame(found, frames, batch, recipe)
    if recipe.objective == "descriptors":
        return sam_loss(found, batch, recipe.loss, generator)
    contrast = recipe.loss.descriptor_weight * near_loss(found, batch, recipe.loss, generator)
    if recipe.optimiser.descriptors_only:
        return contrast
    loss = contrast + _in_frame(found, frames, batch, recipe)
    return loss if found.organs is None else loss + recipe.loss.organ_weight * _of_organs(found.organs, batch)


def _in_frame(
    found: Features, frames: FrameCorrections, batch: CoordinateBatch | ViewBatch, recipe: Recipe
) -> torch.Tensor:
    """Error of the coordinates in the common body frame, and the penalty on corrections of the scans' frames."""
    unit, spec = recipe.network.unit_mm, recipe.loss
    target = frames(batch.body_mm / unit, batch.scan)
    loss = coordinate_loss(found.coordinate, target, batch.inside, spec.beta_mm / unit)
    return loss + spec.frame_prior * frames.prior(batch.scan)


def _of_organs(logits: torch.Tensor, batch: ViewBatch) -> torch.Tensor:
    """Mean organ loss of the views that have labels; zero where none has."""
    labelled = [n for n in range(len(logits)) if bool(batch.known[n].any())]
    losses = [
        organ_loss(
            logits[n].float(),
            share_of_cells(batch.labels[n], logits.shape[1], STRIDE // LOCAL_STRIDE),
            batch.inside[n].float(),
            (1 + torch.nonzero(batch.known[n]).flatten()).tolist(),
        )
        for n in labelled
    ]
    return torch.stack(losses).mean() if losses else logits.sum() * 0.0


def _of_middles(coordinate: torch.Tensor, batch: CoordinateBatch, unit_mm: float) -> torch.Tensor:
    """Error of the levels of crops: their scores are the mean over the body cells of their middle slice, or two."""
    depth = coordinate.shape[2]
    middle = slice((depth - 1) // 2, depth // 2 + 1)
    inside = batch.inside[:, middle]
    cells = inside.sum((1, 2, 3))
    score = (coordinate[:, 2, middle] * inside).sum((1, 2, 3)) / cells.clamp_min(1)
    height = batch.body_mm[:, 2, middle].mean((1, 2, 3)) / unit_mm
    return level_loss(*(x.unflatten(0, (-1, SLICES_PER_SCAN)) for x in (score, height, cells > 0)))


def _in_cells(voxel_ijk: torch.Tensor) -> torch.Tensor:
    """Continuous stride-4 cells of input voxels."""
    return (voxel_ijk + 0.5) / STRIDE - 0.5
