"""Objectives of our recipes: their batches, and the losses of coordinates, descriptors and organs."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

from ..embedding.grid_reading import flat_index, read_linear, rows_of
from ..embedding.models.network import LOCAL_STRIDE, STRIDE, EmbeddingNetwork, Features
from ..scan.geometry import transform_points
from .organs import organ_loss, share_of_cells
from .recipes import LossSpec, Recipe
from .sampler import BatchSampler, CoordinateBatch, CoordinateSampler, ViewBatch, ViewSampler
from .scans import PreparedScan

# Largest offset of a negative from the anchor, local cells (i, j, k): for half of the negatives, for the other half.
_NEAR_CELLS = (3, 3, 3)
_FAR_CELLS = (10, 10, 8)


def info_nce(
    anchor: torch.Tensor, positive: torch.Tensor, negatives: torch.Tensor, temperature: float
) -> torch.Tensor:
    """Equation 1 of Yan 2022: -mean_i log( e^(f_i.f_i' / t) / (e^(f_i.f_i' / t) + sum_j e^(f_i.h_ij / t)) ).

    Args:
        anchor, positive: (p, d) descriptors f_i and f_i', of length 1.
        negatives: (p, n) similarities f_i.h_ij; an entry of -inf is not used.
        temperature: t.
    """
    similarity = (anchor * positive).sum(1, keepdim=True)
    logits = torch.cat([similarity, negatives], dim=1) / temperature
    return -F.log_softmax(logits, dim=1)[:, 0].mean()


def near_loss(
    features: Features, batch: ViewBatch, spec: LossSpec, generator: torch.Generator
) -> torch.Tensor:
    """Compute the contrastive loss of local descriptors. A point's negatives are places within about 10 cm.

    Places farther apart differ in their coordinates, so no global descriptor is needed. Half of the negatives are from
    the first crop of a pair, half from the second crop.

    Args:
        features: outputs of the network for all views.
        batch: the pairs of views.
        spec: settings of the loss.
        generator: random numbers for the choice of negatives.
    """
    pairs = len(batch.first_cells)
    # `unbind`, because the gradient of each `features.local[n]` would be as large as all views together
    views = features.local.unbind()
    losses = []
    for pair in range(pairs):
        cells = batch.first_cells[pair]
        second_cells = batch.second_cells[pair]
        first = views[pair]
        second = views[pairs + pair]
        first_mm = batch.position_mm[pair]
        second_mm = batch.position_mm[pairs + pair]
        anchor = read_cells(first, cells)
        positive = read_cells(second, second_cells)
        place = read_cells(first_mm, cells, unit=False)  # (p, 3) mm
        # each descriptor of the one view is compared with its partner in the other view
        for query, partner in ((anchor, positive), (positive, anchor)):
            negatives = [
                _similar_nearby(query, place, cells, first, first_mm, spec, generator),
                _similar_nearby(query, place, second_cells, second, second_mm, spec, generator),
            ]
            losses.append(info_nce(query, partner, torch.cat(negatives, dim=1), spec.temperature))
    return torch.stack(losses).mean()


def _similar_nearby(
    query: torch.Tensor,
    place: torch.Tensor,
    cells: torch.Tensor,
    map_: torch.Tensor,
    position: torch.Tensor,
    spec: LossSpec,
    generator: torch.Generator,
) -> torch.Tensor:
    """Return the similarities (p, n) of p descriptors `query` to n random cells of a crop near `cells`; -inf for a
    random cell outside the crop, or within `spec.exclude_mm` of `place`.

    place: (p, 3) mm, where the descriptors lie. cells: (p, 3) i, j, k, the cells of the crop that show these places.
    map_: (d, k, j, i), descriptors of the crop. position: (3, k, j, i) mm, positions of the cells of the crop.
    """
    count = spec.negatives // 4
    reach = torch.tensor([_NEAR_CELLS] * count + [_FAR_CELLS] * count)
    drawn = torch.rand(len(reach), 3, generator=generator)
    offsets = ((drawn * 2 - 1) * (reach + 0.5)).round().long().to(cells.device)
    if map_.shape[2] == LOCAL_STRIDE:  # both layers of a film along A are equal
        offsets[:, 1] = 0
    row, valid = flat_index(cells.round().long()[:, None] + offsets, map_.shape[1:])
    distance_mm = (rows_of(position)[row] - place[:, None]).norm(dim=-1)
    similarity = (query[:, None] * rows_of(map_)[row]).sum(-1)
    return similarity.masked_fill(~valid | (distance_mm < spec.exclude_mm), -torch.inf)


def read_cells(grid: torch.Tensor, cells: torch.Tensor, unit: bool = True) -> torch.Tensor:
    """Interpolate a grid at cells. Returns (p, d).

    Args:
        grid: (d, k, j, i).
        cells: (p, 3) cells i, j, k; they may be fractions.
        unit: whether each row of the result gets length 1.
    """
    values = read_linear(grid[None], cells[None])[0]
    return F.normalize(values, dim=1) if unit else values


def coordinate_loss(
    predicted: torch.Tensor, target: torch.Tensor, inside: torch.Tensor, beta: float
) -> torch.Tensor:
    """Compute the smooth L1 loss of coordinates.

    The loss of a batch is the mean of the losses of its crops. A crop in which `inside` is 0 everywhere has loss 0.

    Args:
        predicted, target: (b, 3, ...) coordinates.
        inside: (b, ...), 1 for the cells that count.
        beta: error at which the loss changes from quadratic to linear.
    """
    error = F.smooth_l1_loss(predicted, target, beta=beta, reduction="none").sum(1)
    weight = inside.to(error.dtype)
    cells = weight.flatten(1).sum(1)
    return ((error * weight).flatten(1).sum(1) / cells.clamp_min(1.0)).mean()


class FrameCorrections(nn.Module):
    """The learned correction of each scan's body frame: a shift, and a scale about the scan's middle.

    The frame of a prepared scan (from level readings and skeleton) has an error of a few centimetres. Training corrects
    this frame so that it agrees with the network. A Gaussian prior limits the correction; its standard deviations are
    the expected errors of the frame. The frame of a phantom is exact and is not corrected.
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
        # shift and scale are in units of the standard deviations of their priors, so that one learning rate fits both
        self.shift = nn.Parameter(torch.zeros(len(scans), 3))
        self.scale = nn.Parameter(torch.zeros(len(scans), 3))

    def forward(self, target: torch.Tensor, scan: torch.Tensor) -> torch.Tensor:
        """Correct `target`, body coordinates (b, 3, k, j, i) in unit_mm. scan: (b,) number of each crop's scan."""

        def spread(x: torch.Tensor) -> torch.Tensor:
            return x[scan][:, :, None, None, None]

        scale = spread(self.scale * self.scale_sd)
        return target + (target - spread(self.centre)) * scale + spread(self.shift * self.shift_sd)

    def prior(self, scan: torch.Tensor) -> torch.Tensor:
        """Sum the squares of each scan's shift and scale, in standard deviations. Return the mean over the scans."""
        return (self.shift[scan].square() + self.scale[scan].square()).sum(1).mean()


def _middle(scan: PreparedScan) -> np.ndarray:
    """Return the body coordinates (3,), mm, of the middle of a scan, by its frame."""
    return scan.frame.apply(transform_points(scan.grid_to_ras, scan.size_ijk / 2))


@dataclass(frozen=True)
class LossContext:
    """Arguments of a loss, in addition to network and batch.

    precision: context of mixed precision for the network. generator: random numbers for the choice of negatives.
    """

    recipe: Recipe
    frames: FrameCorrections
    precision: AbstractContextManager
    generator: torch.Generator


@dataclass(frozen=True)
class Objective:
    """A training task that a recipe can name. sampler: class that makes batches. loss: computes the loss of a batch."""

    sampler: type[BatchSampler]
    loss: Callable[[EmbeddingNetwork, Any, LossContext], torch.Tensor]


def _coordinates(
    network: EmbeddingNetwork, batch: CoordinateBatch, context: LossContext
) -> torch.Tensor:
    """Return the loss of the objective "coordinates"."""
    with context.precision:
        features = network(batch.image)
    return _in_frame(features, context.frames, batch, context.recipe)


def _hybrid(network: EmbeddingNetwork, batch: ViewBatch, context: LossContext) -> torch.Tensor:
    """Return the loss of the objective "hybrid": of descriptors, coordinates and, if the network has them, organs."""
    recipe = context.recipe
    with context.precision:
        features = network(batch.image)
    contrast = near_loss(features, batch, recipe.loss, context.generator)
    loss = recipe.loss.descriptor_weight * contrast
    if recipe.optimiser.descriptors_only:
        return loss
    loss = loss + _in_frame(features, context.frames, batch, recipe)
    if features.organs is not None:
        loss = loss + recipe.loss.organ_weight * _labelled_organ_loss(features.organs, batch)
    return loss


def _in_frame(
    features: Features, frames: FrameCorrections, batch: CoordinateBatch | ViewBatch, recipe: Recipe
) -> torch.Tensor:
    """Return the loss of the coordinates in `features`, plus a penalty on large corrections. Before the comparison,
    `frames` corrects the true body coordinates of each scan."""
    unit = recipe.network.unit_mm
    spec = recipe.loss
    target = frames(batch.body_mm / unit, batch.scan)
    loss = coordinate_loss(features.coordinate, target, batch.inside, spec.beta_mm / unit)
    return loss + spec.frame_prior * frames.prior(batch.scan)


def _labelled_organ_loss(logits: torch.Tensor, batch: ViewBatch) -> torch.Tensor:
    """Return the mean organ loss of all crops in the batch that have organ labels; 0 if no crop has organ labels."""
    losses = []
    for n in range(len(logits)):
        if batch.labelled[n].any():
            share = share_of_cells(batch.labels[n], logits.shape[1], STRIDE // LOCAL_STRIDE)
            body = batch.inside[n].float()
            classes = (1 + torch.nonzero(batch.labelled[n]).flatten()).tolist()
            losses.append(organ_loss(logits[n].float(), share, body, classes))
    return torch.stack(losses).mean() if losses else logits.sum() * 0.0


OBJECTIVES = {
    "coordinates": Objective(CoordinateSampler, _coordinates),
    "hybrid": Objective(ViewSampler, _hybrid),
}
