"""The points and markups that are drawn in one scan; reads and writes them as Slicer's markups files."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import PointsError
from ..scan.geometry import LPS_FROM_RAS
from ..scan.markups import box_of, read_markups, write_file
from ..scan.points import PointList, entry_points, point_markup, read_points
from .markups import KINDS, PLANE, QUANTITIES, ROI, Markup, check_count

CENTRE = "centre"
_PLANE_MM = 100.0  # size of a plane that has none, as in Slicer


@dataclass(frozen=True, eq=False)
class Drawing:
    """Points and markups of one scan.

    Args:
        points: the landmarks.
        markups: markups through landmarks.
        edges_ras: label of the centre of a plane or box -> its edges (3, 3), RAS mm: a row is a direction times the
            size. The third edge of a plane has no length.
    """

    points: PointList
    markups: tuple[Markup, ...] = ()
    edges_ras: Mapping[str, np.ndarray] = field(default_factory=dict)


def drawing_paths(folder: Path, scan: str) -> list[Path]:
    """Return the files with the points and markups of a scan: SCAN.mrk.json, SCAN.NAME.mrk.json, or else SCAN.csv.

    Args:
        folder: folder of the scan.
        scan: name of the scan's file without its ending.
    """
    from ..scan.image_files import files_beside  # loads SimpleITK

    paths = files_beside(folder, scan, "mrk.json")
    table = folder / f"{scan}.csv"
    return paths or ([table] if table.is_file() else [])


def read_drawing(paths: Sequence[Path], scan: str) -> Drawing:
    """Read the points and markups of a scan.

    Points of a point list keep their labels. Other control points are called "NAME: 1", "NAME: 2" ..., and the centre
    of a plane or box "NAME: centre". NAME is the name of the node, or of the file SCAN.NAME.mrk.json.

    Args:
        paths: from `drawing_paths`.
        scan: name of the scan.

    Raises:
        PointsError: a file is missing or damaged, a markup is not complete, two have one name, or there is no point.
    """
    points = []
    markups = {}
    edges_ras = {}
    for path in paths:
        if path.suffix.lower() == ".csv":
            return Drawing(read_points(path))
        for entry in read_markups(path):
            kind = entry.get("type")
            rows = entry_points(entry, path)
            if kind not in KINDS:
                points += rows
                continue
            name = _node_name(entry, path, scan)
            if name in markups:
                raise PointsError(f"{path}: two markups are called {name!r}; rename one of them.")
            labels = [f"{name}: {n}" for n in range(1, len(rows) + 1)]
            if kind == ROI or (kind == PLANE and len(rows) == 1):
                labels = [f"{name}: {CENTRE}"]
                centre, edges_ras[labels[0]] = _frame(entry, path, name)
                rows = [("", centre, "")]
            for label, (_, position, description) in zip(labels, rows, strict=True):
                points.append((label, position, description))
            markups[name] = Markup(kind, name, tuple(labels))
            try:
                check_count(markups[name])
            except ValueError as error:
                raise PointsError(
                    f"{path}: {error}; place the others, or delete this markup."
                ) from error
    if not points:
        raise PointsError(
            f"{paths[0]}: contains no point with a position; place at least one point."
        )
    return Drawing(PointList.of_rows(points), tuple(markups.values()), edges_ras)


def _node_name(entry: dict[str, Any], path: Path, scan: str) -> str:
    """Return the name of a markup in a file of a scan, without the name of the scan."""
    name = str(entry.get("name") or path.name.removesuffix(".json").removesuffix(".mrk"))
    return entry["type"] if name == scan else name.removeprefix(f"{scan}.")


def _frame(entry: dict[str, Any], path: Path, name: str) -> tuple[np.ndarray, np.ndarray]:
    """Return the centre (3,) and the edges (3, 3) of a plane or box, RAS mm."""
    try:
        centre, axes, sizes = box_of(entry, path)
    except (KeyError, TypeError, ValueError):
        raise PointsError(
            f"{path}: {name!r} has no centre, orientation or size; save it again from Slicer."
        ) from None
    if entry["type"] == PLANE:
        sizes = np.where(sizes[:2].min() > 0, sizes, _PLANE_MM) * (1, 1, 0)
    if not np.isfinite([centre, *axes, sizes]).all() or np.count_nonzero(sizes) < 2:
        raise PointsError(f"{path}: {name!r} has no size; draw it again in Slicer.")
    return centre, (axes * sizes).T


def write_drawing(path: Path, scan: str, drawing: Drawing, missing: Sequence[bool]) -> None:
    """Write the points and markups of a scan as a file that opens in Slicer, with Slicer's measurements switched on.

    Args:
        path: the file SCAN.mrk.json.
        scan: name of the scan; the nodes are called SCAN and SCAN.NAME, so that Slicer saves them as such files.
        drawing: the points and markups.
        missing: for each point, True if the scan does not show it; planes and boxes without centre are left out.

    Raises:
        PointsError: the file cannot be written.
    """
    points = drawing.points
    numbers = {label: n for n, label in enumerate(points.labels)}
    in_markups = {label for drawn in drawing.markups for label in drawn.labels}
    # several points may have one label
    single = [n for n, label in enumerate(points.labels) if label not in in_markups]
    entries = []
    if single or not drawing.markups:
        selected, is_missing = _selected(points, missing, single)
        entries.append(point_markup(selected, scan, is_missing))
    for drawn in drawing.markups:
        rows = [numbers[label] for label in drawn.labels]
        selected, is_missing = _selected(points, missing, rows)
        edges = drawing.edges_ras.get(drawn.labels[0])
        if edges is not None and is_missing[0]:
            continue
        entry = point_markup(selected, f"{scan}.{drawn.name}", is_missing) | {"type": drawn.kind}
        entries.append(entry | _attributes(drawn, selected, edges))
    write_file(path, entries)


def _selected(
    points: PointList, missing: Sequence[bool], rows: Sequence[int]
) -> tuple[PointList, list[bool]]:
    """Return the points with the numbers `rows`, and whether each is missing."""
    descriptions = tuple(points.descriptions[n] for n in rows) if points.descriptions else ()
    labels = tuple(points.labels[n] for n in rows)
    return PointList(labels, points.points_ras[rows], descriptions), [missing[n] for n in rows]


def _attributes(drawn: Markup, points: PointList, edges_ras: np.ndarray | None) -> dict[str, Any]:
    """Return what the entry of a markup has besides its points."""
    if drawn.kind in QUANTITIES:
        quantity, _unit = QUANTITIES[drawn.kind]
        return {"measurements": [{"name": quantity, "enabled": True}]}
    if edges_ras is None:
        return {"planeType": "threePoints" if len(drawn.labels) == 3 else "planeFit"}
    axes_ras, sizes = axes_and_sizes(edges_ras)
    axes_lps = LPS_FROM_RAS[:3, :3] @ axes_ras
    centre = points.points_lps[0]
    attributes = {
        "center": centre.tolist(),
        "orientation": axes_lps.ravel().tolist(),
        "size": sizes.tolist(),
    }
    if drawn.kind == ROI:
        return attributes | {"roiType": "Box", "insideOut": False}
    to_node = np.eye(4)
    to_node[:3, :3] = axes_lps
    to_node[:3, 3] = centre
    half = (sizes / 2).tolist()
    return attributes | {
        "planeType": "pointNormal",
        "sizeMode": "absolute",
        "normal": axes_lps[:, 2].tolist(),
        "objectToBase": LPS_FROM_RAS.ravel().tolist(),
        "baseToNode": to_node.ravel().tolist(),
        "planeBounds": [-half[0], half[0], -half[1], half[1]],
    }


def axes_and_sizes(edges_ras: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return directions at right angles, the columns of a matrix (3, 3), and sizes (3,), mm, of three edges.

    The plane of the first two edges is kept; edges need not be at right angles, because shapes differ.
    """
    first, second, _third = edges_ras
    normal = np.cross(first, second)
    axes = np.stack([first, np.cross(normal, first), normal], axis=1)
    axes /= np.linalg.norm(axes, axis=0)
    return axes, np.linalg.norm(edges_ras, axis=1)
