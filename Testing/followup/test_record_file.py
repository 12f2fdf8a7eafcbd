"""Records as files: nothing is lost, and a file that is no record is refused by name."""

import json
from pathlib import Path

import pytest
from hypothesis import given
from record_steps import records

from AnatomicalEmbedding.errors import AnatomicalEmbeddingError
from AnatomicalEmbedding.followup.lesions import Guess
from AnatomicalEmbedding.followup.record import FollowUp, Proposal
from AnatomicalEmbedding.followup.record_file import (
    from_json,
    read_record,
    reviewed_only_in,
    to_json,
    tracked_as_in,
    write_record,
)


@given(records())
def test_a_record_comes_back_equal(record: FollowUp) -> None:
    assert from_json(json.loads(json.dumps(to_json(record), allow_nan=False))) == record


def test_files_come_back_equal_and_leave_nothing_else(empty: FollowUp, tmp_path: Path) -> None:
    record = empty.mark("a", (0.1, -2.5, 1e-7)).describe("L1", name="Lymphknoten, groß", site="axilla", nodal=True)
    record = record.not_visible("L1", "b")
    path = tmp_path / "new" / "patient.followup.json"
    write_record(path, record)
    assert read_record(path) == record
    assert [each.name for each in path.parent.iterdir()] == [path.name]


def test_findings_in_a_study_that_is_not_loaded_are_kept(empty: FollowUp) -> None:
    record = empty.mark("b", (1, 2, 3))
    part = record.with_studies(record.studies[:1])
    assert from_json(to_json(part)).with_studies(record.studies) == record


@given(records())
def test_a_record_says_nothing_beyond_itself(record: FollowUp) -> None:
    assert reviewed_only_in(from_json(to_json(record)), record) == []


def test_what_replacing_a_record_would_lose(empty: FollowUp) -> None:
    first = empty.mark("a", (1, 2, 3)).mark("a", (4, 5, 6))
    again = empty.mark("a", (1, 2, 3)).mark("a", (4, 5, 6))  # with other tracking UIDs
    proposed = first.propose("b", {"L1": Proposal((1, 1, 1), Guess("matched", "a"))})
    assert reviewed_only_in(proposed, again) == []
    for said in (
        proposed.confirm("L1", "b"),
        proposed.not_visible("L1", "b"),
        first.move("L1", "a", (1, 2, 4)),
        first.measure("L1", "a", ((0, 0, 0), (1, 0, 0)), None),
        first.describe("L1", site="liver"),
        first.describe("L1", target=False),
    ):
        assert reviewed_only_in(said, again) == ["L1"]
    assert reviewed_only_in(first.mark("c", (7, 8, 9)), again) == ["L3"]
    assert reviewed_only_in(again, first.mark("c", (7, 8, 9)).confirm("L1", "a")) == []


def _document(empty: FollowUp) -> dict:
    record = empty.mark("a", (1, 2, 3)).mark("a", (4, 5, 6)).measure("L1", "a", ((0, 0, 0), (1, 0, 0)), None)
    return json.loads(json.dumps(to_json(record)))


def test_what_a_later_program_adds_is_left_out(empty: FollowUp) -> None:
    document = _document(empty)
    expected = from_json(document)
    document["lesions"][0]["mood"] = document["studies"][0]["scanner"] = document["more"] = 1
    assert from_json(document) == expected


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda d: d.update(format="x"), "not a follow-up"),
        (lambda d: d.update(version=2), "newer version"),
        (lambda d: d.update(version="1"), "newer version"),
        (lambda d: d.pop("studies"), "no list of studies"),
        (lambda d: d["studies"][1].update(key="a"), "same key"),
        (lambda d: d["studies"][1].update(date="yesterday"), "study 2"),
        (lambda d: d["studies"].append("x"), "study 4"),
        (lambda d: d["lesions"][1].update(id="L1"), "same id"),
        (lambda d: d["lesions"][1].update(id=""), "lesion 2"),
        (lambda d: d["lesions"][1].update(nodal="yes"), "nodal"),
        (lambda d: d["lesions"][1].pop("tracking_uid"), "tracking_uid"),
        (lambda d: d["lesions"][1].update(split_from="L7"), "L7"),
        (lambda d: d["lesions"][1]["findings"]["a"].update(state="seen"), "L2 in study 'a'.*'seen'"),
        (lambda d: d["lesions"][1]["findings"]["a"].update(point_ras=None), "without a place"),
        (lambda d: d["lesions"][1]["findings"]["a"].update(point_ras=[1, 2]), "L2 in study 'a'"),
        (lambda d: d["lesions"][1]["findings"]["a"].update(point_ras=[1, 2, float("nan")]), "no number"),
        (lambda d: d["lesions"][1]["findings"]["a"].update(point_ras=[1, 2, True]), "no number"),
        (lambda d: d["lesions"][1]["findings"]["a"].update(state="not visible"), "has a place"),
        (lambda d: d["lesions"][1]["findings"]["a"].update(into="L1"), "gone into L1"),
        (lambda d: d["lesions"][0]["findings"]["a"]["size"].update(long_axis=[[0, 0, 0]]), "L1 in study 'a'"),
        (lambda d: d["lesions"][0]["findings"]["a"]["size"].update(volume_ml="3"), "no number"),
    ],
)
def test_damaged_records_are_refused_with_the_place_of_the_damage(empty: FollowUp, change, says: str) -> None:
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


def test_a_missing_file_and_a_folder_that_is_none(empty: FollowUp, tmp_path: Path) -> None:
    with pytest.raises(AnatomicalEmbeddingError, match="no such file"):
        read_record(tmp_path / "none.followup.json")
    (tmp_path / "file").write_text("x")
    with pytest.raises(AnatomicalEmbeddingError, match="cannot be written"):
        write_record(tmp_path / "file" / "a.followup.json", empty)


def test_lesions_that_are_found_again_keep_their_tracking_uids(empty: FollowUp) -> None:
    def marks() -> FollowUp:
        return empty.mark("a", (1, 2, 3)).mark("a", (4, 5, 6)).describe("L2", name="dome")

    old, new = marks(), marks().mark("a", (7, 8, 9))
    tracked = tracked_as_in(old, new)
    uids = [lesion.tracking_uid for lesion in tracked.lesions]
    assert uids[:2] == [lesion.tracking_uid for lesion in old.lesions]
    assert uids[2] == new.lesions[2].tracking_uid
    assert tracked_as_in(old, empty.mark("a", (9, 9, 9))).lesions[0].tracking_uid not in uids
