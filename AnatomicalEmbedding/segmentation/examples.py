"""Read outlined scans (examples), divide their structures into groups, and crop each scan around each group."""

import glob
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch

from ..anatomy.names import choose_names
from ..embedding.inference import Model
from ..embedding.map import EmbeddingMap
from ..errors import PointsError, ProgressCallback
from ..files import require_folder
from ..scan.geometry import spacing_of, transform_points
from ..scan.image_files import display_name, is_label_map
from ..scan.label_map import LabelMap
from ..scan.volume import Volume
from ..structures.label_files import has_own_names, list_of_names
from ..structures.label_names import MIN_VOXELS
from ..structures.labelled_scans import DICOM_LABELS, list_scans, load_case
from ..structures.segments import MOST_LABEL, read_segments
from .carrying import CARRIED, LabelSource, carry, contrast_of, mean_guess
from .grids import Group, group_structures, make_crop, occupancy, region, spacing_for
from .patches import TrainingCrop

_NOT_STRUCTURES = {"background", ""}
_SHARE = 0.002  # share of a structure's voxels that are left out at each end of its range of body coordinates
_POINTS = 3000  # of a structure, from which its range is measured; by hand, only saves time


@dataclass(frozen=True, eq=False)
class OutlinedScan:
    """One outlined scan.

    Args:
        id: name of the file without its ending.
        values: name of each outlined structure -> its label in this scan's file.
        texts: name in our vocabulary -> name in `values`, which is the name in the first example with the structure.
    """

    id: str
    path: Path
    values: Mapping[str, int]
    texts: Mapping[str, str]

    @property
    def outlined(self) -> tuple[str, ...]:
        """Names of the outlined structures."""
        return tuple(self.values)

    @property
    def labels(self) -> LabelMap:
        """The label map with the outlines; its file is read at each access."""
        return _read_labels(self.path).renamed(self.texts)

    @property
    def files(self) -> list[Path]:
        """Files of the scan, its outlines and the names of the outlined structures."""
        beside = sorted(self.path.parent.glob(f"{glob.escape(self.id)}.*"))
        ends = (".labels.json", DICOM_LABELS)
        return [p for p in beside if p == self.path or p.name.endswith(ends) or is_label_map(p)]


def read_examples(folder: Path, names: Sequence[str] | None = None) -> list[OutlinedScan]:
    """Read the outlined scans of a folder: NAME.nii.gz with NAME.seg.nii.gz + NAME.labels.json, or with NAME.seg.nrrd,
    or with NAME.seg.dcm. Instead of NAME.nii.gz, the folder NAME may contain a DICOM series.

    names: structures to read, or None for all. Raises PointsError if the folder contains no outlined scan. Raises
    AnatomicalEmbeddingError if a structure in `names` is outlined in no scan.
    """
    require_folder(folder, "outlined scans")
    examples = []
    texts: dict[str, str] = {}  # name of a structure -> its name as the files write it
    for path in list_scans(folder):
        labels = _read_labels(path)
        if labels is None:
            continue
        values = {}
        for name, value in _outlined_values(path, labels).items():
            text = labels.texts.get(name, name)
            # no two structures may be written alike
            texts.setdefault(name, name if text in texts.values() else text)
            values[texts[name]] = value
        # `texts` grows with the later scans, which all examples share
        examples.append(OutlinedScan(display_name(path), path, values, texts))
    outlined = {name for example in examples for name in example.outlined}
    if not outlined:
        raise PointsError(
            f"{folder}: holds no outlined scan; put NAME.seg.nii.gz with NAME.labels.json, or NAME.seg.nrrd, or"
            " NAME.seg.dcm, next to each NAME.nii.gz."
        )
    chosen = set(choose_names(names, outlined, str(folder))) if names else outlined
    reduced = []
    for example in examples:
        values = {name: value for name, value in example.values.items() if name in chosen}
        if values:
            reduced.append(replace(example, values=values))
    return reduced


def _outlined_values(path: Path, labels: LabelMap) -> dict[str, int]:
    """Return name -> label of the structures in a label map with at least MIN_VOXELS voxels.

    Raises PointsError, with the file `path` of the scan, for labels that cannot be written.
    """
    length = max(labels.values.values(), default=0) + 1
    if labels.voxels.min() < 0 or max(length - 1, labels.voxels.max()) > MOST_LABEL:
        raise PointsError(
            f"{path}: its label map has labels below 0 or above {MOST_LABEL}; use other labels."
        )
    counts = [np.bincount(layer.ravel(), minlength=length) for layer in labels.layers]
    count = np.sum(counts, axis=0)  # by label
    return {
        name: value
        for name, value in labels.values.items()
        if value and name not in _NOT_STRUCTURES and count[value] >= MIN_VOXELS
    }


def common_values(examples: Sequence[OutlinedScan]) -> dict[str, int]:
    """Choose the label of each structure: its label in the first example, label maps before DICOM and .seg.nrrd.

    A structure gets another label if its own belongs to another structure: many programs number the structures of each
    file in the order in which they were drawn.
    """
    values: dict[str, int] = {}
    # False comes before True; DICOM files and .seg.nrrd have no list of names
    for example in sorted(examples, key=lambda example: not list_of_names(example.path).exists()):
        for name, label in example.values.items():
            if name not in values:
                is_used = label in values.values()
                values[name] = _free_label(values.values()) if is_used else label
    return values


def _free_label(used: Collection[int]) -> int:
    """Return the label after the largest used label. If this is no permitted label, return the largest free label."""
    if max(used) < MOST_LABEL:
        return max(used) + 1
    return next(label for label in range(MOST_LABEL, 0, -1) if label not in used)


def label_differences(examples: Sequence[OutlinedScan], values: Mapping[str, int]) -> list[str]:
    """Return a sentence for each example with other labels than `values`, the result of `common_values`."""
    sentences = []
    for example in examples:
        labels = example.values.items()
        differing = ", ".join(
            f"{n} ({label}, not {values[n]})" for n, label in labels if label != values[n]
        )
        if differing:
            sentences.append(
                f"{example.path}: its outlines have other labels than the results will have: {differing}."
            )
    return sentences


def _read_labels(scan: Path) -> LabelMap | None:
    """Read the labels of a scan; None without any. A .seg.nrrd keeps its voxels, which may be finer than the scan's."""
    segments = scan.with_name(f"{display_name(scan)}.seg.nrrd")
    if segments.exists() and has_own_names(segments):
        return read_segments(segments)
    case = load_case(scan)
    return None if case is None or case.labels is None else case.label_map


@dataclass(frozen=True, eq=False)
class PreparedExample:
    """An example ready for training.

    crops: group number -> crop. contrast: structure -> result of `contrast_of`. overlaps: structures that overlap.
    """

    id: str
    embedding: EmbeddingMap
    crops: dict[int, TrainingCrop]
    volumes_ml: dict[str, float]
    contrast: dict[str, float]
    overlaps: tuple[tuple[str, str], ...]

    def outlined(self, group: int) -> LabelSource:
        """Return this example's outlines of one group of structures, for `carry`. group: number of the group."""
        outlines = self.crops[group]
        return LabelSource(self.embedding, outlines.labels, outlines.crop.to_ras, outlines.outlined)


def prepare(
    examples: Sequence[OutlinedScan],
    model: Model,
    step: ProgressCallback = lambda share, text: None,
) -> tuple[list[Group], list[PreparedExample]]:
    """Group structures; crop each example around each group. Raises PointsError if an outline lies outside its scan.

    Args:
        examples: the outlined scans.
        model: makes the map of each scan.
        step: called with the share of the work that is done, 0 to 1, and the example that is read.
    """
    maps = {}
    # by structure, one entry for each example that outlines it
    spacings: dict[str, list[float]] = {}
    ranges: dict[str, list[np.ndarray]] = {}
    for n, example in enumerate(examples):
        step(n / len(examples) / 2, example.id)
        embedding = model.embed(Volume.read(example.path))
        maps[example.id] = embedding
        labels = example.labels
        size = spacing_of(labels.ijk_to_ras)
        for name in example.outlined:
            mask = labels.mask(name)
            spacings.setdefault(name, []).append(spacing_for(mask, size))
            limits = _body_range(mask, labels.ijk_to_ras, embedding)
            if limits is None:
                raise PointsError(
                    f"{example.path}: the outline of {name} lies outside this scan; draw it in the scan."
                )
            ranges.setdefault(name, []).append(limits)
    extents = {
        name: (np.min(limits, axis=0)[0], np.max(limits, axis=0)[1])
        for name, limits in ranges.items()
    }
    sizes_mm = {name: float(np.median(sizes)) for name, sizes in spacings.items()}
    groups = group_structures(sizes_mm, extents)
    prepared = []
    for n, example in enumerate(examples):
        step(0.5 + n / len(examples) / 2, example.id)
        prepared.append(_cut_to_groups(example, maps[example.id], groups))
    for number in range(len(groups)):
        _carry_to_examples(prepared, number)
    return groups, prepared


def _body_range(
    mask: np.ndarray, ijk_to_ras: np.ndarray, embedding: EmbeddingMap
) -> np.ndarray | None:
    """Return the lowest and highest body coordinates (2, 3), mm, of a mask; None if it lies outside the scan."""
    ijk = np.argwhere(mask)[:, ::-1]
    points = transform_points(ijk_to_ras, ijk[:: max(1, len(ijk) // _POINTS)])
    # the grid of the outlines may be larger than the scan
    points = points[embedding.contains(points)]
    if not len(points):
        return None
    return np.quantile(embedding.sample(points), [_SHARE, 1 - _SHARE], axis=0)


def _carry_to_examples(prepared: Sequence[PreparedExample], group: int) -> None:
    """Add to the crop of each example the labels that a few other examples carry to it, as later to a new scan.

    group: number of the group of structures.
    """
    members = [example for example in prepared if group in example.crops]
    for n, member in enumerate(members):
        # those that follow, in a circle, so that all are used equally often
        sources = [*members[n + 1 :], *members[:n]][:CARRIED]
        if sources:
            crop = member.crops[group]
            outlines = [source.outlined(group) for source in sources]
            carried = mean_guess(carry(member.embedding, crop.crop, outlines)).half()
            member.crops[group] = replace(crop, carried=carried)


def _cut_to_groups(
    example: OutlinedScan, embedding: EmbeddingMap, groups: Sequence[Group]
) -> PreparedExample:
    """Cut a scan and its outlines to the box of each group that it outlines."""
    volume = Volume.read(example.path)
    labels = example.labels
    millilitres = abs(np.linalg.det(labels.ijk_to_ras[:3, :3])) / 1000
    crops = {}
    volumes = {}
    contrast = {}
    for number, group in enumerate(groups):
        outlined = [name for name in group.names if name in example.outlined]
        box = region(group, outlined, embedding) if outlined else None
        if box is None:
            continue
        crop = make_crop(volume, embedding, group, box)
        share = torch.zeros(len(group.names), *crop.shape, dtype=torch.float16)
        for row, name in enumerate(group.names):
            if name in outlined:
                mask = labels.mask(name)
                share[row] = occupancy(mask, labels.ijk_to_ras, crop)
                volumes[name] = float(mask.sum() * millilitres)
                contrast[name] = contrast_of(crop, share[row])
        is_outlined = torch.tensor([name in outlined for name in group.names])
        crops[number] = TrainingCrop(crop, share, is_outlined)
    overlaps = tuple((first, second) for first, second, _ml in labels.overlaps())
    return PreparedExample(example.id, embedding, crops, volumes, contrast, overlaps)
