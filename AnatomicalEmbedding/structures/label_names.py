"""Finds the structures of a label map, and the centre and the six extreme points of each structure.

The APE protocol (Goncharov et al., MICCAI 2024, section 3) measures errors at these points.
"""

import re

import numpy as np

from ..anatomy.names import canonical_name, spelling_key
from ..scan.geometry import transform_points

MIN_VOXELS = 50

# Structures that are left out: reason -> words (regular expressions) in their names.
LEFT_OUT_WORDS = {
    "a finding, at another place in every patient": (
        "tumor", "tumour", "lesion", "cyst", "nodule", "metastas[ei]s", "lymph_?node", "gtv", "ctv", "ptv",
    ),
}  # fmt: skip
# Structures without a well-defined centre and extremes: reason -> whole names.
LEFT_OUT_NAMES = {
    "spread over the body": (
        "arteries", "background", "body", "bone", "bones", "fat", "muscle", "muscles", "skeleton", "skin",
        "soft_tissue", "table", "veins", "vessels",
    ),
    # Radiotherapy contours contain only the part near the target volume, so both ends are arbitrary.
    "longer than most scans and often drawn only in part": ("spinal_cord", "spinal_canal"),
}  # fmt: skip

# Group of points -> heading of the group in reports. "extreme" is the group of all six extreme points.
GROUPS = {
    "centre": "Organ centres, different patients",
    "extreme": "Extreme points of organs, different patients",
    "landmark": "Landmarks, same patient",
}
LANDMARK = "landmark"
KINDS = ("centre", "right", "left", "anterior", "posterior", "superior", "inferior")
# RAS direction of each extreme point; rows in the order of KINDS[1:].
_DIRECTIONS = np.array([(1, 0, 0), (-1, 0, 0), (0, 1, 0), (0, -1, 0), (0, 0, 1), (0, 0, -1)], dtype=np.float64)


def group_of(kind: str) -> str:
    """Return the kind of a point for reports: "centre", "landmark", or "extreme" for all six extreme points."""
    return kind if kind in GROUPS else "extreme"


def structure_name(name: str) -> str:
    """Return the structure of a label: lung for a lobe, heart for a chamber, sacrum for S1, else the canonical name."""
    words = canonical_name(name)
    side = words.rsplit("_", 1)[-1]
    if words.startswith("lung_") and side in ("left", "right"):
        return f"lung_{side}"
    return {"vertebrae_S1": "sacrum"}.get(words, "heart" if words.startswith("heart_") else words)


def reason_left_out(name: str) -> str | None:
    """Return the reason why a structure with this name is left out; None if the structure is not left out."""
    name = spelling_key(name)
    for reason, words in LEFT_OUT_WORDS.items():
        # Only whole words match: `cyst` does not match `cystic`. Plural and numbered forms match, too.
        if any(re.search(rf"(^|_){word}(s|es)?\d*(_|$)", name) for word in words):
            return reason
    return next((reason for reason, names in LEFT_OUT_NAMES.items() if name in names), None)


def find_structures(
    labels: np.ndarray, ijk_to_ras: np.ndarray, names: dict[int, str]
) -> tuple[dict[str, np.ndarray], dict[str, str]]:
    """Find the centre and the six extreme points of the structures of a label map; unsuitable structures are left out.

    labels: (k, j, i) integers, 0 = background. ijk_to_ras: (4, 4). names: label value -> name, each name once.
    Returns name -> points (7, 3) RAS mm in the order of KINDS, and name -> reason for each structure that was left out.
    Reasons: the name is in LEFT_OUT_WORDS or LEFT_OUT_NAMES, the structure has fewer than MIN_VOXELS voxels, or the
    border of the scan cuts the structure, so its true centre and extremes are not known.
    """
    found, left_out = {}, {}
    voxels_of = voxels_by_label(labels)
    last = np.array(labels.shape[::-1]) - 1
    for value, name in names.items():
        reason = reason_left_out(name)
        ijk = voxels_of.get(value, np.empty((0, 3), dtype=np.intp))
        if reason is None and len(ijk) < MIN_VOXELS:
            reason = f"only {len(ijk)} voxels"
        if reason is None and bool(((ijk == 0) | (ijk == last)).any()):
            reason = "cut by the border of the scan"
        if reason is None:
            found[name] = _measure(ijk, ijk_to_ras)
        else:
            left_out[name] = reason
    return found, left_out


def voxels_by_label(labels: np.ndarray) -> dict[int, np.ndarray]:
    """Find the voxels of all labels in one pass: label value -> (n, 3) voxel indices i, j, k."""
    flat = np.ascontiguousarray(labels).reshape(-1)
    where = np.flatnonzero(flat)
    values = flat[where]
    order = np.argsort(values, kind="stable")
    where, values = where[order], values[order]
    starts = np.flatnonzero(np.r_[True, values[1:] != values[:-1]]) if len(values) else np.empty(0, dtype=np.intp)
    return {
        int(values[start]): np.column_stack(np.unravel_index(part, labels.shape)[::-1])
        for start, part in zip(starts, np.split(where, starts[1:]), strict=False)
    }


def _measure(ijk: np.ndarray, ijk_to_ras: np.ndarray) -> np.ndarray:
    """Return (7, 3) RAS mm: the centre of mass, and the mean of the outermost layer of voxels in six directions."""
    ras = transform_points(ijk_to_ras, ijk)
    points = [ras.mean(axis=0)]
    for direction in _DIRECTIONS:
        along = ras @ direction
        # Half a voxel along the direction selects one layer of voxels (about one layer in an oblique grid).
        half_layer = 0.5 * np.abs(direction @ ijk_to_ras[:3, :3]).max()
        points.append(ras[along > along.max() - half_layer].mean(axis=0))
    return np.array(points)
