"""Structures of a label map, and the points of each that the APE protocol measures: its centre and six extremes.

Protocol: Goncharov et al., MICCAI 2024, section 3 (organ centres and extreme points).
"""

import re
from dataclasses import dataclass

import numpy as np

from ..anatomy.names import canonical_name, spelling_key
from ..scan.geometry import transform_points

MIN_VOXELS = 50

# Words of names (regular expressions) of structures that are not at one place in all patients, and why.
LEFT_OUT_WORDS = {
    "a finding, at another place in every patient": (
        "tumor", "tumour", "lesion", "cyst", "nodule", "metastas[ei]s", "lymph_?node", "gtv", "ctv", "ptv",
    ),
}  # fmt: skip
# Whole names of structures whose centre and extremes are not defined places, and why.
LEFT_OUT_NAMES = {
    "spread over the body": (
        "arteries", "background", "body", "bone", "bones", "fat", "muscle", "muscles", "skeleton", "skin",
        "soft_tissue", "table", "veins", "vessels",
    ),
    # Radiotherapy contours hold the part near the target volume, so both ends are arbitrary.
    "longer than most scans and often drawn in part": ("spinal_cord", "spinal_canal"),
}  # fmt: skip

# Group of points -> its heading. An extreme point is any of the six.
GROUPS = {
    "centre": "Organ centres, different patients",
    "extreme": "Extreme points of organs, different patients",
    "landmark": "Landmarks, same patient",
}
LANDMARK = "landmark"
KINDS = ("centre", "right", "left", "anterior", "posterior", "superior", "inferior")
# RAS direction in which each extreme lies; rows as KINDS[1:].
_DIRECTIONS = np.array([(1, 0, 0), (-1, 0, 0), (0, 1, 0), (0, -1, 0), (0, 0, 1), (0, 0, -1)], dtype=np.float64)


@dataclass(frozen=True)
class Structure:
    """The points of one structure in one scan. points_ras: (7, 3) RAS mm, rows as KINDS."""

    name: str
    points_ras: np.ndarray
    voxels: int


def group_of(kind: str) -> str:
    """The key of GROUPS for a kind of point."""
    return kind if kind in GROUPS else "extreme"


def structure_name(name: str) -> str:
    """The structure that a label belongs to: a lobe to its lung, a chamber to the heart, S1 to the sacrum.

    Other names are returned as `canonical_name`.
    """
    words = canonical_name(name)
    side = words.rsplit("_", 1)[-1]
    if words.startswith("lung_") and side in ("left", "right"):
        return f"lung_{side}"
    return {"vertebrae_S1": "sacrum"}.get(words, "heart" if words.startswith("heart_") else words)


def reason_left_out(name: str) -> str | None:
    """The reason why the protocol excludes a structure of this name; None for all others."""
    name = spelling_key(name)
    for reason, words in LEFT_OUT_WORDS.items():
        # Whole words, so that `gallbladder` or `systolic` do not match; plural and numbered forms do.
        if any(re.search(rf"(^|_){word}(s|es)?\d*(_|$)", name) for word in words):
            return reason
    return next((reason for reason, names in LEFT_OUT_NAMES.items() if name in names), None)


def find_structures(
    labels: np.ndarray, ijk_to_ras: np.ndarray, names: dict[int, str]
) -> tuple[dict[str, Structure], dict[str, str]]:
    """Measure every usable structure of a label map.

    labels: (k,j,i) integers, 0 = background. ijk_to_ras: (4,4). names: label value -> name, each name once.
    Returns the structures by name, and the reason for each one left out: its name is in LEFT_OUT_WORDS or
    LEFT_OUT_NAMES, it has fewer than MIN_VOXELS voxels, or the border of the scan cuts it, so that its centre and
    extremes are not the organ's own.
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
            found[name] = Structure(name, _measure(ijk, ijk_to_ras), len(ijk))
        else:
            left_out[name] = reason
    return found, left_out


def voxels_by_label(labels: np.ndarray) -> dict[int, np.ndarray]:
    """Label value -> (n,3) voxel indices (i,j,k), in one pass over the volume."""
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
    """(7,3) RAS mm: centre of mass, then the centroid of the outermost layer in each of six directions."""
    ras = transform_points(ijk_to_ras, ijk)
    points = [ras.mean(axis=0)]
    for direction in _DIRECTIONS:
        along = ras @ direction
        # Half a voxel, measured along the direction: exactly one layer of an axis-aligned grid, about one of an
        # oblique grid.
        half_layer = 0.5 * np.abs(direction @ ijk_to_ras[:3, :3]).max()
        points.append(ras[along > along.max() - half_layer].mean(axis=0))
    return np.array(points)
