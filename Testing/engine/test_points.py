"""Test point lists: every file format keeps the RAS position, and a bad list is refused in one line."""

import json

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from AnatomicalEmbedding.errors import PointsError
from AnatomicalEmbedding.scan.points import PointList, parse_point, read_points, write_markups

POINTS = PointList(
    ("carina", "left kidney, lower pole"), [[1.5, -2.25, 300.125], [-40, 55, 60]], ("split", "")
)


def markups(**changes: object) -> str:
    points = [
        {"label": "A", "position": [10, 20, 30]},
        {"label": "B", "position": [0, 0, 0], "positionStatus": "undefined"},
        {"label": "C", "position": [1, 2, 3], "positionStatus": "defined", "description": "seen"},
    ]
    entry = {"type": "Fiducial", "coordinateSystem": "LPS", "controlPoints": points} | changes
    return json.dumps({"@schema": "x", "markups": [entry]})


def test_markups_are_written_in_lps_as_slicer_reads_them(tmp_path):
    write_markups(tmp_path / "points.mrk.json", POINTS)
    document = json.loads((tmp_path / "points.mrk.json").read_text(encoding="utf-8"))
    assert document["@schema"].endswith("/markups-schema-v1.0.3.json#")
    (markup,) = document["markups"]
    assert (markup["type"], markup["coordinateSystem"], markup["name"]) == (
        "Fiducial",
        "LPS",
        "points",
    )
    first = markup["controlPoints"][0]
    assert first["position"] == [-1.5, 2.25, 300.125]
    assert (first["label"], first["description"], first["positionStatus"]) == (
        "carina",
        "split",
        "defined",
    )
    # Slicer finds points again by id.
    assert len({point["id"] for point in markup["controlPoints"]}) == 2
    assert [p.name for p in tmp_path.iterdir()] == ["points.mrk.json"]


@settings(
    max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    st.lists(
        st.tuples(
            st.text(st.characters(codec="utf-8"), min_size=1, max_size=20).filter(str.strip),
            st.tuples(*(st.floats(-1e4, 1e4),) * 3),
            st.text(st.characters(codec="utf-8"), max_size=20),
        ),
        min_size=1,
        max_size=5,
    )
)
def test_markups_round_trip(tmp_path, rows):
    labels, points, descriptions = zip(*rows, strict=True)
    write_markups(tmp_path / "a.mrk.json", PointList(labels, points, descriptions), name="list")
    read = read_points(tmp_path / "a.mrk.json")
    assert read.labels == labels
    assert read.descriptions == (descriptions if any(descriptions) else ())
    np.testing.assert_array_equal(read.points_ras, np.array(points))


@pytest.mark.parametrize(
    ("changes", "first"),
    [
        ({}, (-10, -20, 30)),
        ({"coordinateSystem": "RAS"}, (10, 20, 30)),
    ],
)
def test_defined_points_are_read_in_their_coordinate_system(tmp_path, changes, first):
    path = tmp_path / "a.mrk.json"
    path.write_text(markups(**changes))
    read = read_points(path)
    assert read.labels == ("A", "C")
    assert read.descriptions == ("", "seen")
    np.testing.assert_array_equal(read.points_ras[0], first)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "label,r,a,s\nA,1,2,3\n\nB,-4.5,5e1,6\n",
            PointList(("A", "B"), [[1, 2, 3], [-4.5, 50, 6]]),
        ),
        (
            "\ufeffS , A,R,label,description\r\n3,2,1,A,seen\r\n",
            PointList(("A",), [[1, 2, 3]], ("seen",)),
        ),
        (
            "label,l,p,s,defined,selected,visible,locked,description\nA,1,2,3,1,1,1,0,\nB,0,0,0,0,1,1,0,\n",
            PointList(("A",), [[-1, -2, 3]]),
        ),
    ],
    ids=["plain", "spreadsheet", "slicer"],
)
def test_csv(tmp_path, text, expected):
    path = tmp_path / "a.csv"
    path.write_text(text, encoding="utf-8")
    read = read_points(path)
    assert (read.labels, read.descriptions) == (expected.labels, expected.descriptions)
    np.testing.assert_array_equal(read.points_ras, expected.points_ras)


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("missing.csv", None, "no such file"),
        ("a.csv", "", "no column label, r, a, s"),
        (
            "a.csv",
            "label,r,a,s\nA,1,2,3\nB,1,two,3\n",
            "line 3 has no valid numbers in the columns r",
        ),
        ("a.csv", b"label,r,a,s\n\xff\xfe", "is not UTF-8 text; save the points as a UTF-8 .csv"),
        ("a.csv", "label;r;a;s\nA;1,5;2;3\n", "columns are separated by ';'"),
        ("a.mrk.json", markups(coordinateSystem="IJK"), "unknown coordinate system 'IJK'"),
        ("a.mrk.json", markups(coordinateUnits="um"), "has coordinates in 'um'"),
        (
            "a.mrk.json",
            markups(controlPoints=[{"position": [1, 2]}]),
            "control point 1 has no valid position",
        ),
    ],
)
def test_bad_lists_are_refused_in_one_line(tmp_path, name, content, message):
    path = tmp_path / name
    if content is not None:
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(PointsError) as refusal:
        read_points(path)
    assert message in str(refusal.value)
    assert str(path) in str(refusal.value)
    assert "\n" not in str(refusal.value)


def test_parse_point():
    np.testing.assert_array_equal(parse_point(" 12.5, -40,3e2"), (12.5, -40, 300))
    for text in ("", "1,2", "1,2,3,4", "1;2;3", "a,b,c", "1,2,inf"):
        with pytest.raises(PointsError, match="is not a point"):
            parse_point(text)
