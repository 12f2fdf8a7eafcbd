"""Test record files: reading returns an equal record, and any other file is refused with its name."""

import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from record_steps import records

from AnatomicalEmbedding.errors import AnatomicalEmbeddingError
from AnatomicalEmbedding.followup.record import FollowUp
from AnatomicalEmbedding.followup.record_file import from_json, read_record, to_json


@settings(max_examples=30)
@given(records())
def test_a_record_comes_back_equal(record: FollowUp) -> None:
    assert from_json(json.loads(json.dumps(to_json(record), allow_nan=False))) == record


def _document(empty: FollowUp) -> dict:
    record = (
        empty.mark("a", (1, 2, 3))
        .mark("a", (4, 5, 6))
        .measure("L1", "a", ((0, 0, 0), (1, 0, 0)), None)
    )
    return json.loads(json.dumps(to_json(record)))


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda d: d.update(format="x"), "not a follow-up record"),
        (lambda d: d.update(version=2), "newer version"),
        (lambda d: d.update(version="1"), "newer version"),
        (lambda d: d.pop("studies"), "list 'studies' is missing"),
        (lambda d: d["studies"][1].update(key="a"), "same key"),
        (lambda d: d["studies"][1].update(date="yesterday"), "study 2"),
        (lambda d: d["studies"].append("x"), "study 4"),
        (lambda d: d["lesions"][1].update(id="L1"), "same id"),
        (lambda d: d["lesions"][1].update(id=""), "lesion 2"),
        (lambda d: d["lesions"][1].update(nodal="yes"), "nodal"),
        (lambda d: d["lesions"][1].pop("tracking_uid"), "tracking_uid"),
        (lambda d: d["lesions"][1].update(split_from="L7"), "L7"),
        (
            lambda d: d["lesions"][1]["findings"]["a"].update(state="seen"),
            "L2 in study 'a'.*'seen'",
        ),
        (
            lambda d: d["lesions"][1]["findings"]["a"].update(point_ras=None),
            "does not fit point_ras = None",
        ),
        (lambda d: d["lesions"][1]["findings"]["a"].update(point_ras=[1, 2]), "L2 in study 'a'"),
        (
            lambda d: d["lesions"][1]["findings"]["a"].update(point_ras=[1, 2, float("nan")]),
            "not a number",
        ),
        (lambda d: d["lesions"][1]["findings"]["a"].update(point_ras=[1, 2, True]), "not a number"),
        (
            lambda d: d["lesions"][1]["findings"]["a"].update(state="not visible"),
            "does not fit point_ras = \\(",
        ),
        (
            lambda d: d["lesions"][1]["findings"]["a"].update(into="L1"),
            "does not fit the entry into = 'L1'",
        ),
        (
            lambda d: d["lesions"][0]["findings"]["a"]["size"].update(long_axis=[[0, 0, 0]]),
            "L1 in study 'a'",
        ),
    ],
)
def test_damaged_records_are_refused_with_the_place_of_the_damage(
    empty: FollowUp, change, says: str
) -> None:
    document = _document(empty)
    change(document)
    with pytest.raises(AnatomicalEmbeddingError, match=says):
        from_json(document)


@pytest.mark.parametrize("text", ["", "{", "[1, 2]", '{"markups": []}', "\x00\xff", "[" * 100_000])
def test_errors_name_the_file(tmp_path: Path, text: str) -> None:
    path = tmp_path / "patient.followup.json"
    path.write_bytes(text.encode("latin-1"))
    with pytest.raises(AnatomicalEmbeddingError, match=r"patient\.followup\.json: "):
        read_record(path)
