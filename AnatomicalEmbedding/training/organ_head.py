"""Training of the organ head on labelled scans, on top of a network that stays as it is.

The network reads each scan once; the head then learns from crops of what it found. A scan in which an organ is not
labelled says nothing about that organ: there, the organ's probability and that of everything else count together.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
import torch.nn.functional as F

from ..embedding.body import patient_on_grid
from ..embedding.models.network import STRIDE, EmbeddingNetwork
from ..embedding.models.organs import OrganHead
from ..embedding.working_grid import WorkingGrid
from ..errors import AnatomicalEmbeddingError
from ..scan.geometry import transform_points
from ..structures.labelled_scans import Case, LabelMap
from .label_frames import structure_name

_CROP_CELLS = 16
_CROPS = 4  # in a step
_ON_ORGANS = 0.7  # share of crops about a cell of a labelled organ, each organ as often as another
_RATE, _WEIGHT_DECAY, _CLIP = 2e-3, 1e-2, 5.0
_WARM_UP_STEPS = 30
_INPUT_NOISE = 0.02  # of each input's standard deviation
_COORDINATE_SHIFT = 0.1
_PRESENT_CELLS = 0.5  # of an organ in a crop, for its overlap to count
_FEWEST_PATIENTS = 5  # that hold an organ whole, for it to have a usual place
_MOST_SPREAD = 0.2  # of an organ's mean coordinate over patients along any axis, in units of the network; likewise
_NORMAL = 1.48  # deviation of a normal distribution over its median deviation
_HELD_SLICES = 2  # between an organ and the end of the scan that holds it whole


@dataclass(frozen=True, eq=False)
class OrganExample:
    """What the head reads of one scan, without batch axis, in float16, and the truth.

    image: network input at stride 2. coordinate, fine: stride 4. coarse: stride 8. local: stride 2.
    labels: uint8 (k, j, i) on the working grid, 1 + index of the organ, 0 elsewhere. body: bool, stride 4.
    known: labels that this scan would have, were they in it.
    """

    image: torch.Tensor
    coordinate: torch.Tensor
    fine: torch.Tensor
    coarse: torch.Tensor
    local: torch.Tensor
    labels: torch.Tensor
    body: torch.Tensor
    known: tuple[int, ...]
    cell_ml: float

    def inputs(self, cells: Sequence[slice] = (slice(None),) * 3) -> tuple[torch.Tensor, ...]:
        """Of those cells (k, j, i) of stride 4, as `OrganHead.logits` takes them: a batch of one."""
        found = (
            (self.image, 2),
            (self.coordinate, STRIDE),
            (self.fine, STRIDE),
            (self.coarse, 2 * STRIDE),
            (self.local, 2),
        )
        return tuple(grid[(None, slice(None), *_at_stride(cells, stride))].float() for grid, stride in found)


def _at_stride(cells: Sequence[slice], stride: int) -> tuple[slice, ...]:
    """What cells of stride 4 cover on a grid of another stride."""
    return tuple(
        slice(None) if s.stop is None else slice(s.start * STRIDE // stride, -(-s.stop * STRIDE // stride))
        for s in cells
    )


@torch.no_grad()
def read_example(
    network: EmbeddingNetwork, case: Case, organs: Sequence[str], without: Sequence[str] = ()
) -> OrganExample | None:
    """What the network finds in a labelled scan; None where none of the organs is labelled.

    without: organs whose labels in this scan are not of the whole organ.
    """
    label_map = case.label_map
    numbers = {value: structure_name(name) for name, value in label_map.values.items()}
    known = {value: 1 + organs.index(name) for value, name in numbers.items() if name in set(organs) - set(without)}
    if not known:
        return None
    grid, body = patient_on_grid(
        case.volume, network.spacing_mm, network.lattice, network.size_step, lambda share, what: None
    )
    x = network.prepare(grid.hu)[None]
    fine = network.fine(x)
    coarse = network.coarse(network.pool(fine))
    up = network.finish_body(coarse, fine)
    found = (F.avg_pool3d(x, 2), network.coordinate(up), up, coarse, network.local_about_content(x, up))
    return OrganExample(
        *(each[0].half() for each in found),
        labels=torch.from_numpy(_labels_on(grid, label_map, known)),
        body=F.max_pool3d(torch.from_numpy(np.asarray(body)).float()[None], STRIDE)[0] > 0,
        known=tuple(sorted(set(known.values()))),
        cell_ml=float(np.prod(grid.spacing_mm)) * STRIDE**3 / 1000,
    )


def _labels_on(grid: WorkingGrid, label_map: LabelMap, known: dict[int, int]) -> np.ndarray:
    """uint8 (k, j, i): the labels at the voxels of the working grid."""
    table = np.zeros(int(max(label_map.voxels.max(), *known)) + 1, np.uint8)
    for value, number in known.items():
        table[value] = number
    renamed = replace(label_map, voxels=table[label_map.voxels])
    k, j, i = grid.hu.shape
    layer = np.stack(np.meshgrid(np.arange(i), np.arange(j), [0.0]), axis=-1).reshape(-1, 3)
    layers = [renamed.at(transform_points(grid.grid_to_ras, layer + np.array((0, 0, z)))) for z in range(k)]
    return np.stack(layers).reshape(k, j, i)


def share_of_cells(labels: torch.Tensor, classes: int) -> torch.Tensor:
    """(k, j, i) labels of voxels -> (classes, k/4, j/4, i/4) share of each cell's voxels."""
    k, j, i = (n // STRIDE for n in labels.shape)
    within = labels.long().reshape(k, STRIDE, j, STRIDE, i, STRIDE).permute(1, 3, 5, 0, 2, 4).reshape(STRIDE**3, -1)
    share = torch.zeros(classes, k * j * i)
    share.scatter_add_(0, within, torch.full(within.shape, STRIDE**-3.0))
    return share.reshape(classes, k, j, i)


def usual_places(examples: Sequence[OrganExample], organs: Sequence[str]) -> torch.Tensor:
    """(n, 7) as `OrganHead.places`, medians over the scans that hold an organ whole.

    Zero for an organ without a place: held by fewer than five scans, lying very differently from one to the next, or
    one of a pair whose other has none.
    """
    found: list[list[torch.Tensor]] = [[] for _ in organs]
    for example in examples:
        share = share_of_cells(example.labels, 1 + len(organs))
        coordinate = example.coordinate.float()
        for number in example.known:
            weight = share[number]
            layers = torch.nonzero((example.labels == number).flatten(1).any(1)).flatten()
            ends = (_HELD_SLICES, len(example.labels) - 1 - _HELD_SLICES)
            if not len(layers) or layers[0] < ends[0] or layers[-1] > ends[1]:
                continue
            cells = weight.sum()
            mean = (coordinate * weight).sum((1, 2, 3)) / cells
            spread = (((coordinate - mean[:, None, None, None]) ** 2 * weight).sum((1, 2, 3)) / cells).sqrt()
            found[number - 1].append(torch.cat([mean, spread, (cells * example.cell_ml)[None]]))
    places = torch.zeros(len(organs), 7)
    for number, rows in enumerate(found):
        if len(rows) >= _FEWEST_PATIENTS:
            table = torch.stack(rows)
            median = table.median(0).values
            spread = _NORMAL * (table - median).abs().median(0).values[:3]
            if spread.max() <= _MOST_SPREAD:
                places[number] = median
    without = {name for name, row in zip(organs, places, strict=True) if not row.any()}
    for number, name in enumerate(organs):
        if _other_side(name) in without:
            places[number] = 0
    return places


def _other_side(name: str) -> str:
    """kidney_left -> kidney_right and back; the name itself where it has no side."""
    stem, _, side = name.rpartition("_")
    return {"left": f"{stem}_right", "right": f"{stem}_left"}.get(side, name)


def organ_loss(logits: torch.Tensor, share: torch.Tensor, body: torch.Tensor, known: Sequence[int]) -> torch.Tensor:
    """Cross entropy against shares of cells plus one less the overlap (soft Dice) of each organ that is there.

    logits, share: (1 + n, k, j, i). Probabilities of organs that are not `known` count to everything else.
    """
    log_probability = F.log_softmax(logits, 0)
    rest = [number for number in range(len(logits)) if number not in known]
    labelled = list(known)
    elsewhere = torch.logsumexp(log_probability[rest], 0)
    truth = share[labelled]
    entropy = -(truth * log_probability[labelled]).sum(0) - (1 - truth.sum(0)) * elsewhere
    loss = (entropy * body).sum() / body.sum().clamp_min(1)
    found, truth = log_probability[labelled].exp() * body, truth * body
    present = truth.sum((1, 2, 3)) > _PRESENT_CELLS
    if present.any():
        found, truth = found[present].flatten(1), truth[present].flatten(1)
        overlap = (2 * (found * truth).sum(1) + 1) / (found.sum(1) + truth.sum(1) + 1)
        loss = loss + (1 - overlap).mean()
    return loss


def train_organ_head(
    network: EmbeddingNetwork,
    examples: Sequence[OrganExample],
    organs: Sequence[str],
    steps: int,
    seed: int = 0,
    report: Callable[[int, float], None] = lambda step, loss: None,
) -> EmbeddingNetwork:
    """The network with a trained organ head; all else is as before.

    report: called after each step with its number and loss. Raises AnatomicalEmbeddingError without examples.
    """
    if not examples:
        raise AnatomicalEmbeddingError("no scan has a label of one of the organs; give labelled scans.")
    torch.manual_seed(seed)
    rng = np.random.default_rng(seed)
    joined = EmbeddingNetwork(replace(network.spec, organs=tuple(organs)))
    joined.load_state_dict(network.state_dict(), strict=False)
    joined.eval()
    head = joined.organs.train()
    optimiser = torch.optim.AdamW(head.parameters(), lr=_RATE, weight_decay=_WEIGHT_DECAY)
    for step in range(1, steps + 1):
        rate = _RATE * min(1.0, step / _WARM_UP_STEPS) * (0.5 * (1 + math.cos(math.pi * step / steps)) + 0.005)
        for group in optimiser.param_groups:
            group["lr"] = rate
        total = 0.0
        for index in rng.choice(len(examples), _CROPS):
            loss = _crop_loss(head, examples[index], len(organs), rng) / _CROPS
            loss.backward()
            total += float(loss.detach())
        torch.nn.utils.clip_grad_norm_(head.parameters(), _CLIP)
        optimiser.step()
        optimiser.zero_grad()
        report(step, total)
    head.places.copy_(usual_places(examples, organs))
    return joined.eval()


def _crop_loss(head: OrganHead, example: OrganExample, organs: int, rng: np.random.Generator) -> torch.Tensor:
    box = _crop(example, rng)
    inputs = [each + _INPUT_NOISE * each.std() * torch.randn_like(each) for each in example.inputs(box)]
    if rng.random() < 0.5:
        inputs[1] = inputs[1] + _COORDINATE_SHIFT * torch.randn(3, 1, 1, 1)
    labels = example.labels[_at_stride(box, 1)]
    logits = head.logits(*inputs)[0]
    return organ_loss(logits, share_of_cells(labels, 1 + organs), example.body[box], example.known)


def _crop(example: OrganExample, rng: np.random.Generator) -> tuple[slice, ...]:
    """Cells (k, j, i) of a crop about a random cell, starting at even cells, where the coarser level starts too."""
    labels = example.labels[::STRIDE, ::STRIDE, ::STRIDE]
    present = torch.unique(labels)[1:] if (labels == 0).any() else torch.unique(labels)
    about = example.body
    if len(present) and rng.random() < _ON_ORGANS:
        about = labels == present[int(rng.integers(len(present)))]
    cells = torch.nonzero(about)
    centre = cells[int(rng.integers(len(cells)))].tolist()
    box = []
    for cell, size in zip(centre, example.body.shape, strict=True):
        low = min(max(cell - int(rng.integers(_CROP_CELLS)), 0), max(size - _CROP_CELLS, 0))
        low -= low % 2
        box.append(slice(low, min(size, low + _CROP_CELLS)))
    return tuple(box)
