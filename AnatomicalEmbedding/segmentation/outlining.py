"""Outline the structures of one scan, estimate how doubtful each outline is, and make and read the table of volumes."""

import csv
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

import numpy as np
import SimpleITK as sitk
import torch

from ..embedding.map import EmbeddingMap
from ..errors import ProgressCallback, ShareCallback
from ..scan.cropping import crop_voxels
from ..scan.geometry import to_image, transform_points
from ..scan.label_map import LabelMap
from ..scan.volume import Volume
from .carrying import blend, carry, mean_guess
from .grids import MARGIN_MM, UNIT_MM, Group, GroupCrop, make_crop, region
from .segmenter import Segmenter
from .voxels import predict

ABSENT, CUT, WHOLE = "absent", "cut", "whole"
_MISSING = "it was not found where it is expected"
_BY_REGISTRATION = (
    "outlined by registration alone: it looks different from the examples, or is absent"
)
_LEAST_SHARE = 0.15  # components smaller than this share of the largest component are removed
# an outline that is smaller, as a share of the carried labels, is wrong (usual share: 0.6 or more)
_LEAST_OF_CARRIED = 0.4
# below this share of the median volume in the examples, the structure is absent
_LEAST_VOLUME = 0.03
# The sum of the five `signs` with these weights predicts the logit of the Dice. The weights were fitted to 324 outlines
# of development scans, see RESULTS.md.
_WEIGHTS = np.array([2.10, 11.84, 1.74, 0.23, -0.57])
_LEAST_STEADY = 0.85  # lowest value of the second sign in these 324 outlines
COLUMNS = ("scan", "structure", "status", "volume_ml", "look", "doubt", "remark")
TABLE_NAME = "volumes.csv"
# structures that do not overlap: labels and probabilities (k, j, i)
Layer = tuple[np.ndarray, np.ndarray]


@dataclass(frozen=True)
class Outline:
    """One structure in one scan.

    status: WHOLE, CUT by the scan's border, or ABSENT (no voxels). doubt: large if the outline is probably wrong; None
    if the structure is absent. remark: why the structure is absent, or why a user should check the outline.
    """

    name: str
    status: str
    volume_ml: float
    doubt: float | None
    remark: str


class Outlines(NamedTuple):
    """All structures of one scan. labels: the structures on the voxels of the scan, in the order of `outlines`."""

    labels: LabelMap
    outlines: tuple[Outline, ...]


def outline(
    volume: Volume,
    embedding: EmbeddingMap,
    segmenter: Segmenter,
    step: ProgressCallback = lambda share, stage: None,
) -> Outlines:
    """Outline all structures of a segmenter in a scan.

    Args:
        volume: the scan.
        embedding: the scan's map, made with the segmenter's weights.
        segmenter: the segmenter.
        step: called with the share of the work that is done, 0 to 1, and the stage of the work.
    """
    layers = [_empty_layer(volume)]
    outlines = []
    for number, group in enumerate(segmenter.groups):
        box = region(group, group.names, embedding)
        if box is None:
            reason = "the scan does not show this part of the body"
            outlines += [Outline(name, ABSENT, 0.0, None, reason) for name in group.names]
            continue
        crop = make_crop(volume, embedding, group, np.clip(box, *volume.bounds_ras))
        step(number / len(segmenter.groups), "outlining")

        def report(share: float, finished: int = number) -> None:
            step((finished + 0.2 + 0.8 * share) / len(segmenter.groups), "outlining")

        for structure, probability in _group_outlines(segmenter, number, crop, embedding, report):
            if structure.status != ABSENT:
                # by label: 0, then the structures before this one; its own label is the next
                mates = segmenter.overlaps.get(structure.name, ())
                is_rival = np.array([False, *(earlier.name not in mates for earlier in outlines)])
                paint(probability, crop, volume, layers, is_rival)
            outlines.append(structure)
    labels = _join_layers(layers, outlines, volume).renumbered(segmenter.values)
    outlines.sort(key=lambda structure: segmenter.values[structure.name])
    return Outlines(labels, tuple(_measured(structure, labels) for structure in outlines))


def _group_outlines(
    segmenter: Segmenter,
    number: int,
    crop: GroupCrop,
    embedding: EmbeddingMap,
    report: ShareCallback,
) -> Iterator[tuple[Outline, torch.Tensor]]:
    """Yield the outline of each structure of a group, not measured yet, with its probability (k, j, i) in the crop.

    Args:
        segmenter: the segmenter.
        number: number of the group.
        crop: the part of the scan that may show the group.
        embedding: the scan's map.
        report: called with the share of the group's work that is done, 0 to 1.
    """
    group = segmenter.groups[number]
    carried = carry(embedding, crop, segmenter.outlined[number])
    guess = mean_guess(carried)
    tried = predict(segmenter.networks[number], crop, guess, report)
    shares = torch.tensor([segmenter.guess_shares[name] for name in group.names])
    joined = blend(tried.mean(0), carried, shares)
    for row, name in enumerate(group.names):
        examples_ml = segmenter.volumes_ml[name]
        probability, remark = choose_answer(joined[row], guess[row], crop, group, row)
        millilitres = float((probability > 0.5).sum()) * crop.spacing_mm**3 / 1000
        if millilitres < _LEAST_VOLUME * float(np.median(examples_ml)):
            yield Outline(name, ABSENT, 0.0, None, remark or _MISSING), probability
            continue
        quality = signs(guess[row], tried[:, row], probability, crop.spacing_mm, len(examples_ml))
        yield Outline(name, WHOLE, 0.0, doubt(quality), remark), probability


def _join_layers(layers: Sequence[Layer], outlines: Sequence[Outline], volume: Volume) -> LabelMap:
    """Make a label map of painted layers. The structure outlines[n] has the label n + 1 in the layers."""
    numbers = {structure.name: number for number, structure in enumerate(outlines, start=1)}
    if len(layers) == 1:
        return LabelMap(layers[0][0], volume.ijk_to_ras, numbers)
    masks = (
        (name, np.any([layer == n for layer, _ in layers], axis=0)) for name, n in numbers.items()
    )
    return LabelMap.from_masks(masks, volume.shape, volume.ijk_to_ras)


def choose_answer(
    joined: torch.Tensor, guess: torch.Tensor, crop: GroupCrop, group: Group, row: int
) -> tuple[torch.Tensor, str]:
    """Choose one of two outlines of a structure. Returns its probability (k, j, i) after `clean`, and a remark or "".

    `guess` is chosen if its outline is much larger: the scan then looks different from all examples, for instance
    because of another contrast phase.

    Args:
        joined: (k, j, i) the network's probability, mixed with the carried labels by `blend`.
        guess: (k, j, i) mean of the carried labels.
        crop: the part of the scan that is outlined.
        group: the group of the structure.
        row: index of the structure in the group.
    """
    outlined, refusal = clean(joined, crop, group, row)
    carried, _ = clean(guess, crop, group, row)
    if (outlined > 0.5).sum() < _LEAST_OF_CARRIED * (carried > 0.5).sum():
        return carried, _BY_REGISTRATION
    return outlined, refusal


def clean(
    probability: torch.Tensor, crop: GroupCrop, group: Group, row: int
) -> tuple[torch.Tensor, str]:
    """Keep the connected parts of an outline that belong to the structure; set the probability elsewhere to 0.

    A part is kept if it has at least _LEAST_SHARE of the largest part's size, and its middle is within MARGIN_MM of the
    structure's range in the examples. Returns (new probability, ""), or (zeros, reason) if no part is kept.

    Args:
        probability: (k, j, i) probability of the structure.
        crop: the part of the scan that is outlined.
        group: the group of the structure.
        row: index of the structure in the group.
    """
    mask = (probability > 0.5) & crop.inside
    nothing = torch.zeros_like(probability)
    if not mask.any():
        return nothing, _MISSING
    components = sitk.ConnectedComponent(
        sitk.GetImageFromArray(mask.numpy().astype(np.uint8)), True
    )
    number = torch.from_numpy(sitk.GetArrayFromImage(components).astype(np.int64))
    sizes = torch.bincount(number.ravel())
    sizes[0] = 0
    keep = torch.zeros(len(sizes), dtype=torch.bool)
    for part in torch.argsort(sizes, descending=True).tolist():
        if sizes[part] < _LEAST_SHARE * sizes.max():
            break
        middle = crop.coordinate[:, number == part].mean(1).double().numpy()
        middle = middle * UNIT_MM + group.centre
        low = group.low[row] - MARGIN_MM
        high = group.high[row] + MARGIN_MM
        keep[part] = bool(((middle >= low) & (middle <= high)).all())
    if not keep.any():
        return nothing, "it was found only in other parts of the body"
    # with the voxels next to a part, whose probability is below 0.5
    grown = torch.nn.functional.max_pool3d(keep[number].float()[None, None], 3, 1, 1)[0, 0]
    return probability * grown, ""


def paint(
    probability: torch.Tensor,
    crop: GroupCrop,
    volume: Volume,
    layers: list[Layer],
    is_rival: np.ndarray,
) -> None:
    """Paint a structure with the label len(is_rival) where its probability exceeds 0.5 and that of each rival.

    Args:
        probability: (k, j, i) probability of the structure.
        crop: the part of the scan that is outlined.
        volume: the scan.
        layers: the earlier structures on the volume's grid. The structure loses no voxel to those that are no rivals:
            it is painted on the first layer that has none of them here, or on a new one.
        is_rival: for each label, 0 included, whether its structure must not overlap this one.
    """
    filled = np.argwhere(probability.numpy() > 0.25)[:, ::-1]
    box = transform_points(crop.to_ras, np.stack([filled.min(0) - 1, filled.max(0) + 1]))
    part = crop_voxels(volume, box)
    # the part as slices of the volume
    first_ijk = transform_points(volume.ras_to_ijk, part.ijk_to_ras[None, :3, 3])[0]
    first = np.rint(first_ijk[::-1]).astype(int)
    block = tuple(slice(a, a + n) for a, n in zip(first, part.shape, strict=True))
    image = to_image(probability.numpy().astype(np.float32), crop.to_ras)
    grid = to_image(part.voxels, part.ijk_to_ras)
    resampled = sitk.Resample(image, grid, sitk.Transform(), sitk.sitkLinear, 0.0)
    chance = sitk.GetArrayFromImage(resampled)
    painted = chance > 0.5
    # first lose the voxels where a rival is as likely, then clear those of the weaker rivals
    for labels, strength in layers:
        painted &= ~(is_rival[labels[block]] & (strength[block] >= chance))
    for labels, _strength in layers:
        labels[block][painted & is_rival[labels[block]]] = 0
    if all(labels[block][painted].any() for labels, _strength in layers):
        layers.append(_empty_layer(volume))
    labels, strength = next(layer for layer in layers if not layer[0][block][painted].any())
    labels[block][painted] = len(is_rival)
    strength[block][painted] = chance[painted]


def _empty_layer(volume: Volume) -> Layer:
    """Return labels and probabilities of 0 on the voxels of a scan."""
    return np.zeros(volume.shape, np.uint16), np.zeros(volume.shape, np.float32)


def _measured(structure: Outline, labels: LabelMap) -> Outline:
    """Return `structure` with the volume and the status of its mask in `labels`."""
    if structure.status == ABSENT:
        return structure
    mask = labels.mask(structure.name)
    voxels = int(mask.sum())
    if not voxels:
        return Outline(structure.name, ABSENT, 0.0, None, _MISSING)
    is_cut = any(mask.take(end, axis).any() for axis in range(3) for end in (0, -1))
    millilitres = voxels * abs(np.linalg.det(labels.ijk_to_ras[:3, :3])) / 1000
    status = CUT if is_cut else WHOLE
    return replace(structure, status=status, volume_ml=float(millilitres))


def signs(
    guess: torch.Tensor,
    tried: torch.Tensor,
    probability: torch.Tensor,
    spacing_mm: float,
    examples: int,
) -> np.ndarray:
    """Compute five signs of the quality of an outline, (5,).

    1. the Dice of the outline with the truth, as predicted from the probabilities;
    2. the mean Dice of the outline with the outlines for slightly changed inputs;
    3. the predicted Dice of the carried labels, which is low if the examples disagree;
    4. the logarithm of the outline's thickness in mm;
    5. 1 if there is only one example, else 0.

    Args:
        guess: (k, j, i) mean of the carried labels.
        tried: (changes, k, j, i) probabilities for changed inputs.
        probability: (k, j, i) probability from which the outline is made.
        spacing_mm: voxel size, mm.
        examples: number of examples of the structure.
    """
    mask = probability > 0.5
    steady = float(np.mean([_dice(changed > 0.5, mask) for changed in tried]))
    faces = sum(float((mask != mask.roll(1, axis)).sum()) for axis in range(3))
    thickness = 6 * float(mask.sum()) / max(faces, 1.0) * spacing_mm
    values = (
        _expected_dice(probability, mask),
        max(steady, _LEAST_STEADY),
        _expected_dice(guess, guess > 0.5),
        np.log(max(thickness, 1.0)),
        float(examples == 1),
    )
    return np.array(values)


def doubt(values: np.ndarray) -> float:
    """Compute how doubtful an outline is. values: result of `signs`. A user should check the largest values first.

    The doubt is not an estimate of the Dice: in scans from other sources, such an estimate would be too high.
    """
    return float(-_WEIGHTS @ values)


def _expected_dice(probability: torch.Tensor, mask: torch.Tensor) -> float:
    """Return the Dice that a mask has on average if each voxel belongs to the structure with its probability."""
    return float(2 * probability[mask].sum() / (probability.sum() + mask.sum()).clamp(min=1e-6))


def _dice(first: torch.Tensor, second: torch.Tensor) -> float:
    return float(2 * (first & second).sum() / (first.sum() + second.sum()).clamp(min=1))


def table_rows(done: Sequence[tuple[str, Sequence[Outline]]]) -> list[list[object]]:
    """Make the rows of the table of outlines, with the columns COLUMNS. done: path and outlines of each scan.

    The column `look` ranks the outlines: 1 for the most doubtful outline. Absent structures have no `look` and `doubt`.
    """
    structures = [(path, structure) for path, outlines in done for structure in outlines]
    # number of the row -> doubt; number of the row -> rank
    doubts = {n: round(s.doubt, 3) for n, (_, s) in enumerate(structures) if s.doubt is not None}
    most_doubtful_first = sorted(doubts, key=doubts.__getitem__, reverse=True)
    ranks = {n: rank for rank, n in enumerate(most_doubtful_first, start=1)}
    return [
        [
            path,
            s.name,
            s.status,
            round(s.volume_ml, 2),
            ranks.get(n, ""),
            doubts.get(n, ""),
            s.remark,
        ]
        for n, (path, s) in enumerate(structures)
    ]


def read_table(path: Path) -> dict[str, tuple[Outline, ...]]:
    """Read the outlines of each scan from a volumes.csv; {} if the file is missing or damaged."""
    outlines: dict[str, tuple[Outline, ...]] = {}
    try:
        with path.open(newline="", encoding="utf-8") as file:
            for row in csv.DictReader(file):
                sign = float(row["doubt"]) if row["doubt"] else None
                structure = Outline(
                    row["structure"], row["status"], float(row["volume_ml"]), sign, row["remark"]
                )
                outlines[row["scan"]] = (*outlines.get(row["scan"], ()), structure)
    except (OSError, ValueError, KeyError, TypeError):
        return {}
    return outlines
