"""Organs in training: the loss of the organ head, and the usual places and codes of organs.

The usual place of an organ is the median over many patients of its mean coordinate, the spread of its coordinates and
its volume. The code of an organ is a vector that differs from the vectors of its neighbours. `with_organ_knowledge`
computes places and codes from labelled scans and stores them in the network.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F

from ..anatomy.names import other_side
from ..embedding.models.network import STRIDE, EmbeddingNetwork
from ..scan.geometry import AIR_HU
from .scans import PreparedScan

_PRESENT_CELLS = 0.5  # an organ with fewer cells in a crop adds no overlap to the loss
_FEWEST_PATIENTS = 5  # with fewer scans that show an organ completely, the organ has no usual place
# units of the network; an organ whose mean coordinate varies more has no usual place
_MOST_SPREAD = 0.2
# standard deviation of a normal distribution, divided by its median absolute deviation
_NORMAL = 1.48
_MARGIN_CELLS = 1  # least distance, in cells, of a complete organ from the lowest and the highest cells of the body
_NEAR_CELLS = 2  # structures within this distance are neighbours; by hand
_OPPOSED = 0.3  # the cosine between the codes of neighbours is moved towards minus this value
_LEAST_WEIGHT = 0.02  # weight of two organs that are never near each other; not 0, as matching also compares them
_ELSEWHERE_WEIGHT = 0.3  # least weight of "everything else", which is next to every organ
_STEPS = 500
_RATE = 0.05


def share_of_cells(labels: torch.Tensor, classes: int, side: int) -> torch.Tensor:
    """Return the share of each class in each cell: (classes, k/side, j/side, i/side).

    Args:
        labels: (k, j, i) class of each voxel.
        classes: number of classes.
        side: side of a cell, voxels.
    """
    k, j, i = (n // side for n in labels.shape)
    blocks = labels.long().reshape(k, side, j, side, i, side)
    within = blocks.permute(1, 3, 5, 0, 2, 4).reshape(side**3, -1)
    share = torch.zeros(classes, k * j * i, device=labels.device)
    share.scatter_add_(0, within, torch.full(within.shape, side**-3.0, device=labels.device))
    return share.reshape(classes, k, j, i)


def organ_loss(
    logits: torch.Tensor, share: torch.Tensor, body: torch.Tensor, labelled: list[int]
) -> torch.Tensor:
    """Compute cross entropy + (1 - soft Dice). The Dice is the mean over the organs that the crop shows.

    Args:
        logits: (1 + n, k, j, i) of n organs; class 0 is "everything else".
        share: (1 + n, k, j, i) true share of each class in each cell.
        body: (k, j, i) 0 or 1.
        labelled: classes that the labels of the scan contain; the probabilities of all other classes are added to class
            0.
    """
    log_probability = F.log_softmax(logits, 0)
    unlabelled = [number for number in range(len(logits)) if number not in labelled]
    elsewhere = torch.logsumexp(log_probability[unlabelled], 0)
    truth = share[labelled]
    entropy = -(truth * log_probability[labelled]).sum(0) - (1 - truth.sum(0)) * elsewhere
    loss = (entropy * body).sum() / body.sum().clamp_min(1)
    predicted = log_probability[labelled].exp() * body
    truth = truth * body
    present = truth.sum((1, 2, 3)) > _PRESENT_CELLS
    if present.any():
        predicted = predicted[present].flatten(1)
        truth = truth[present].flatten(1)
        overlap = (2 * (predicted * truth).sum(1) + 1) / (predicted.sum(1) + truth.sum(1) + 1)
        loss = loss + (1 - overlap).mean()
    return loss


@dataclass(frozen=True, eq=False)
class LabelledCells:
    """A labelled scan in cells of 4 x 4 x 4 voxels.

    coordinate: (3, k, j, i), in units of the network's unit_mm. share: (1 + n, k, j, i) share of each class in each
    cell; class 0 is "everything else". body: bool (k, j, i). labelled: classes with labels. cell_ml: volume of a cell.
    """

    coordinate: torch.Tensor
    share: torch.Tensor
    body: torch.Tensor
    labelled: tuple[int, ...]
    cell_ml: float


@torch.no_grad()
def labelled_cells(
    network: EmbeddingNetwork, scans: Sequence[PreparedScan]
) -> Iterator[LabelledCells]:
    """Yield the cells of each labelled scan. The coordinates of the cells are not corrected by the organs."""
    organs = network.spec.organs
    for scan in scans:
        labelled = tuple(n for n, name in enumerate(organs, 1) if name in scan.label_names)
        if scan.labels is None or not labelled:
            continue
        # the network needs sides that are multiples of its lattice; the last axis comes first
        pad = []
        for size in reversed(scan.hu.shape):
            pad += [0, -size % network.lattice]
        x = network.prepare(F.pad(scan.hu.float(), pad, value=AIR_HU))[None]
        organ_numbers = scan.numbers_among(organs)[scan.labels.long()]
        voxel_mm3 = float(abs(scan.grid_to_ras[:3, :3].diagonal().prod()))
        yield LabelledCells(
            coordinate=network(x, descriptors=False).coordinate[0],
            share=share_of_cells(F.pad(organ_numbers, pad), 1 + len(organs), STRIDE),
            body=F.max_pool3d(F.pad(scan.body.float(), pad)[None], STRIDE)[0] > 0,
            labelled=labelled,
            cell_ml=voxel_mm3 * STRIDE**3 / 1000,
        )


def with_organ_knowledge(
    network: EmbeddingNetwork, scans: Sequence[PreparedScan]
) -> EmbeddingNetwork:
    """Compute usual places and codes of organs from labelled scans. Returns the network, with both stored in it."""
    organs = network.spec.organs
    places: list[list[torch.Tensor]] = [[] for _ in organs]
    contact = torch.zeros(1 + len(organs), 1 + len(organs))
    count = torch.zeros_like(contact)
    for cells in labelled_cells(network, scans):
        for number in cells.labelled:
            place = _place(cells, number)
            if place is not None:
                places[number - 1].append(place)
        scan_contact, scan_count = _neighbours(cells)
        contact = contact + scan_contact
        count = count + scan_count
    mean = contact / count.clamp_min(1)
    network.organs.places.copy_(usual_places(places, organs))
    if network.spec.organ_channels:
        network.organs.codes.copy_(organ_codes((mean + mean.T) / 2, network.spec.organ_channels))
    return network


def _place(cells: LabelledCells, number: int) -> torch.Tensor | None:
    """Return seven numbers about an organ: its mean body coordinate (3), the standard deviation of its body coordinates
    (3), and its volume (1), ml; None if the scan does not show the whole organ. number: index of the organ."""
    weight = cells.share[number]
    layers = torch.nonzero(weight.flatten(1).any(1)).flatten().tolist()
    body = torch.nonzero(cells.body.flatten(1).any(1)).flatten().tolist()
    if not layers or min(layers[0] - body[0], body[-1] - layers[-1]) < _MARGIN_CELLS:
        return None
    total = weight.sum()
    mean = (cells.coordinate * weight).sum((1, 2, 3)) / total
    away = cells.coordinate - mean[:, None, None, None]
    spread = ((away**2 * weight).sum((1, 2, 3)) / total).sqrt()
    return torch.cat([mean, spread, (total * cells.cell_ml)[None]])


def usual_places(rows: Sequence[Sequence[torch.Tensor]], organs: Sequence[str]) -> torch.Tensor:
    """Compute the usual places (n, 7) of n organs: mean coordinate, spread of the coordinates, and volume in ml.

    rows: for each organ, a row (7,) from `_place` for each scan that shows the organ completely. The usual place is the
    median of these rows. All seven values are 0 if fewer than five scans show the organ, if the organ's place varies
    much, or if the same organ on the other side of the body has no usual place.
    """
    places = torch.zeros(len(organs), 7)
    for number, organ_rows in enumerate(rows):
        if len(organ_rows) < _FEWEST_PATIENTS:
            continue
        table = torch.stack(list(organ_rows))
        median = table.median(0).values
        spread = _NORMAL * (table - median).abs().median(0).values[:3]
        if spread.max() <= _MOST_SPREAD:
            places[number] = median
    without = {name for name, row in zip(organs, places, strict=True) if not row.any()}
    for number, name in enumerate(organs):
        if other_side(name) in without:
            places[number] = 0
    return places


def _neighbours(cells: LabelledCells) -> tuple[torch.Tensor, torch.Tensor]:
    """Return two arrays (1 + n, 1 + n) about pairs of n structures; index 0 stands for the unlabelled rest of the body.

    Entry [a, b] of the first array is the share of structure b's cells that lie within two cells of structure a. Entry
    [a, b] of the second array is 1 if the scan shows both structures, else 0.
    """
    share = cells.share.clone()
    share[0] *= cells.body
    size = share.flatten(1).sum(1)
    around = F.max_pool3d((share > 0).float()[None], 2 * _NEAR_CELLS + 1, 1, _NEAR_CELLS)[0]
    contact = torch.einsum("akji,bkji->ab", around, share) / size.clamp_min(1e-6)
    present = (size > 0).float()
    return contact, present[:, None] * present


def organ_codes(contact: torch.Tensor, channels: int) -> torch.Tensor:
    """Compute unit vectors (1 + n, channels) as codes of organs. Codes of neighbours differ as much as possible.

    With one channel per organ, descriptors would be long and matching slow. Matching compares places a few centimetres
    apart, so only the codes of neighbours must differ.

    Args:
        contact: symmetric (1 + n, 1 + n), larger for organs that lie nearer to each other, as returned by
            `_neighbours`. Row 0 stands for all other tissue.
        channels: length of a code.
    """
    weight = contact + _LEAST_WEIGHT
    weight[0] = weight[0].clamp_min(_ELSEWHERE_WEIGHT)
    weight[:, 0] = weight[0]
    weight.fill_diagonal_(0)
    generator = torch.Generator().manual_seed(0)
    codes = torch.randn(len(contact), channels, generator=generator).requires_grad_()
    optimiser = torch.optim.Adam([codes], _RATE)
    for _ in range(_STEPS):
        unit = F.normalize(codes, dim=1)
        cosines = unit @ unit.T
        loss = (weight * (cosines.clamp_min(-_OPPOSED) + _OPPOSED).square()).sum()
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
    return F.normalize(codes.detach(), dim=1)
