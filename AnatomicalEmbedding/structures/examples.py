"""Reads scans with known structures (labelled scans, synthetic patients), and examples that a user marked."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import numpy as np

from ..anatomy.names import canonical_name
from ..embedding.inference import Model
from ..embedding.map import EmbeddingMap
from ..errors import AnatomicalEmbeddingError
from ..files import require_folder
from ..phantom import SPACING_MM, Phantom, make_phantom
from ..scan.boxes import read_rois
from ..scan.geometry import transform_points
from ..scan.image_files import display_name, files_beside
from ..scan.label_map import LabelMap
from ..scan.volume import Volume
from .label_names import find_structures
from .labelled_scans import Case, list_scans, load_case
from .locating import Example, make_example

_ROI_SUFFIX = ".roi.mrk.json"
SYNTHETIC = "phantom-"  # the ids of synthetic patients begin with this prefix
_VOXELS = 4000  # about this number of a structure's voxels is used to measure the recall
_NO_STRUCTURES = {"background", "body_other", "subcutaneous_fat", "visceral_fat", "muscle"}


class KnownStructure(NamedTuple):
    """A structure with its outline.

    Args:
        box_ras: (2, 3) RAS mm.
        extremes_ras: (6, 3) RAS mm, in the order of boxes.SIDES.
        voxels_ras: (n, 3) RAS mm, some of the structure's voxels, spread over the whole structure.
    """

    box_ras: np.ndarray
    extremes_ras: np.ndarray
    voxels_ras: np.ndarray

    def example(self, embedding: EmbeddingMap, effort: str = "standard") -> Example:
        """Return the structure as an example. embedding: map of its scan. effort: of matching."""
        return make_example(embedding, self.box_ras, self.extremes_ras, effort)


class BoxCase(NamedTuple):
    """One scan, labelled or synthetic. structures: the structures that lie completely in the scan, by name."""

    id: str
    patient: str
    case: Case | Volume
    structures: dict[str, KnownStructure]

    @property
    def volume(self) -> Volume:
        return self.case.volume if isinstance(self.case, Case) else self.case


def labelled_boxes(cases: Iterable[Case]) -> Iterator[BoxCase]:
    """Yield the cases that have outlines, each with the structures that lie completely in the scan."""
    for case in cases:
        if case.structures:
            yield BoxCase(case.id, case.patient, case, _whole_structures(case.label_map))


def phantom_boxes(seeds: Iterable[int]) -> Iterator[BoxCase]:
    """Yield a synthetic patient, from head to thighs, for each seed."""
    for seed in seeds:
        phantom = make_phantom(seed, spacing=SPACING_MM)
        name = f"{SYNTHETIC}{seed}"
        yield BoxCase(name, name, phantom.volume, phantom_structures(phantom))


def phantom_labels(phantom: Phantom) -> LabelMap:
    """Return the structures of a synthetic patient, with their canonical names."""
    values = {
        canonical_name(name): number
        for number, name in phantom.label_names.items()
        if name not in _NO_STRUCTURES
    }
    return LabelMap(phantom.labels, phantom.volume.ijk_to_ras, values)


def phantom_structures(phantom: Phantom) -> dict[str, KnownStructure]:
    """Find the structures, except ribs, that lie completely in the scan of a synthetic patient."""
    labels = phantom_labels(phantom)
    values = {name: n for name, n in labels.values.items() if not name.startswith("rib_")}
    return _whole_structures(replace(labels, values=values))


def _whole_structures(labels: LabelMap) -> dict[str, KnownStructure]:
    """Find the structures of a label map that lie completely in the scan, by name."""
    ijk_to_ras = labels.ijk_to_ras
    points, _ = find_structures(labels)
    half_voxel = np.abs(ijk_to_ras[:3, :3]).sum(axis=1) / 2  # along R, A, S
    structures = {}
    for name in points:
        voxels = np.argwhere(labels.mask(name))[:, ::-1]
        ras = transform_points(ijk_to_ras, voxels)
        extremes = points[name][[2, 4, 6, 1, 3, 5]]  # reorder from KINDS to SIDES
        box = np.stack([ras.min(axis=0) - half_voxel, ras.max(axis=0) + half_voxel])
        structures[name] = KnownStructure(box, extremes, ras[:: max(1, len(ras) // _VOXELS)])
    return structures


def read_examples(
    folder: Path, model: Model, report: Callable[[str], None]
) -> dict[str, list[tuple[Example, EmbeddingMap]]]:
    """Read examples from scans with label maps or ROI files. Returns structure name -> [(example, map of its scan)].

    Args:
        folder: folder of the scans.
        model: makes the maps.
        report: called with a sentence for each structure that cannot be an example.

    Raises:
        AnatomicalEmbeddingError: the folder does not exist, or contains no example.
    """
    require_folder(folder, "example scans")
    examples: dict[str, list[tuple[Example, EmbeddingMap]]] = {}
    for scan in list_scans(folder):
        marked = _labelled_structures(scan, report)
        marked |= {name: (box, None) for name, box in _drawn_boxes(scan).items()}
        if not marked:
            continue
        embedding = model.embed(Volume.read(scan))
        for name, (box, extremes) in marked.items():
            example = make_example(embedding, box, extremes)
            examples.setdefault(name, []).append((example, embedding))
    if not examples:
        raise AnatomicalEmbeddingError(
            f"{folder}: holds no example; next to a scan NAME, put NAME.seg.nii.gz and NAME.labels.json, or "
            f"NAME.STRUCTURE{_ROI_SUFFIX}."
        )
    return examples


def _labelled_structures(
    scan: Path, report: Callable[[str], None]
) -> dict[str, tuple[np.ndarray, np.ndarray | None]]:
    """Return {structure: (box, extreme points)} from the label map of a scan, if it has one. report: see above."""
    case = load_case(scan)
    if case is None:
        return {}
    for name, reason in case.left_out.items():
        report(f"{scan.name}: {name} cannot be an example: {reason}")
    return {
        name: (whole.box_ras, whole.extremes_ras)
        for labelled in labelled_boxes([case])
        for name, whole in labelled.structures.items()
    }


def _drawn_boxes(scan: Path) -> dict[str, np.ndarray]:
    """Return {structure: box} from the ROI files next to a scan. An ROI without a name is named after its file."""
    stem = display_name(scan)
    boxes = {}
    ending = _ROI_SUFFIX.removeprefix(".")
    for path in files_beside(scan.parent, stem, ending):
        named = path.name.removeprefix(f"{stem}.").removesuffix(ending).strip(".")
        for name, box in read_rois(path, unnamed=named or "box").items():
            boxes[canonical_name(name)] = box
    return boxes
