"""The objective "descriptors": the loss of Yan 2022, Algorithm 1, on global and local descriptors."""

from dataclasses import dataclass

import torch
import torch.nn.functional as F

from ...embedding.models.network import GLOBAL_STRIDE, LOCAL_STRIDE, EmbeddingNetwork, Features
from ...training.objectives import LossContext, Objective, info_nce, read_cells
from ...training.recipes import LossSpec
from ...training.sampler import ViewBatch, ViewSampler

PER_GLOBAL = GLOBAL_STRIDE // LOCAL_STRIDE
_MOST_COMPARED = 8192  # hard negatives are searched among at most this many cells of the two views


@dataclass(frozen=True)
class _View:
    """One of the two crops of a pair. local, global_: (d, k, j, i), descriptors. local_mm, global_mm: (cells, 3) mm,
    positions of the cells of `local` and of `global_`."""

    local: torch.Tensor
    local_mm: torch.Tensor
    global_: torch.Tensor
    global_mm: torch.Tensor


def sam_loss(
    features: Features, batch: ViewBatch, spec: LossSpec, generator: torch.Generator
) -> torch.Tensor:
    """Algorithm 1 of Yan 2022: global plus local InfoNCE, mean over the pairs of the batch.

    Anchors are points of the first view that the second view shows, too.
    Global negatives: the cells of both views that are most similar to the anchor, and random cells of all other pairs.
    Local negatives: random cells among the candidates. Candidates are the cells of both views whose global plus local
    similarity to the anchor is highest. Cells less than `exclude_mm` from the anchor are not negatives.

    Args:
        features: outputs of the network for all views.
        batch: the pairs of views.
        spec: settings of the loss.
        generator: random numbers for the choice of negatives.
    """
    pairs = len(batch.first_cells)
    # once for all pairs
    local_maps = features.local.unbind()
    global_maps = features.global_.unbind()
    losses = []
    for pair in range(pairs):
        views = []
        for n in (pair, pairs + pair):
            coarse_mm = F.adaptive_avg_pool3d(batch.position_mm[n], global_maps[n].shape[1:])
            local_mm = batch.position_mm[n].flatten(1).T
            views.append(_View(local_maps[n], local_mm, global_maps[n], coarse_mm.flatten(1).T))
        cells = batch.first_cells[pair], batch.second_cells[pair]
        place = read_cells(batch.position_mm[pair], cells[0], unit=False)
        local = [read_cells(view.local, c) for view, c in zip(views, cells, strict=True)]
        coarse = [
            read_cells(view.global_, global_cells(c)) for view, c in zip(views, cells, strict=True)
        ]
        distant = [g.flatten(1) for n, g in enumerate(global_maps) if n % pairs != pair]
        losses.append(_global_loss(coarse, place, views, distant, spec, generator))
        losses.append(_local_loss(local, coarse[0], place, views, spec, generator))
    return torch.stack(losses).sum() / pairs


def global_cells(local_cells: torch.Tensor) -> torch.Tensor:
    return (local_cells + 0.5) / PER_GLOBAL - 0.5


def _global_loss(
    pair: list[torch.Tensor],
    place: torch.Tensor,
    views: list[_View],
    distant: list[torch.Tensor],
    spec: LossSpec,
    generator: torch.Generator,
) -> torch.Tensor:
    anchor, positive = pair
    similarity = torch.cat([anchor @ view.global_.flatten(1) for view in views], dim=1)
    excluded = torch.cat([_close(place, view.global_mm, spec.exclude_mm) for view in views], dim=1)
    hard = (
        similarity.masked_fill(excluded, -torch.inf)
        .topk(min(spec.negatives, similarity.shape[1]), dim=1)
        .values
    )
    if distant:
        pool = torch.cat(distant, dim=1)
        chosen = torch.randint(pool.shape[1], (spec.random_negatives,), generator=generator).to(
            pool.device
        )
        hard = torch.cat([hard, anchor @ pool[:, chosen]], dim=1)
    return info_nce(anchor, positive, hard, spec.temperature)


def _local_loss(
    pair: list[torch.Tensor],
    global_anchor: torch.Tensor,
    place: torch.Tensor,
    views: list[_View],
    spec: LossSpec,
    generator: torch.Generator,
) -> torch.Tensor:
    """Compute the local loss of the anchors in the first of two views of a scan, with negatives from both views.

    The negatives are chosen among the `spec.candidates` cells that are most similar to the anchor. The paper compares
    all cells with the anchor. Here, if the views have more than 8192 cells, only 8192 random cells are compared, and
    fewer candidates are chosen in proportion. pair: descriptors of anchors and positives. place: places of the anchors,
    mm.
    """
    anchor, positive = pair
    cells = sum(len(view.local_mm) for view in views)
    compared = min(cells, _MOST_COMPARED)
    chosen_cells = torch.randperm(cells, generator=generator)[:compared].to(anchor.device)
    similarity = []
    hardness = []
    close = []
    for number, view in enumerate(views):
        view_cells = chosen_cells[chosen_cells // len(views[0].local_mm) == number] - number * len(
            views[0].local_mm
        )
        similarity.append(anchor @ view.local.flatten(1)[:, view_cells])
        with torch.no_grad():  # the choice of hard negatives needs no gradient
            hardness.append(similarity[-1] + _upsampled(global_anchor, view, view_cells))
            close.append(_close(place, view.local_mm[view_cells], spec.exclude_mm))
    excluded = torch.cat(close, dim=1)
    candidates = min(-(-spec.candidates * compared // cells), compared)
    top = (
        torch.cat(hardness, dim=1)
        .masked_fill(excluded, -torch.inf)
        .topk(candidates, dim=1, sorted=False)
        .indices
    )
    count = min(spec.negatives, candidates)
    chosen = (
        torch.rand(len(anchor), candidates, generator=generator)
        .topk(count, dim=1)
        .indices.to(top.device)
    )
    negatives = (
        torch.cat(similarity, dim=1)
        .masked_fill(excluded, -torch.inf)
        .gather(1, top.gather(1, chosen))
    )
    return info_nce(anchor, positive, negatives, spec.temperature)


def _upsampled(anchor: torch.Tensor, view: _View, cells: torch.Tensor) -> torch.Tensor:
    """Return (p, n): the similarity of each global descriptor in `anchor` (p, d) to the view's global descriptors,
    interpolated at n local cells. cells: (n,) flat indices of the local cells."""
    similarity = (anchor @ view.global_.flatten(1)).view(len(anchor), *view.global_.shape[1:])
    _, j, i = view.local.shape[1:]
    ijk = torch.stack([cells % i, cells // i % j, cells // (i * j)], dim=1).to(similarity.dtype)
    return read_cells(similarity, global_cells(ijk), unit=False).T


def _close(place: torch.Tensor, cells_mm: torch.Tensor, exclude_mm: float) -> torch.Tensor:
    return torch.cdist(place, cells_mm, compute_mode="donot_use_mm_for_euclid_dist") < exclude_mm


def _loss(network: EmbeddingNetwork, batch: ViewBatch, context: LossContext) -> torch.Tensor:
    with context.precision:
        features = network(batch.image)
    return sam_loss(features, batch, context.recipe.loss, context.generator)


DESCRIPTORS = Objective(ViewSampler, _loss)
