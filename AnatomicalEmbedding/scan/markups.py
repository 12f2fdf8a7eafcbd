"""Slicer's markups files (.mrk.json, schema 1.0.3): common parts of point lists and boxes. Positions are LPS mm."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ..errors import PointsError
from ..files import write_text

ORIENTATION = (-1.0, 0.0, 0.0, 0.0, -1.0, 0.0, 0.0, 0.0, 1.0)  # along the patient's axes
_SCHEMA = (
    "https://raw.githubusercontent.com/slicer/slicer/master/Modules/Loadable/Markups/Resources/Schema/"
    "markups-schema-v1.0.3.json#"
)


def markup(kind: str, name: str, points: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """The entry of one markups node: kind "Fiducial" or "ROI", control points as `control_point` makes them."""
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
    number: int, label: str, position_lps: Sequence[float], description: str = "", status: str = "defined"
) -> dict[str, Any]:
    """One control point; number: from 1 on. status: "defined" or "missing"."""
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
    """Write one file, complete or not at all. Raises PointsError when its name or folder cannot be used."""
    if not path.name.lower().endswith(".json"):
        raise PointsError(f"{path}: must be named .mrk.json for Slicer to open it; change the name.")
    text = json.dumps({"@schema": _SCHEMA, "markups": list(markups)}, indent=2, ensure_ascii=False)
    write_text(path, text + "\n", PointsError)
