"""Boxes with sides along R, A and S: (2, 3) lowest and highest corner, RAS mm. Reads and writes Slicer's box files."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from ..anatomy.names import canonical_name
from ..errors import PointsError
from .checks import LARGEST_POSITION_MM
from .geometry import LPS_FROM_RAS
from .markups import ORIENTATION, box_of, control_point, markup, read_markups, write_file

SIDES = ("left", "posterior", "inferior", "right", "anterior", "superior")  # order of box.ravel()
OUTWARD = np.array([-1.0, -1.0, -1.0, 1.0, 1.0, 1.0])


def intersection_over_union(first: np.ndarray, second: np.ndarray) -> float:
    """Return the intersection over union of two boxes (2, 3): 1 if they are equal, 0 if they do not overlap."""
    low = np.maximum(first[0], second[0])
    high = np.minimum(first[1], second[1])
    shared = _volume(np.stack([low, high]))
    return float(shared / (_volume(first) + _volume(second) - shared)) if shared > 0 else 0.0


def grown(box: np.ndarray, margins_mm: np.ndarray) -> np.ndarray:
    """Move the sides of a box (2, 3) outward and return the new box. margins_mm: (6,) mm in the order of SIDES."""
    return box + (OUTWARD * margins_mm).reshape(2, 3)


def boxes_to_json(boxes: Mapping[str, np.ndarray]) -> dict[str, list[float]]:
    """Convert named boxes (2, 3) to lists of 6 numbers, the lowest corner first, for a JSON file."""
    return {name: box.ravel().tolist() for name, box in boxes.items()}


def boxes_from_json(stored: Any) -> dict[str, np.ndarray]:
    """Read boxes from the output of `boxes_to_json`. Raises ValueError, TypeError or AttributeError for other input."""
    boxes = {}
    for name, sides in stored.items():
        box = np.array([float(x) for x in sides]).reshape(2, 3)
        if not (np.abs(box) < LARGEST_POSITION_MM).all() or (box[1] <= box[0]).any():
            raise ValueError("no box")
        boxes[canonical_name(str(name))] = box
    return boxes


def enclosing(boxes: list[np.ndarray]) -> np.ndarray:
    """Return the smallest box that contains all boxes."""
    low, high = np.stack(boxes, axis=1)
    return np.stack([low.min(axis=0), high.max(axis=0)])


def _volume(box: np.ndarray) -> float:
    return float(np.clip(box[1] - box[0], 0.0, None).prod())


def write_rois(
    path: str | Path, boxes: Mapping[str, np.ndarray], descriptions: Mapping[str, str] | None = None
) -> None:
    """Write named boxes into one .mrk.json file of ROI markups (LPS mm), which Slicer >= 5 opens as boxes.

    Args:
        path: the file.
        boxes: name -> (2, 3) RAS mm.
        descriptions: name -> description.

    Raises PointsError when the file cannot be written or its name does not end in .json.
    """
    descriptions = descriptions or {}
    write_file(
        Path(path), [_roi(name, box, descriptions.get(name, "")) for name, box in boxes.items()]
    )


def _roi(name: str, box: np.ndarray, description: str) -> dict:
    """Return a box (2, 3), RAS mm, as a region of interest of a markups file, in LPS."""
    centre = (LPS_FROM_RAS[:3, :3] @ box.mean(axis=0)).tolist()
    return markup("ROI", name, [control_point(1, name, centre, description)]) | {
        "roiType": "Box",
        "center": centre,
        "orientation": list(ORIENTATION),
        "size": (box[1] - box[0]).tolist(),
        "insideOut": False,
    }


def read_rois(path: str | Path, unnamed: str = "box") -> dict[str, np.ndarray]:
    """Read named boxes, (2, 3) RAS mm, from a Slicer ROI markups file. A rotated ROI gives the box that encloses it.

    unnamed: name for an ROI that has no name in the file; Slicer writes ROIs without a name. Raises PointsError if
    the file is missing or damaged, has no ROI, has two ROIs of the same name, or is neither in LPS nor in RAS mm.
    """
    path = Path(path)
    boxes = {}
    try:
        for entry in read_markups(path):
            if entry.get("type") == "ROI":
                name = str(entry.get("name") or unnamed)
                if name in boxes:
                    raise PointsError(
                        f"{path}: contains two boxes named {name}; give each box a different name."
                    )
                boxes[name] = _box(entry, path)
    except (AttributeError, IndexError, KeyError, TypeError, ValueError):
        raise PointsError(
            f"{path}: contains an ROI without centre or size; save the ROI again from Slicer."
        ) from None
    if not boxes:
        raise PointsError(
            f"{path}: contains no ROI; draw a box (Markups, ROI) in Slicer and save it."
        )
    return boxes


def _box(entry: dict, path: Path) -> np.ndarray:
    """Return the box (2, 3), RAS mm, around a region of interest, which may be oblique.

    Raises KeyError, TypeError or ValueError if a value is missing or wrong.
    """
    # a box without orientation is upright
    centre, axes, sizes = box_of({"orientation": np.eye(3)} | entry, path)
    half = np.abs(axes) @ sizes / 2
    if not np.isfinite([centre, half]).all():
        raise ValueError
    return np.stack([centre - half, centre + half])
