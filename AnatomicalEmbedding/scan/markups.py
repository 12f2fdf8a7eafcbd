"""Markups files of Slicer (.mrk.json, schema 1.0.3): code that point lists and boxes share. Positions are LPS mm."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import PointsError
from ..files import parse_json, write_text
from .geometry import RAS_FROM_LPS

# (3, 3) matrix, LPS: parallel to the patient's axes
ORIENTATION = (-1.0, 0.0, 0.0, 0.0, -1.0, 0.0, 0.0, 0.0, 1.0)
_SCHEMA = (
    "https://raw.githubusercontent.com/slicer/slicer/master/Modules/Loadable/Markups/Resources/Schema/"
    "markups-schema-v1.0.3.json#"
)


def markup(kind: str, name: str, points: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Make one entry of a markups file.

    Args:
        kind: "Fiducial" (point list) or "ROI" (box).
        name: name of the entry.
        points: from `control_point`.
    """
    return {
        "type": kind,
        "name": name,
        "coordinateSystem": "LPS",
        "coordinateUnits": "mm",
        "locked": False,
        "fixedNumberOfControlPoints": False,
        "labelFormat": "%N-%d",
        "lastUsedControlPointNumber": len(points),
        "controlPoints": list(points),
    }


def control_point(
    number: int,
    label: str,
    position_lps: Sequence[float],
    description: str = "",
    status: str = "defined",
) -> dict[str, Any]:
    """Make one control point.

    Args:
        number: 1 for the first point.
        label: name of the point.
        position_lps: (3,) LPS mm.
        description: text for a reader.
        status: "defined" or "missing".
    """
    return {
        "id": str(number),
        "label": label,
        "description": description,
        "associatedNodeID": "",
        "position": list(position_lps),
        "orientation": list(ORIENTATION),
        "selected": True,
        "locked": False,
        "visibility": True,
        "positionStatus": status,
    }


def write_file(path: Path, markups: Sequence[dict[str, Any]]) -> None:
    """Write markups, complete or not at all. Raises PointsError if this fails or `path` does not end in .json."""
    if not path.name.lower().endswith(".json"):
        raise PointsError(
            f"{path}: Slicer opens only files whose names end in .mrk.json; change the name."
        )
    text = json.dumps({"@schema": _SCHEMA, "markups": list(markups)}, indent=2, ensure_ascii=False)
    write_text(path, text + "\n", PointsError)


def read_text(path: Path) -> str:
    """Read a text file. Raises PointsError when the file is missing or is not UTF-8."""
    try:
        return path.read_text(encoding="utf-8-sig")
    except FileNotFoundError:
        raise PointsError(f"{path}: no such file; check the path.") from None
    except UnicodeDecodeError:
        raise PointsError(
            f"{path}: is not UTF-8 text; save the points as a UTF-8 .csv or as .mrk.json."
        ) from None
    except OSError as error:
        raise PointsError(
            f"{path}: cannot be read as text; give a Slicer .mrk.json or a .csv."
        ) from error


def read_markups(path: Path) -> list[dict[str, Any]]:
    """Read the markups of a .mrk.json file. Raises PointsError when the file is missing, damaged or of another kind."""
    try:
        document = parse_json(read_text(path))
    except json.JSONDecodeError as error:
        raise PointsError(
            f"{path}: line {error.lineno} is not JSON ({error.msg}); save the file again."
        ) from error
    except ValueError as error:
        raise PointsError(
            f"{path}: cannot be read as JSON ({error}); save the file again."
        ) from error
    entries = document.get("markups") if isinstance(document, dict) else None
    if not isinstance(entries, list) or not all(isinstance(entry, dict) for entry in entries):
        raise PointsError(
            f"{path}: is not a Slicer markups file (it has no list 'markups'); save it from Slicer."
        )
    return entries


def box_of(entry: dict[str, Any], path: Path) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the centre (3,) RAS mm, the axes (3, 3) in columns, and the sizes (3,) mm of a plane or box.

    Raises PointsError as `frame_of` does, and KeyError, TypeError or ValueError if a value is missing or wrong.
    """
    to_ras = frame_of(entry, path)[:3, :3]
    centre = np.array(entry["center"], np.float64).reshape(3)
    axes = np.array(entry["orientation"], np.float64).reshape(3, 3)
    sizes = np.array(entry["size"], np.float64).reshape(3)
    return to_ras @ centre, to_ras @ axes, sizes


def frame_of(entry: dict[str, Any], path: Path) -> np.ndarray:
    """Return the (4, 4) matrix from a markup's frame to RAS. Raises PointsError if the frame is not LPS or RAS mm."""
    # Slicer's defaults
    system = entry.get("coordinateSystem", "LPS")
    units = entry.get("coordinateUnits", "mm")
    if system not in ("LPS", "RAS"):
        raise PointsError(
            f"{path}: has the unknown coordinate system {system!r}; save the file in LPS or RAS."
        )
    if (units[:1] if isinstance(units, list) else [units]) != ["mm"]:
        raise PointsError(
            f"{path}: has coordinates in {units!r}; save the file with coordinates in mm."
        )
    return RAS_FROM_LPS if system == "LPS" else np.eye(4)
