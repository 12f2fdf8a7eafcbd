"""Test lines, angles, curves, planes and boxes: what they measure, their error, and their files."""

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from AnatomicalEmbedding.errors import PointsError
from AnatomicalEmbedding.landmarks.drawing import (
    Drawing,
    drawing_paths,
    read_drawing,
    write_drawing,
)
from AnatomicalEmbedding.landmarks.markups import (
    ANGLE,
    CLOSED_CURVE,
    CURVE,
    LINE,
    PLANE,
    ROI,
    Markup,
    measure,
    measurement_error,
    measurements,
)
from AnatomicalEmbedding.matching.match import Matches
from AnatomicalEmbedding.matching.status import ABSENT, MATCHED, UNCERTAIN
from AnatomicalEmbedding.scan.points import PointList


def markup(kind: str, count: int, name: str = "m") -> Markup:
    return Markup(kind, name, tuple(f"{name}: {n + 1}" for n in range(count)))


def rotation(seed: int) -> np.ndarray:
    matrix, _ = np.linalg.qr(np.random.default_rng(seed).standard_normal((3, 3)))
    return matrix * np.linalg.det(matrix)


def circle(count: int, radius_mm: float) -> np.ndarray:
    turns = 2 * np.pi * np.arange(count) / count
    return radius_mm * np.stack([np.cos(turns), np.sin(turns), 0 * turns], axis=1)


@given(st.integers(0, 1000), st.floats(1, 179), st.floats(5, 200))
def test_lengths_and_angles_do_not_depend_on_the_frame(seed, degrees, length_mm):
    turn = np.radians(degrees)
    places = np.array(
        [[length_mm, 0, 0], [0, 0, 0], [30 * np.cos(turn), 30 * np.sin(turn), 0]]
    ) @ rotation(seed).T + np.random.default_rng(seed).uniform(-500, 500, 3)
    assert measure(markup(ANGLE, 3), places) == pytest.approx(degrees, abs=1e-5)
    assert measure(markup(LINE, 2), places[:2]) == pytest.approx(length_mm)


def test_curves_follow_slicers_spline():
    """A circle is measured as a circle, not as the polygon of its points."""
    around = circle(12, 40.0) @ rotation(3).T + [100.0, -50.0, 900.0]
    assert measure(markup(CLOSED_CURVE, 12), around) == pytest.approx(np.pi * 40**2, rel=0.01)
    straight = np.linspace([0, 0, 0], [0, 60, 80], 5)
    assert measure(markup(CURVE, 5), straight) == pytest.approx(100.0)
    half = circle(16, 40.0)[:9]
    assert measure(markup(CURVE, 9), half) == pytest.approx(np.pi * 40, rel=0.02)


def test_ninety_percent_of_lengths_lie_in_the_interval_if_the_points_err_as_stated():
    """Errors of points are mostly along S: lines across are more exact than lines along the body."""
    rng = np.random.default_rng(4)
    axes = np.sqrt((0.1, 0.2, 0.7))
    scale = 1 / np.linalg.norm(rng.standard_normal((100_000, 3)) * axes, axis=1).mean()
    for direction in ([1.0, 0, 0], [0, 0, 1.0], [0.6, 0, 0.8]):
        ends = np.array([[0.0, 0, 0], np.multiply(direction, 150.0)])
        margin = measurement_error(markup(LINE, 2), ends, np.array([6.0, 6.0]))
        moved = ends + 6.0 * scale * axes * rng.standard_normal((4000, 2, 3))
        errors = measure(markup(LINE, 2), moved) - 150.0
        assert 0.87 < (np.abs(errors) <= margin).mean() < 0.99


def test_a_measurement_has_the_lowest_status_of_its_points_and_none_without_a_point():
    labels = ("a", "b", "c")
    places = np.array([[0.0, 0, 0], [3, 4, 0], [3, 4, 12]])
    matches = Matches(
        places,
        np.ones(3),
        np.array([MATCHED, UNCERTAIN, ABSENT]),
        np.full(3, 2.0),
        *[np.full(3, 0.9)] * 3,
        levels=np.array([""] * 3),
    )
    lines = [Markup(LINE, "shown", ("a", "b")), Markup(LINE, "cut", ("b", "c"))]
    plane = Markup(PLANE, "plane", labels)
    shown, cut = measurements([*lines, plane], labels, matches)
    assert (shown.value, shown.unit, shown.status) == (pytest.approx(5.0), "mm", UNCERTAIN)
    assert shown.margin > 0
    assert (cut.value, cut.margin, cut.status) == (None, None, ABSENT)
    plain = Matches(places, np.ones(3))
    (uncalibrated,) = measurements(lines[:1], labels, plain)
    assert (uncalibrated.value, uncalibrated.margin) == (pytest.approx(5.0), None)


def drawing() -> Drawing:
    """A point, and one markup of each kind."""
    rng = np.random.default_rng(8)
    markups = [
        markup(LINE, 2, "long axis"),
        markup(ANGLE, 3, "Cobb"),
        markup(CURVE, 4, "course"),
        markup(CLOSED_CURVE, 5, "inlet"),
        markup(PLANE, 3, "three points"),
        Markup(PLANE, "valve", ("valve: centre",)),
        Markup(ROI, "box", ("box: centre",)),
    ]
    labels = ("carina", *(label for drawn in markups for label in drawn.labels))
    edges = rotation(5).T * [[40.0], [60.0], [20.0]]
    edges_ras = {"valve: centre": edges * [[1], [1], [0]], "box: centre": edges}
    points = PointList(labels, rng.uniform(-200, 200, (len(labels), 3)))
    return Drawing(points, tuple(markups), edges_ras)


def test_a_drawing_is_the_same_after_writing_and_reading(tmp_path):
    drawn = drawing()
    write_drawing(tmp_path / "scan.1.mrk.json", "scan.1", drawn, [False] * len(drawn.points))
    again = read_drawing(drawing_paths(tmp_path, "scan.1"), "scan.1")
    assert again.markups == drawn.markups
    assert again.points.labels == drawn.points.labels
    np.testing.assert_allclose(again.points.points_ras, drawn.points.points_ras)
    for label, edges in drawn.edges_ras.items():
        np.testing.assert_allclose(again.edges_ras[label], edges, atol=1e-9)


def test_points_that_a_scan_does_not_show_are_missing_in_its_file(tmp_path):
    drawn = drawing()
    gone = ("carina", "Cobb: 2", "box: centre")
    missing = [label in gone for label in drawn.points.labels]
    write_drawing(tmp_path / "a.mrk.json", "a", drawn, missing)
    entries = json.loads((tmp_path / "a.mrk.json").read_text())["markups"]
    statuses = {
        point["label"]: point["positionStatus"]
        for entry in entries
        for point in entry["controlPoints"]
    }
    assert [label for label, status in statuses.items() if status == "missing"] == list(gone[:2])
    assert "box: centre" not in statuses


def test_points_of_one_label_are_all_written(tmp_path):
    path = tmp_path / "a.mrk.json"
    write_drawing(path, "a", Drawing(PointList(("A", "B", "A"), np.eye(3)), ()), [False] * 3)
    (entry,) = json.loads(path.read_text())["markups"]
    assert [point["label"] for point in entry["controlPoints"]] == ["A", "B", "A"]


@pytest.mark.parametrize("lacking", ["center", "orientation", "size"])
def test_a_box_that_lacks_a_value_is_refused(tmp_path, lacking):
    path = tmp_path / "a.mrk.json"
    drawn = drawing()
    write_drawing(path, "a", drawn, [False] * len(drawn.points))
    document = json.loads(path.read_text())
    del document["markups"][-1][lacking]
    path.write_text(json.dumps(document))
    with pytest.raises(PointsError, match="'box' has no centre, orientation or size"):
        read_drawing([path], "a")


def test_markups_are_named_by_their_file_or_node(tmp_path):
    drawn = drawing()
    write_drawing(tmp_path / "a.mrk.json", "a", drawn, [False] * len(drawn.points))
    line, angle, point = (
        next(
            e
            for e in json.loads((tmp_path / "a.mrk.json").read_text())["markups"]
            if e["type"] == kind
        )
        for kind in ("Line", "Angle", "Fiducial")
    )
    (tmp_path / "a.mrk.json").unlink()
    for entry in (line, angle, point):
        del entry["name"]  # as Slicer writes it

    def write(name, *entries):
        (tmp_path / name).write_text(json.dumps({"markups": entries}))

    write("a.mrk.json", point, line)
    write("a.Cobb angle.mrk.json", angle)
    write("ab.mrk.json", point)
    (tmp_path / "a.late").mkdir()  # another scan
    write("a.late.mrk.json", point)
    assert [path.name for path in drawing_paths(tmp_path, "a")] == [
        "a.Cobb angle.mrk.json",
        "a.mrk.json",
    ]
    again = read_drawing(drawing_paths(tmp_path, "a"), "a")
    assert [drawn.name for drawn in again.markups] == ["Cobb angle", "Line"]
    assert again.markups[1].labels == ("Line: 1", "Line: 2")
    assert "carina" in again.points.labels
    write("a.mrk.json", line | {"controlPoints": line["controlPoints"][:1]})
    with pytest.raises(PointsError, match="'Line' has 1 of 2 points; place the others"):
        read_drawing(drawing_paths(tmp_path, "a"), "a")
    assert drawing_paths(tmp_path, "b") == []
