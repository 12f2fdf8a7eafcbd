"""Make the body coordinates of training scans follow their labelled organs.

Real scans get their body coordinates from a map, label images from their label maps, and phantoms from the canonical
body. So the same organ may have body coordinates that differ by one or two centimetres. Here, all labelled scans are
placed together (see `label_frames.place`), so that each organ lies at its mean place in all of them.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
import torch

from ..scan.label_map import LabelMap
from ..structures.label_names import find_structures
from .crops import body_coordinates
from .label_frames import FEWEST_STRUCTURES, MOST_SPREAD_MM, BodyMap, Points, place
from .scans import PreparedScan, as_field

# centre, top and bottom of a structure of equal extent differ less between two patients
_SAME_MM = 40.0
_ENDS = [0, 5, 6]  # centre, superior and inferior extreme among the points of a structure
_LEAST_PART = 8  # a group that is a smaller part of a structure's scans is left out


def follow_organs(scans: Sequence[PreparedScan]) -> list[PreparedScan]:
    """Return the scans. Labelled scans and phantoms have new body coordinates: their organs lie at mean places.

    A scan whose labels show fewer than FEWEST_STRUCTURES usable structures keeps its body coordinates. Phantoms follow
    the mean of the patients, but do not change it. If no scan of a patient shows enough structures, nothing changes.
    """
    scan_points = {}
    for scan in scans:
        if scan.labels is not None and scan.origin != "phantom":
            scan_points[scan.name] = organ_points(scan)
    if not any(len(points) >= FEWEST_STRUCTURES for points in scan_points.values()):
        return list(scans)
    patients = {scan.name: scan.patient for scan in scans}
    parts, mean = _split_by_place(scan_points)
    count = {}
    for name in mean:
        showing = {patients[scan] for scan, points in parts.items() if name in points}
        count[name] = len(showing)
    placement = place(parts, count, mean)
    followed = []
    for scan in scans:
        body_map = placement.maps.get(scan.name)
        if scan.origin == "phantom":
            body_map = placement.from_canonical
        followed.append(scan if body_map is None else _moved(scan, body_map))
    return followed


def _split_by_place(scan_points: Mapping[str, Points]) -> tuple[dict[str, Points], Points]:
    """Split structures that data sets draw to different extents, such as the aorta in the chest or in the abdomen.

    A structure whose centres vary little is not split. Return the points of the scans, in which each group of equal
    extent has a name of its own, and the median (7, 3) of the points of each group, mm. Points without a group are
    left out.
    """
    parts: dict[str, Points] = {scan: {} for scan in scan_points}
    medians: Points = {}
    for structure in sorted({name for points in scan_points.values() for name in points}):
        ungrouped = {
            scan: shapes[structure] for scan, shapes in scan_points.items() if structure in shapes
        }
        whole = len(ungrouped)
        while ungrouped:
            points = np.array(list(ungrouped.values()))
            members = _largest_group(points)
            if len(ungrouped) == whole and points[:, 0].std(axis=0).max() < MOST_SPREAD_MM:
                members[:] = True
            if members.sum() * _LEAST_PART < whole:
                break
            name = structure if members.sum() == whole else f"{structure} {len(medians)}"
            medians[name] = np.median(points[members], axis=0)
            for scan, is_member in zip(list(ungrouped), members, strict=True):
                if is_member:
                    parts[scan][name] = ungrouped.pop(scan)
    return parts, medians


def _largest_group(points: np.ndarray) -> np.ndarray:
    """Return (n,) bool: the largest group of scans that draw a structure to equal extents. points: (n, 7, 3) mm."""
    ends = points[:, _ENDS]
    close = np.linalg.norm(ends[:, None] - ends, axis=-1).max(axis=-1) < _SAME_MM
    return close[close.sum(axis=1).argmax()]


def organ_points(scan: PreparedScan) -> Points:
    """Return {structure: centre and extremes (7, 3), body coordinates in mm} of the complete structures of a scan."""
    values = {name: number for number, name in enumerate(scan.label_names, 1)}
    structures, _ = find_structures(LabelMap(scan.labels.numpy(), scan.grid_to_ras, values))
    return {name: _body_at(scan, points[None, None])[0, 0] for name, points in structures.items()}


def _body_at(scan: PreparedScan, points_ras: np.ndarray) -> np.ndarray:
    """Return the body coordinates, mm, of points (k, j, i, 3), RAS mm, of a scan."""
    voxels = (points_ras - scan.grid_to_ras[:3, 3]) / scan.spacing_mm
    return body_coordinates(scan, torch.from_numpy(voxels.astype(np.float32))).double().numpy()


def _moved(scan: PreparedScan, body_map: BodyMap) -> PreparedScan:
    """Apply a map from old to new body coordinates to the body coordinates of a scan."""
    old = _body_at(scan, scan.field_nodes_ras())
    field_mm = body_map.to_body(old.reshape(-1, 3)).reshape(old.shape)
    scale = body_map.frame.scale * scan.frame.scale
    shift = body_map.frame.apply(scan.frame.shift_mm)
    return replace(
        scan, frame=replace(scan.frame, scale=scale, shift_mm=shift), body_field=as_field(field_mm)
    )
