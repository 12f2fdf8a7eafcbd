"""Outline the structures of one scan, estimate how doubtful each outline is, and make and read the table of volumes."""

import csv
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import SimpleITK as sitk
import torch

from ..embedding.map import EmbeddingMap
from ..scan.cropping import crop_voxels
from ..scan.geometry import to_image, transform_points
from ..scan.label_map import LabelMap
from ..scan.volume import Volume
from .carrying import blend, carry, mean_guess
from .grids import MARGIN_MM, UNIT_MM, Crop, Group, make_crop, region
from .segmenter import Segmenter
from .voxels import predict

ABSENT, CUT, WHOLE = "absent", "cut", "whole"
_NOT_FOUND = "it was not found where it is expected"
_LEAST_SHARE = 0.15  # components smaller than this share of the largest component are removed
_LEAST_KEPT = 0.4  # an outline that is smaller, as a share of the carried labels, is wrong (usual share: 0.6 or more)
_LEAST_VOLUME = 0.03  # below this share of the median volume in the examples, the structure is absent
# The sum of the five `signs` with these weights predicts the logit of the Dice. The weights were fitted to 324 outlines
# of development scans, see RESULTS.md.
_WEIGHTS = np.array([2.10, 11.84, 1.74, 0.23, -0.57])
_LEAST_STEADY = 0.85  # lowest value of the second sign in these 324 outlines
COLUMNS = ("scan", "structure", "status", "volume_ml", "look", "doubt", "remark")
TABLE_NAME = "volumes.csv"
Layer = tuple[np.ndarray, np.ndarray]  # structures that do not overlap: labels and probabilities (k, j, i)


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
    remark: str = ""


@dataclass(frozen=True, eq=False)
class Outlines:
    """All structures of one scan. labels: the structures on the voxels of the scan, in the order of `outlines`."""

    labels: LabelMap
    outlines: tuple[Outline, ...]


def outline(
    volume: Volume,
    embedding: EmbeddingMap,
    segmenter: Segmenter,
    step: Callable[[float, str], None] = lambda share, what: None,
) -> Outlines:
    """Outline all structures of a segmenter in a scan. embedding: the scan's map, made with the segmenter's weights."""
    layers = [_empty_layer(volume)]
    outlines: list[Outline] = []
    for number, group in enumerate(segmenter.groups):
        box = region(group, group.names, embedding)
        if box is None:
            outlines += [
                Outline(name, ABSENT, 0.0, None, "the scan does not show this part of the body") for name in group.names
            ]
            continue
        box = np.stack([np.maximum(box[0], volume.bounds_ras[0]), np.minimum(box[1], volume.bounds_ras[1])])
        crop = make_crop(volume, embedding, group, box)

        step(number / len(segmenter.groups), "outlining")

        def shown(share: float, done: int = number) -> None:
            step((done + share) / len(segmenter.groups), "outlining")

        carried = carry(embedding, crop, segmenter.outlined[number])
        guess = mean_guess(carried)
        tried = predict(segmenter.networks[number], crop, guess, lambda share, shown=shown: shown(0.2 + 0.8 * share))
        shares = torch.tensor([segmenter.guess_shares[name] for name in group.names])
        joined = blend(tried.mean(0), carried, shares)
        for row, name in enumerate(group.names):
            examples = segmenter.volumes_ml[name]
            kept, why = choose_answer(joined[row], guess[row], crop, group, row)
            millilitres = float((kept > 0.5).sum()) * crop.spacing_mm**3 / 1000
            if millilitres < _LEAST_VOLUME * float(np.median(examples)):
                outlines.append(Outline(name, ABSENT, 0.0, None, why or _NOT_FOUND))
                continue
            mates = segmenter.overlaps.get(name, ())
            paint(kept, crop, volume, layers, np.array([False, *(one.name not in mates for one in outlines)]))
            sign = doubt(signs(guess[row], tried[:, row], kept, crop.spacing_mm, len(examples)))
            outlines.append(Outline(name, WHOLE, 0.0, sign, why))
    numbers = {one.name: number for number, one in enumerate(outlines, start=1)}
    if len(layers) == 1:
        labels = LabelMap(layers[0][0], volume.ijk_to_ras, numbers)
    else:
        masks = ((name, np.any([layer == n for layer, _ in layers], axis=0)) for name, n in numbers.items())
        labels = LabelMap.from_masks(masks, volume.shape, volume.ijk_to_ras)
    labels = labels.renumbered(segmenter.values)
    ordered = sorted(outlines, key=lambda one: segmenter.values[one.name])
    return Outlines(labels, tuple(_measured(one, labels) for one in ordered))


def choose_answer(
    joined: torch.Tensor, guess: torch.Tensor, crop: Crop, group: Group, row: int
) -> tuple[torch.Tensor, str]:
    """Choose one of two outlines of a structure. Returns its probability (k, j, i) after `clean`, and a remark or "".

    joined: (k, j, i) the network's probability, mixed with the carried labels by `blend`. guess: (k, j, i) mean of the
    carried labels. row: index of the structure in the group. `guess` is chosen if its outline is much larger: the scan
    then looks different from all examples, for instance because of another contrast phase.
    """
    kept, why = clean(joined, crop, group, row)
    kept = kept if not why else torch.zeros_like(kept)
    carried, elsewhere = clean(guess, crop, group, row)
    if not elsewhere and (kept > 0.5).sum() < _LEAST_KEPT * (carried > 0.5).sum():
        return carried, "outlined by registration alone: it looks different from the examples, or is absent"
    return kept, why


def clean(probability: torch.Tensor, crop: Crop, group: Group, row: int) -> tuple[torch.Tensor, str]:
    """Keep the connected parts of an outline that belong to the structure; set the probability elsewhere to 0.

    A part is kept if it has at least _LEAST_SHARE of the largest part's size, and its middle is within MARGIN_MM of the
    structure's range in the examples. Returns (new probability, ""), or (old probability, reason) if no part is kept.
    """
    mask = (probability > 0.5) & crop.inside
    if not mask.any():
        return probability, _NOT_FOUND
    components = sitk.ConnectedComponent(sitk.GetImageFromArray(mask.numpy().astype(np.uint8)), True)
    number = torch.from_numpy(sitk.GetArrayFromImage(components).astype(np.int64))
    sizes = torch.bincount(number.ravel())
    sizes[0] = 0
    keep = torch.zeros(len(sizes), dtype=torch.bool)
    for one in torch.argsort(sizes, descending=True).tolist():
        if sizes[one] < _LEAST_SHARE * sizes.max() or not sizes[one]:
            break
        middle = crop.coordinate[:, number == one].mean(1).double().numpy() * UNIT_MM + group.centre
        low, high = group.low[row] - MARGIN_MM, group.high[row] + MARGIN_MM
        keep[one] = bool(((middle >= low) & (middle <= high)).all())
    if not keep.any():
        return probability, "it was found only in other parts of the body"
    near = torch.nn.functional.max_pool3d(keep[number].float()[None, None], 3, 1, 1)[0, 0]
    return probability * near, ""


def paint(probability: torch.Tensor, crop: Crop, volume: Volume, layers: list[Layer], is_rival: np.ndarray) -> None:
    """Paint a structure with the label len(is_rival) where its probability exceeds 0.5 and that of each rival.

    Args:
        layers: the earlier structures on the volume's grid. The structure loses no voxel to those that are no rivals:
            it is painted on the first layer that has none of them here, or on a new one.
        is_rival: for each label, 0 included, whether its structure must not overlap this one.
    """
    held = torch.nonzero(probability > 0.25)
    low, high = held.min(0).values.numpy()[::-1] - 1, held.max(0).values.numpy()[::-1] + 1
    box = transform_points(crop.to_ras, np.stack([low, high]))
    part = crop_voxels(volume, box)
    first = np.rint(transform_points(volume.ras_to_ijk, part.ijk_to_ras[None, :3, 3])[0]).astype(int)
    block = tuple(slice(a, a + n) for a, n in zip(first[::-1], part.shape, strict=True))
    image = to_image(probability.numpy().astype(np.float32), crop.to_ras)
    found = sitk.Resample(image, to_image(part.voxels, part.ijk_to_ras), sitk.Transform(), sitk.sitkLinear, 0.0)
    here = sitk.GetArrayFromImage(found)
    shown = here > 0.5
    for labels, strength in layers:
        shown &= ~(is_rival[labels[block]] & (strength[block] >= here))
    for labels, _strength in layers:
        labels[block][shown & is_rival[labels[block]]] = 0
    if all(labels[block][shown].any() for labels, _strength in layers):
        layers.append(_empty_layer(volume))
    labels, strength = next(layer for layer in layers if not layer[0][block][shown].any())
    labels[block][shown] = len(is_rival)
    strength[block][shown] = here[shown]


def _empty_layer(volume: Volume) -> Layer:
    return np.zeros(volume.shape, np.uint16), np.zeros(volume.shape, np.float32)


def _measured(found: Outline, labels: LabelMap) -> Outline:
    """Return `found` with the volume and the status of its mask in `labels`."""
    if found.status == ABSENT:
        return found
    mask = labels.mask(found.name)
    voxels = int(mask.sum())
    if not voxels:
        return Outline(found.name, ABSENT, 0.0, None, _NOT_FOUND)
    cut = any(mask.take(end, axis).any() for axis in range(3) for end in (0, -1))
    millilitres = voxels * abs(np.linalg.det(labels.ijk_to_ras[:3, :3])) / 1000
    return Outline(found.name, CUT if cut else WHOLE, float(millilitres), found.doubt, found.remark)


def signs(guess: torch.Tensor, tried: torch.Tensor, kept: torch.Tensor, spacing_mm: float, examples: int) -> np.ndarray:
    """Compute five signs of the quality of an outline, (5,).

    1. the Dice of the outline with the truth, as predicted from the probabilities;
    2. the mean Dice of the outline with the outlines for slightly changed inputs;
    3. the predicted Dice of the carried labels, which is low if the examples disagree;
    4. the logarithm of the outline's thickness in mm;
    5. 1 if there is only one example, else 0.

    guess: (k, j, i) mean of the carried labels. tried: (changes, k, j, i) probabilities for changed inputs.
    kept: (k, j, i) probability from which the outline is made. examples: number of examples of the structure.
    """
    mask = kept > 0.5
    steady = float(np.mean([_dice(each > 0.5, mask) for each in tried]))
    faces = sum(float((mask != mask.roll(1, axis)).sum()) for axis in range(3))
    thickness = 6 * float(mask.sum()) / max(faces, 1.0) * spacing_mm
    return np.array([
        _expected_dice(kept, mask), max(steady, _LEAST_STEADY), _expected_dice(guess, guess > 0.5),
        np.log(max(thickness, 1.0)), float(examples == 1),
    ])  # fmt: skip


def doubt(of: np.ndarray) -> float:
    """Compute how doubtful an outline is. of: result of `signs`. A user should check the largest values first.

    The doubt is not an estimate of the Dice: in scans from other sources, such an estimate would be too high.
    """
    return float(-_WEIGHTS @ of)


def _expected_dice(probability: torch.Tensor, mask: torch.Tensor) -> float:
    return float(2 * probability[mask].sum() / (probability.sum() + mask.sum()).clamp(min=1e-6))


def _dice(one: torch.Tensor, other: torch.Tensor) -> float:
    return float(2 * (one & other).sum() / (one.sum() + other.sum()).clamp(min=1))


def table_rows(done: Sequence[tuple[str, Sequence[Outline]]]) -> list[list[object]]:
    """Make the rows of the table of outlines, with the columns COLUMNS. done: path and outlines of each scan.

    The column `look` ranks the outlines: 1 for the most doubtful outline. Absent structures have no `look` and `doubt`.
    """
    every = [(path, one) for path, outlines in done for one in outlines]
    doubts = {n: round(one.doubt, 3) for n, (_, one) in enumerate(every) if one.doubt is not None}
    places = {n: place for place, n in enumerate(sorted(doubts, key=lambda n: -doubts[n]), 1)}
    return [
        [path, one.name, one.status, round(one.volume_ml, 2), places.get(n, ""), doubts.get(n, ""), one.remark]
        for n, (path, one) in enumerate(every)
    ]


def read_table(path: Path) -> dict[str, tuple[Outline, ...]]:
    """Read the outlines of each scan from a volumes.csv; {} if the file is missing or damaged."""
    found: dict[str, list[Outline]] = {}
    try:
        with path.open(newline="", encoding="utf-8") as file:
            for row in csv.DictReader(file):
                sign = float(row["doubt"]) if row["doubt"] else None
                one = Outline(row["structure"], row["status"], float(row["volume_ml"]), sign, row["remark"])
                found.setdefault(row["scan"], []).append(one)
    except (OSError, ValueError, KeyError, TypeError):
        return {}
    return {scan: tuple(outlines) for scan, outlines in found.items()}
