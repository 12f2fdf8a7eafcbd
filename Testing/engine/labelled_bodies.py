"""Label maps of a body whose structures are balls at their usual places, for tests of the audit."""

from pathlib import Path
from typing import Any

import numpy as np

from AnatomicalEmbedding.audit.measuring import MeasuredLabel, measure_labels
from AnatomicalEmbedding.audit.usual import load_usual
from AnatomicalEmbedding.scan.label_map import LabelMap
from AnatomicalEmbedding.structures.label_files import write_nifti

ORGANS = (
    "liver", "spleen", "stomach", "kidney_left", "kidney_right", "adrenal_gland_left", "adrenal_gland_right",
    "gallbladder", "heart", "urinary_bladder", "lung_left", "lung_right", "trachea",
)  # fmt: skip
SPINE = tuple(
    f"vertebrae_{level}"
    for level in ("T8", "T9", "T10", "T11", "T12", "L1", "L2", "L3", "L4", "L5")
)
NAMES = (*ORGANS, *SPINE)
STEP_MM = 4.0
# k, j, i: from below the bladder to above the lungs
LOW_MM, SHAPE = np.array([-200.0, -130.0, -60.0]), (165, 70, 100)


def ijk_to_ras() -> np.ndarray:
    affine = np.diag([STEP_MM, STEP_MM, STEP_MM, 1.0])
    affine[:3, 3] = LOW_MM
    return affine


def make_labels(
    scale: float = 1.0, shift_mm: float = 0.0, names: tuple[str, ...] = NAMES
) -> np.ndarray:
    """Return a label map (k, j, i), in which value n belongs to names[n - 1]."""
    usual = load_usual()
    voxels = np.zeros(SHAPE, np.uint8)
    at = np.moveaxis(np.indices(SHAPE)[::-1], 0, -1) * STEP_MM + LOW_MM
    for value, name in sorted(
        enumerate(names, start=1), key=lambda each: -usual.volume[usual.index[each[1]]]
    ):
        n = usual.index[name]
        radius = min((3 / (4 * np.pi) * 1000 * np.exp(usual.volume[n])) ** (1 / 3), 40.0) * scale
        middle = usual.places[n] * scale + shift_mm
        voxels[np.square(at - middle).sum(axis=-1) < max(radius, 5.0) ** 2] = value
    return voxels


def labelled(
    voxels: np.ndarray, names: tuple[str, ...] = NAMES, to_ras: np.ndarray | None = None
) -> LabelMap:
    """Return labels (k, j, i) with their names: value n belongs to names[n - 1]."""
    to_ras = ijk_to_ras() if to_ras is None else to_ras
    return LabelMap(voxels, to_ras, {name: n for n, name in enumerate(names, start=1)})


def measured(*labels: Any) -> list[MeasuredLabel]:
    """Measure labels. Arguments: as for `labelled`."""
    return measure_labels(labelled(*labels))


def write_body(folder: Path, name: str, voxels: np.ndarray, names: tuple[str, ...] = NAMES) -> None:
    """Write NAME.seg.nii.gz and NAME.labels.json."""
    folder.mkdir(parents=True, exist_ok=True)
    write_nifti(folder, name, labelled(voxels, names))
