"""Read outlined scans (examples), divide their structures into groups, and crop each scan around each group."""

import glob
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch

from ..anatomy.names import choose_names
from ..embedding.inference import Model
from ..embedding.map import EmbeddingMap
from ..errors import PointsError
from ..scan.geometry import transform_points
from ..scan.image_files import display_name, is_label_map
from ..scan.label_map import LabelMap
from ..scan.volume import Volume
from ..structures.label_names import MIN_VOXELS
from ..structures.labelled_scans import DICOM_LABELS, list_scans, load_case
from .carrying import CARRIED, Outlined, carry, contrast_of, mean_guess
from .files import MOST_LABEL, read_segments
from .grids import Group, group_structures, make_crop, occupancy, region, spacing_for
from .voxels import TrainingCrop

_NOT_STRUCTURES = {"background", ""}
_SHARE = 0.002  # share of a structure's voxels that are left out at each end of its range of body coordinates
_POINTS = 3000


@dataclass(frozen=True, eq=False)
class Example:
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
    def list_of_names(self) -> Path:
        """The file with the names of a label map. It does not exist for a DICOM file or a .seg.nrrd."""
        return _list_of_names(self.path)

    @property
    def labels(self) -> LabelMap:
        """The label map with the outlines; its file is read at each access."""
        return _read_labels(self.path).renamed(self.texts)

    @property
    def files(self) -> list[Path]:
        """Files of the scan, its outlines and the names of the outlined structures."""
        beside = sorted(self.path.parent.glob(f"{glob.escape(self.id)}.*"))
        return [
            p for p in beside if p == self.path or p.name.endswith((".labels.json", DICOM_LABELS)) or is_label_map(p)
        ]


def read_examples(folder: Path, names: Sequence[str] | None = None) -> list[Example]:
    """Read the outlined scans of a folder: NAME.nii.gz with NAME.seg.nii.gz + NAME.labels.json, or with NAME.seg.nrrd,
    or with NAME.seg.dcm. Instead of NAME.nii.gz, the folder NAME may contain a DICOM series.

    names: structures to read, or None for all. Raises PointsError if the folder contains no outlined scan. Raises
    AnatomicalEmbeddingError if a structure in `names` is outlined in no scan.
    """
    if not folder.is_dir():
        raise PointsError(f"{folder}: no such folder; give a folder of outlined scans.")
    found = []
    texts: dict[str, str] = {}
    for path in list_scans(folder):
        labels = _read_labels(path)
        if labels is not None:
            length = max(labels.values.values(), default=0) + 1
            if labels.voxels.min() < 0 or max(length - 1, labels.voxels.max()) > MOST_LABEL:
                raise PointsError(f"{path}: its label map has labels below 0 or above {MOST_LABEL}; use other labels.")
            count = np.sum([np.bincount(layer.ravel(), minlength=length) for layer in labels.layers], axis=0)
            named = {n: value for n, value in labels.values.items() if value and n not in _NOT_STRUCTURES}
            values = {n: value for n, value in named.items() if count[value] >= MIN_VOXELS}
            for name in values:
                text = labels.texts.get(name, name)
                texts.setdefault(name, name if text in texts.values() else text)
            found.append(Example(display_name(path), path, {texts[n]: value for n, value in values.items()}, texts))
    outlined = {name for example in found for name in example.outlined}
    if not outlined:
        raise PointsError(
            f"{folder}: holds no outlined scan; put NAME.seg.nii.gz with NAME.labels.json, or NAME.seg.nrrd, or"
            " NAME.seg.dcm, next to each NAME.nii.gz."
        )
    wanted = set(choose_names(names, outlined, str(folder))) if names else outlined
    kept = [replace(e, values={n: value for n, value in e.values.items() if n in wanted}) for e in found]
    return [example for example in kept if example.outlined]


def common_values(examples: Sequence[Example]) -> tuple[dict[str, int], list[str]]:
    """Choose the label of each structure: its label in the first example, label maps before DICOM and .seg.nrrd.

    A structure gets another label if its own belongs to another structure: many programs number the structures of each
    file in the order in which they were drawn.

    Returns:
        Name of the structure -> label, and a sentence for each example with other labels.
    """
    values: dict[str, int] = {}
    for example in sorted(examples, key=lambda one: not one.list_of_names.exists()):
        for name, label in example.values.items():
            if name not in values:
                values[name] = label if label not in values.values() else max(values.values()) + 1
    sentences = []
    for example in examples:
        own = ", ".join(f"{n} ({label}, not {values[n]})" for n, label in example.values.items() if label != values[n])
        if own:
            sentences.append(f"{example.path}: its outlines have other labels than the results will have: {own}.")
    return values, sentences


def _list_of_names(scan: Path) -> Path:
    return scan.with_name(f"{display_name(scan)}.labels.json")


def _read_labels(scan: Path) -> LabelMap | None:
    segments = scan.with_name(f"{display_name(scan)}.seg.nrrd")
    if segments.exists() and not _list_of_names(scan).exists():
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
    overlaps: tuple[tuple[str, str], ...] = ()

    def outlined(self, group: int) -> Outlined:
        """Return this example's outlines of one group of structures, for `carry`. group: number of the group."""
        of = self.crops[group]
        return Outlined(self.embedding, of.labels, of.crop.to_ras, of.known)


def prepare(
    examples: Sequence[Example],
    model: Model,
    step: Callable[[float, str], None] = lambda share, text: None,
) -> tuple[list[Group], list[PreparedExample]]:
    """Group structures; crop each example around each group. Raises PointsError if an outline lies outside its scan."""
    maps: dict[str, EmbeddingMap] = {}
    spacings: dict[str, list[float]] = {}
    ranges: dict[str, list[np.ndarray]] = {}
    for n, example in enumerate(examples):
        step(n / len(examples) / 2, example.id)
        volume, labels = Volume.read(example.path), example.labels
        maps[example.id] = embedding = model.embed(volume)
        size = np.linalg.norm(labels.ijk_to_ras[:3, :3], axis=0)
        for name in example.outlined:
            mask = labels.mask(name)
            spacings.setdefault(name, []).append(spacing_for(mask, size))
            ijk = np.argwhere(mask)[:, ::-1]
            points = transform_points(labels.ijk_to_ras, ijk[:: max(1, len(ijk) // _POINTS)])
            points = points[embedding.contains(points)]  # the grid of the outlines may be larger than the scan
            if not len(points):
                raise PointsError(f"{example.path}: the outline of {name} lies outside this scan; draw it in the scan.")
            body = embedding.sample(points)
            ranges.setdefault(name, []).append(np.quantile(body, [_SHARE, 1 - _SHARE], axis=0))
    extent = {name: (np.min(of, axis=0)[0], np.max(of, axis=0)[1]) for name, of in ranges.items()}
    groups = group_structures({name: float(np.median(of)) for name, of in spacings.items()}, extent)
    prepared = []
    for n, example in enumerate(examples):
        step(0.5 + n / len(examples) / 2, example.id)
        prepared.append(_cut_to_groups(example, maps[example.id], groups))
    for number in range(len(groups)):
        held = [p for p in prepared if number in p.crops]
        for n, one in enumerate(held):
            others = [p.outlined(number) for p in (*held[n + 1 :], *held[:n])][:CARRIED]
            if others:
                carried = mean_guess(carry(one.embedding, one.crops[number].crop, others)).half()
                one.crops[number] = replace(one.crops[number], carried=carried)
    return groups, prepared


def _cut_to_groups(example: Example, embedding: EmbeddingMap, groups: Sequence[Group]) -> PreparedExample:
    volume, labels = Volume.read(example.path), example.labels
    millilitres = abs(np.linalg.det(labels.ijk_to_ras[:3, :3])) / 1000
    crops, volumes, contrast = {}, {}, {}
    for number, group in enumerate(groups):
        held = [name for name in group.names if name in example.outlined]
        box = region(group, held, embedding) if held else None
        if box is None:
            continue
        crop = make_crop(volume, embedding, group, box)
        share = torch.zeros(len(group.names), *crop.shape, dtype=torch.float16)
        for row, name in enumerate(group.names):
            if name in held:
                mask = labels.mask(name)
                share[row] = occupancy(mask, labels.ijk_to_ras, crop)
                volumes[name] = float(mask.sum() * millilitres)
                contrast[name] = contrast_of(crop, share[row])
        crops[number] = TrainingCrop(crop, share, torch.tensor([name in held for name in group.names]))
    overlaps = tuple((one, other) for one, other, _ml in labels.overlaps())
    return PreparedExample(example.id, embedding, crops, volumes, contrast, overlaps)
