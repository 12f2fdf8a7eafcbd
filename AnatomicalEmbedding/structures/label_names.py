"""Finds the structures of a label map, and the centre and the six extreme points of each structure.

The APE protocol (Goncharov et al., MICCAI 2024, section 3) measures errors at these points.
"""

import re
from collections.abc import Callable

import numpy as np

from ..anatomy.names import canonical_name, spelling_key
from ..scan.geometry import transform_points
from ..scan.label_map import LabelMap

MIN_VOXELS = 50  # of a structure whose centre and extremes are measured; by hand, not tuned

# Reason why a structure is left out -> names of such structures, as a regular expression.
_LEFT_OUT = {
    # also in the plural and with a number; gtv, ctv, ptv: target volumes of radiotherapy
    "a finding, at another place in every patient": (
        r"(.*_)?(tumou?r|lesion|cyst|nodule|metastas[ei]s|lymph_?node|gtv|ctv|ptv)(s|es)?\d*(_.*)?"
    ),
    "spread over the body": (
        "arteries|background|body|bones?|fat|muscles?|skeleton|skin|soft_tissue|table|veins|vessels|"
        "(blood_vessels|cartilage|lymphatic_nodes|muscle|residual_tissue|skin)_(head|trunk|arms|legs)"
    ),
    # Radiotherapy contours contain only the part near the target volume, so both ends are arbitrary.
    "longer than most scans and often drawn only in part": "spinal_cord|spinal_canal",
}

# Group of points -> heading of the group in reports. "extreme" is the group of all six extreme points.
GROUPS = {
    "centre": "Organ centres, different patients",
    "extreme": "Extreme points of organs, different patients",
    "inner": "Inner points of organs, different patients",
    "landmark": "Landmarks, same patient",
}
CENTRE, EXTREME, INNER, LANDMARK = GROUPS
KINDS = ("centre", "right", "left", "anterior", "posterior", "superior", "inferior")
# RAS direction of each extreme point; rows in the order of KINDS[1:].
_DIRECTIONS = np.array([sign * axis for axis in np.eye(3) for sign in (1, -1)])


def group_of(kind: str) -> str:
    """Return the kind of a point for reports: "centre", "landmark", or "extreme" for all six extreme points."""
    return kind if kind in GROUPS else EXTREME


def structure_name(name: str) -> str:
    """Return the structure of a label: lung for a lobe, heart for a chamber, sacrum for S1, else the canonical name."""
    words = canonical_name(name)
    side = words.rsplit("_", 1)[-1]
    if words.startswith("lung_") and side in ("left", "right"):
        return f"lung_{side}"
    if words == "vertebrae_S1":
        return "sacrum"
    return "heart" if words.startswith("heart_") else words


def reason_left_out(name: str) -> str | None:
    """Return the reason why a structure with this name is left out; None if the structure is not left out."""
    name = spelling_key(name)
    for reason, names in _LEFT_OUT.items():
        if re.fullmatch(names, name):
            return reason
    return None


def measure_ends(ijk: np.ndarray, ijk_to_ras: np.ndarray) -> np.ndarray:
    """Return points of a structure, (7, 3) RAS mm in the order of KINDS: its centre of mass, and its extreme points.

    An extreme point is the mean of the outermost layer of voxels. ijk: (n, 3) voxels of the structure.
    """
    ras = transform_points(ijk_to_ras, ijk)
    points = [ras.mean(axis=0)]
    for direction in _DIRECTIONS:
        along = ras @ direction
        # Half a voxel along the direction selects one layer of voxels (about one layer in an oblique grid).
        half_layer = 0.5 * np.abs(direction @ ijk_to_ras[:3, :3]).max()
        points.append(ras[along > along.max() - half_layer].mean(axis=0))
    return np.array(points)


def measure_halves(ijk: np.ndarray, ijk_to_ras: np.ndarray) -> np.ndarray:
    """Return inner points of a structure, (6, 3) RAS mm: the centres of mass of its right, left, ... lower half.

    The rows are in the order of KINDS[1:]. A row is NaN if the point is not in the structure, which may be bent. The
    halves meet at the structure's centre of mass. ijk: (n, 3) voxels of the structure.
    """
    ras = transform_points(ijk_to_ras, ijk)
    along = (ras - ras.mean(axis=0)) @ _DIRECTIONS.T
    points = np.array([ras[side >= 0].mean(axis=0) for side in along.T])
    nearest = np.rint(transform_points(np.linalg.inv(ijk_to_ras), points)).astype(int)
    inside = (nearest[:, None] == ijk).all(axis=2).any(axis=1)
    return np.where(inside[:, None], points, np.nan)


def measure_all(ijk: np.ndarray, ijk_to_ras: np.ndarray) -> np.ndarray:
    """Return the points of `measure_ends`, then the points of `measure_halves`, (13, 3) RAS mm."""
    return np.concatenate([measure_ends(ijk, ijk_to_ras), measure_halves(ijk, ijk_to_ras)])


def find_structures(
    labels: LabelMap,
    measure: Callable[[np.ndarray, np.ndarray], np.ndarray] = measure_ends,
) -> tuple[dict[str, np.ndarray], dict[str, str]]:
    """Find points of the structures of a label map; unsuitable structures are left out.

    Args:
        labels: the label map.
        measure: the function that returns the points of a structure.

    Returns name -> points (m, 3) RAS mm, and name -> reason for each structure that was left out.
    Reasons: the name is one of _LEFT_OUT, the structure has fewer than MIN_VOXELS voxels, or the
    border of the scan cuts the structure, so its true centre and extremes are not known.
    """
    points = {}
    left_out = {}
    layers = labels.layers
    voxels_of = {label: ijk for layer in layers for label, ijk in voxels_by_label(layer).items()}
    last = np.array(layers[0].shape[::-1]) - 1
    for name, value in labels.values.items():
        ijk = voxels_of.get(value, np.empty((0, 3), np.intp))
        reason = reason_left_out(name)
        if reason is not None:
            left_out[name] = reason
        elif len(ijk) < MIN_VOXELS:
            left_out[name] = f"only {len(ijk)} voxels"
        elif ((ijk == 0) | (ijk == last)).any():
            left_out[name] = "cut by the border of the scan"
        else:
            points[name] = measure(ijk, labels.ijk_to_ras)
    return points, left_out


def voxels_by_label(labels: np.ndarray) -> dict[int, np.ndarray]:
    """Find the voxels of all labels in one pass: label value -> (n, 3) voxel indices i, j, k."""
    flat = np.ascontiguousarray(labels).reshape(-1)
    where = np.flatnonzero(flat)
    where = where[np.argsort(flat[where], kind="stable")]  # sorted by label, then split
    values, starts = np.unique(flat[where], return_index=True)
    parts = np.split(where, starts[1:])  # one for each label; without labels, one in vain
    return {
        value: np.column_stack(np.unravel_index(part, labels.shape)[::-1])
        for value, part in zip(values.tolist(), parts, strict=False)
    }
