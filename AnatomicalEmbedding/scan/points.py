"""Lists of points: read and write Slicer markups (.mrk.json, LPS) and CSV (label,r,a,s); parse a text `x,y,z`."""

import csv
import io
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike

from ..errors import PointsError
from ..files import write_text
from .checks import parse_numbers
from .geometry import LPS_FROM_RAS, RAS_FROM_LPS, transform_points
from .markups import control_point, frame_of, markup, read_markups, read_text, write_file

_Row = tuple[str, np.ndarray, str]  # label, position (3,) RAS mm, description
_TO_RAS = {"RAS": np.eye(4), "LPS": RAS_FROM_LPS}


@dataclass(frozen=True)
class Measurement:
    """What a line, an angle or a curve through points measures in one scan.

    Args:
        name, kind: name and kind of the markup.
        quantity: "length", "angle" or "area". unit: "mm", "deg" or "mm2", as in UCUM.
        value: None if the scan does not show all points.
        margin: the true value lies in value - margin ... value + margin with a probability of 90 %; None if not known.
        status: the lowest status of its points; "" without a calibration.
    """

    name: str
    kind: str
    quantity: str
    unit: str
    value: float | None
    margin: float | None
    status: str


@dataclass(frozen=True, eq=False)
class PointList:
    """Points with labels. points_ras: (N,3) float64 RAS mm; labels: N names; descriptions: N texts, or empty.

    Raises PointsError when the numbers of points, labels and descriptions differ, or a coordinate is not finite.
    """

    labels: tuple[str, ...]
    points_ras: np.ndarray
    descriptions: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        points = np.array(self.points_ras, np.float64)
        object.__setattr__(self, "labels", tuple(self.labels))
        object.__setattr__(
            self, "points_ras", points.reshape(-1, 3) if points.size == 0 else points
        )
        object.__setattr__(self, "descriptions", tuple(self.descriptions))
        if self.points_ras.shape != (len(self.labels), 3):
            raise PointsError(
                f"{len(self.labels)} labels are given for points of shape {points.shape}; give one label per point."
            )
        if self.descriptions and len(self.descriptions) != len(self.labels):
            raise PointsError(
                f"{len(self.descriptions)} descriptions are given for {len(self.labels)} points; describe each point."
            )
        if not np.isfinite(self.points_ras).all():
            raise PointsError(
                "a point has a coordinate that is NaN or infinite; give x, y, z in RAS mm."
            )

    @classmethod
    def of_rows(cls, rows: Sequence[tuple[str, ArrayLike, str]]) -> Self:
        """Make a list of rows: label, position (3,) RAS mm, description. If all descriptions are empty, it has none."""
        labels, points, descriptions = zip(*rows, strict=True)
        return cls(labels, np.array(points), descriptions if any(descriptions) else ())

    def __len__(self) -> int:
        return len(self.labels)

    @property
    def points_lps(self) -> np.ndarray:
        """The points as (N, 3) LPS mm."""
        return transform_points(LPS_FROM_RAS, self.points_ras)


def points_in_ras(points: np.ndarray | PointList, frame: str = "RAS") -> np.ndarray:
    """Return points as (N, 3) RAS mm. frame: "RAS" or "LPS", the frame of `points` if they are an array (N, 3).

    Raises PointsError for another frame or shape.
    """
    if isinstance(points, PointList):
        return points.points_ras
    if frame not in _TO_RAS:
        raise PointsError(f'frame {frame!r}: choose "RAS" or "LPS".')
    return transform_points(_TO_RAS[frame], as_points(points))


def as_points(points: np.ndarray) -> np.ndarray:
    """Convert points (N, 3), one point (3,) or an empty list to (N, 3) float64. Raises PointsError for other values."""
    try:
        places = np.asarray(points, np.float64)
    except (TypeError, ValueError):
        raise PointsError(
            f"points have type {type(points).__name__}; give an array (N, 3) of numbers in mm."
        ) from None
    places = places.reshape(-1, 3) if places.size == 0 else np.atleast_2d(places)
    if places.ndim != 2 or places.shape[1] != 3:
        raise PointsError(
            f"points have shape {places.shape}; give an array (N, 3) of x, y, z in mm."
        )
    return places


def write_points(
    path: str | Path,
    points: np.ndarray | PointList,
    labels: Sequence[str] = (),
    *,
    frame: str = "RAS",
) -> None:
    """Write points as a list that Slicer opens (.mrk.json), or as a table label,r,a,s (.csv) in RAS mm.

    Args:
        path: the file to write.
        points: a PointList, or an array (N, 3) in mm.
        labels: N labels, if `points` is an array; default: 1, 2, 3 ...
        frame: "RAS" or "LPS", the frame of `points` if they are an array.

    Raises:
        PointsError: the file cannot be written, or its name ends neither in .json nor in .csv.
    """
    if not isinstance(points, PointList):
        places = points_in_ras(points, frame)
        points = PointList(tuple(labels) or tuple(str(n + 1) for n in range(len(places))), places)
    if Path(path).suffix.lower() != ".csv":
        write_markups(path, points)
        return
    text = io.StringIO()
    rows = zip(points.labels, points.points_ras.round(4).tolist(), strict=True)
    csv.writer(text).writerows(
        [("label", "r", "a", "s"), *((label, *place) for label, place in rows)]
    )
    write_text(path, text.getvalue(), PointsError)


def read_points(path: str | Path, film_to_ras: np.ndarray | None = None) -> PointList:
    """Read points of a Slicer markups file (.mrk.json, .json) or a .csv with columns label,r,a,s in RAS mm.

    film_to_ras: matrix (4, 4) from pixels of a film to RAS mm; a .csv may then have the columns label,x,y in pixels.
    Markups may be in LPS or RAS. Tables with label,l,p,s, which Slicer exports, are read too. Points without a defined
    position are left out. Raises PointsError when the file is missing, damaged or of another kind, or holds no point.
    """
    path = Path(path)
    suffix = path.suffix.lower()
    if suffix == ".json":
        rows = [row for entry in read_markups(path) for row in entry_points(entry, path)]
    elif suffix == ".csv":
        rows = _read_csv(path, film_to_ras)
    else:
        raise PointsError(
            f"{path}: is neither .json nor .csv; give a Slicer .mrk.json, or a .csv with label,r,a,s."
        )
    if not rows:
        raise PointsError(f"{path}: contains no point with a position; place at least one point.")
    return PointList.of_rows(rows)


def parse_point(text: str, count: int = 3) -> np.ndarray:
    """Parse `count` numbers in RAS mm, such as "12.5,-40,310" for a point. Raises PointsError for any other text."""
    values = parse_numbers(text, count)
    if values is None:
        kind = "a point" if count == 3 else "a box"
        raise PointsError(
            f"{text!r} is not {kind}; give {count} numbers in RAS mm, with commas, as in 12.5,-40,310."
        )
    return values


def write_markups(
    path: str | Path, points: PointList, name: str = "", missing: Sequence[bool] | None = None
) -> None:
    """Write a .mrk.json point list (Fiducial, LPS mm, schema 1.0.3) that Slicer >= 5 opens.

    Args:
        path: the file.
        points: the points.
        name: name of the list in Slicer; default: the name of the file.
        missing: for each point, True if it is not in the scan; Slicer lists these points but does not draw them.

    Raises PointsError when the file cannot be written.
    """
    path = Path(path)
    name = name or path.name.removesuffix(".json").removesuffix(".mrk")
    write_file(path, [point_markup(points, name, missing)])


def point_markup(
    points: PointList, name: str, missing: Sequence[bool] | None = None
) -> dict[str, Any]:
    """Return a point list as an entry of a markups file.

    Args:
        points, name, missing: as for `write_markups`.
    """
    descriptions = points.descriptions or ("",) * len(points)
    missing = [False] * len(points) if missing is None else missing
    rows = zip(points.labels, points.points_lps.tolist(), descriptions, missing, strict=True)
    control_points = [
        control_point(number, label, position, description, "missing" if gone else "defined")
        for number, (label, position, description, gone) in enumerate(rows, start=1)
    ]
    return markup("Fiducial", name, control_points)


def entry_points(markup: dict[str, Any], path: Path) -> list[_Row]:
    """Return the label, the position (3,) RAS mm and the description of each point that an entry of a file defines.

    Raises PointsError if a position is not valid.
    """
    to_ras = frame_of(markup, path)
    rows = []
    control_points = markup.get("controlPoints") or ()
    if not isinstance(control_points, list | tuple):
        raise PointsError(f"{path}: the control points are not a list; save the points again.")
    for number, point in enumerate(control_points, start=1):
        point = point if isinstance(point, dict) else {}
        if point.get("positionStatus", "defined") != "defined":
            continue
        position = _position(point.get("position"))
        if position is None:
            raise PointsError(
                f"{path}: control point {number} has no valid position; save the points again."
            )
        label = str(point.get("label") or number)
        description = str(point.get("description") or "")
        rows.append((label, transform_points(to_ras, position)[0], description))
    return rows


def _position(values: Any) -> np.ndarray | None:
    """Return `values` as a position (1, 3) if they are three finite numbers; otherwise return None."""
    try:
        position = np.array(values, np.float64).reshape(1, 3)
    except (TypeError, ValueError):
        return None
    return position if np.isfinite(position).all() else None


def _columns(
    names: Sequence[str], path: Path, film_to_ras: np.ndarray | None
) -> tuple[tuple[str, ...], np.ndarray]:
    """Return which columns of a table are coordinates, and the matrix (4, 4) from them to RAS mm.

    Args:
        names: names of the columns.
        path: the file, for the message.
        film_to_ras: as for `read_points`.

    Raises PointsError if a column is missing.
    """
    columns: tuple[str, ...] = ("r", "a", "s")
    to_ras = np.eye(4)
    if {"l", "p"} <= set(names):  # in tables that Slicer exports
        columns = ("l", "p", "s")
        to_ras = RAS_FROM_LPS
    elif {"x", "y"} <= set(names) and not {"r", "a"} <= set(names):
        if film_to_ras is None:
            raise PointsError(
                f"{path}: has pixels x,y, but the template is no film; give the columns label,r,a,s."
            )
        columns = ("x", "y")
        to_ras = film_to_ras
    missing = [column for column in ("label", *columns) if column not in names]
    if missing and ";" in "".join(names):
        raise PointsError(
            f"{path}: columns are separated by ';'; save the table with commas and decimal points."
        )
    if missing:
        raise PointsError(
            f"{path}: has no column {', '.join(missing)}; the first line must be label,r,a,s."
        )
    return columns, to_ras


def _read_csv(path: Path, film_to_ras: np.ndarray | None) -> list[_Row]:
    """Read the points of a table. Points that the table calls undefined are left out. See `read_points`."""
    reader = csv.DictReader(io.StringIO(read_text(path)), skipinitialspace=True)
    rows: list[_Row] = []
    try:
        names = [str(name).strip().lower() for name in reader.fieldnames or ()]
        reader.fieldnames = names
        columns, to_ras = _columns(names, path, film_to_ras)
        for row in reader:
            if (row.get("defined") or "1").strip() == "0":
                continue
            coordinates = [row[column] for column in columns]
            # pixels of a film have no third coordinate
            position = _position([*coordinates, *[0.0] * (3 - len(columns))])
            if position is None:
                numbers = ", ".join(columns)
                raise PointsError(
                    f"{path}: line {reader.line_num} has no valid numbers in the columns {numbers}; correct this line."
                )
            label = (row["label"] or "").strip() or str(len(rows) + 1)
            description = (row.get("description") or "").strip()
            rows.append((label, transform_points(to_ras, position)[0], description))
    except csv.Error as error:
        raise PointsError(
            f"{path}: is not a table ({error}); save it again with the columns label,r,a,s."
        ) from error
    return rows
