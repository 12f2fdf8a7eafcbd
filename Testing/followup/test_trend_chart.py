"""The chart: values, dates and the sum are where they belong, and it is a picture that any program can read."""

import xml.etree.ElementTree as ET
from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from record_steps import STUDIES, records

from AnatomicalEmbedding.followup.lesions import Guess, Measurement
from AnatomicalEmbedding.followup.record import FollowUp, Proposal
from AnatomicalEmbedding.followup.trend_chart import lines_of, spread, study_positions, trend_svg

SVG = "{http://www.w3.org/2000/svg}"


def axis(mm: float):
    return (0, 0, 0), (mm, 0, 0)


@pytest.fixture
def record(empty: FollowUp) -> FollowUp:
    """L1 30, then nothing confirmed, then 15 mm; L2, a node, 20 x 16 mm, then gone, then proposed only."""
    record = empty.mark("a", (0, 0, 0)).measure("L1", "a", axis(30), axis(20))
    record = record.mark("c", (0, 0, 0), "L1").measure("L1", "c", axis(15), axis(9))
    record = record.mark("a", (9, 9, 9)).describe("L2", nodal=True).measure("L2", "a", axis(20), axis(16))
    proposal = Proposal((9, 9, 9), Guess("matched", "a"), Measurement(axis(20), axis(16)))
    record = record.propose("b", {"L2": proposal}).not_visible("L2", "b")
    return record.propose("c", {"L2": proposal})


def circles(svg: str) -> dict[str, tuple[float, float]]:
    """What is said of each mark -> its place."""
    return {
        circle.find(f"{SVG}title").text: (float(circle.get("cx")), float(circle.get("cy")))
        for circle in ET.fromstring(svg).iter(f"{SVG}circle")
    }


def test_lines_hold_confirmed_diameters_only(record):
    values = {line.name: line.values for line in lines_of(record)}
    assert values == {"L1": (30.0, None, 15.0), "L2": (16.0, 0.0, None), "sum of targets": (46.0, None, None)}


def test_marks_are_at_their_dates_and_to_scale(record):
    found = circles(trend_svg(record))
    assert set(found) == {
        "L1, 2024-01-05: 30.0 mm", "L1, 2024-05-04: 15.0 mm", "L2, 2024-01-05: 16.0 mm", "L2, 2024-03-05: 0.0 mm",
        "sum of targets, 2024-01-05: 46.0 mm",
    }  # fmt: skip
    (x1, y30), (x3, y15) = found["L1, 2024-01-05: 30.0 mm"], found["L1, 2024-05-04: 15.0 mm"]
    x2, y0 = found["L2, 2024-03-05: 0.0 mm"]
    assert (x2 - x1) / (x3 - x1) == pytest.approx(60 / 120, abs=0.001)  # days
    assert (y0 - y30) / (y0 - y15) == pytest.approx(30 / 15, rel=0.01)


def test_a_line_is_dotted_where_a_study_between_is_unknown(record):
    paths = [path for path in ET.fromstring(trend_svg(record)).iter(f"{SVG}path") if path.get("stroke-width")]
    paths = [path for path in paths if path.get("class") != "leader"]
    dashes = {path.get("stroke"): path.get("stroke-dasharray") for path in paths}
    one, two = (line.colour for line in lines_of(record)[:2])
    assert dashes == {one: "2 5", two: None}


def test_studies_stand_by_date_or_evenly():
    assert study_positions(STUDIES) == [0.0, 0.5, 1.0]
    late = (*STUDIES[:2], replace(STUDIES[2], date=STUDIES[1].date.replace(year=2025)))
    assert study_positions(late)[1] < 0.2
    assert study_positions((*STUDIES[:2], replace(STUDIES[2], date=None))) == [0.0, 0.5, 1.0]
    assert study_positions(STUDIES[:1]) == [0.5]


def test_there_is_no_chart_of_nothing(empty):
    assert trend_svg(empty) == ""
    assert trend_svg(empty.mark("a", (0, 0, 0))) == ""


def test_names_are_escaped(record):
    svg = trend_svg(record.describe("L1", name='<b>&"'))
    assert "<b>" not in svg
    assert 'L1 <b>&"' in [text.text for text in ET.fromstring(svg).iter(f"{SVG}text")]


def test_names_stand_at_their_last_marks_and_nothing_leads_across_studies(record):
    crowded = record
    for number in range(3):  # as large as L1 at baseline, and never measured again
        lesion = f"L{number + 3}"
        crowded = crowded.mark("a", (number, 0, 0)).measure(lesion, "a", axis(30), None)
    svg = ET.fromstring(trend_svg(crowded))
    marks = circles(trend_svg(crowded))
    texts = {text.text: (float(text.get("x")), float(text.get("y"))) for text in svg.iter(f"{SVG}text")}
    for name, day in (("L1", "2024-05-04: 15.0 mm"), ("L2", "2024-03-05: 0.0 mm"), ("L4", "2024-01-05: 30.0 mm")):
        assert 0 < texts[name][0] - marks[f"{name}, {day}"][0] < 15
    heights = sorted(texts[name][1] for name in ("L3", "L4", "L5"))
    assert all(b - a >= 15 - 0.11 for a, b in pairwise(heights)), "they make room for each other"
    leaders = [path.get("d") for path in svg.iter(f"{SVG}path") if path.get("class") == "leader"]
    assert leaders
    for each in leaders:
        x1, x2 = (float(end.split()[0]) for end in each[1:].split("L"))
        assert 0 < x2 - x1 < 15


@given(records())
def test_any_chart_can_be_read(record):
    svg = trend_svg(record)
    if svg:
        ET.fromstring(svg)
        assert "nan" not in svg


@given(st.lists(st.floats(30, 300), min_size=1, max_size=40).map(sorted))
def test_names_keep_apart_and_within_the_chart(wanted):
    places = spread(wanted, 15, 30, 300)
    gap = min(15, 270 / max(len(wanted) - 1, 1))
    assert all(30 - 1e-6 <= place <= 300 + 1e-6 for place in places)
    assert all(b - a >= gap - 1e-6 for a, b in pairwise(places))


def test_names_with_room_stay_where_they_are():
    assert spread([40, 80, 200], 15, 30, 300) == [40, 80, 200]
