"""Two records as one: the same lesion by tracking UID, the same study by key, series or name, nothing lost."""

from dataclasses import replace
from datetime import date

import pytest
from hypothesis import given
from record_steps import STUDIES, records

from AnatomicalEmbedding.followup.lesions import Guess, Study
from AnatomicalEmbedding.followup.merge_records import joined, same_studies, taken_in
from AnatomicalEmbedding.followup.record import FollowUp, Proposal

LATER = Study("d", "scan d", date(2025, 1, 1))


def by_uid(record: FollowUp) -> dict[str, dict]:
    return {lesion.tracking_uid: dict(lesion.findings) for lesion in record.lesions}


@pytest.fixture
def one(empty: FollowUp) -> FollowUp:
    return empty.mark("a", (1, 1, 1)).mark("a", (2, 2, 2)).describe("L1", name="dome", site="liver")


@given(records())
def test_a_record_joined_to_itself_or_to_nothing_is_itself(record):
    assert joined(record, record) == record
    assert joined(FollowUp(), record) == replace(record, studies=tuple(sorted(record.studies, key=lambda s: s.date)))
    assert joined(record, FollowUp()) == record


@given(records(), records())
def test_no_lesion_and_no_study_is_lost(one, other):
    both = joined(one, other)
    assert {lesion.tracking_uid for lesion in both.lesions} == set(by_uid(one)) | set(by_uid(other))
    assert len({lesion.id for lesion in both.lesions}) == len(both.lesions)
    assert {s.key for s in both.studies} == {s.key for s in one.studies} | {s.key for s in other.studies}
    assert [lesion.id for lesion in both.lesions][: len(one.lesions)] == [lesion.id for lesion in one.lesions]


def test_another_lesion_of_the_same_number_gets_a_free_one_and_what_points_to_it_follows(one):
    other = FollowUp().with_studies([LATER]).mark("d", (5, 5, 5)).mark("d", (6, 6, 6)).mark("d", (7, 7, 7))
    other = other.merge("L2", "d", into="L1").describe("L3", split_from="L2")
    both = joined(one, other)
    new = {lesion.tracking_uid: lesion.id for lesion in both.lesions}
    first, second, third = (new[lesion.tracking_uid] for lesion in other.lesions)
    assert {first, second, third}.isdisjoint({"L1", "L2"})
    assert both.finding(second, "d").into == first
    assert both.lesion(third).split_from == second


def test_the_same_lesion_has_the_findings_of_both(one):
    later = replace(one.lesions[0], id="X", findings={}, name="", site="")
    other = FollowUp((LATER,), (later,)).mark("d", (5, 5, 5), "X")
    both = joined(one, other)
    assert set(both.lesion("L1").findings) == {"a", "d"}
    assert (both.lesion("L1").name, both.lesion("L1").site) == ("dome", "liver")
    assert [study.key for study in both.studies] == ["a", "b", "c", "d"]


def test_the_same_series_is_the_same_study_whatever_its_key(one):
    one = one.with_studies([replace(STUDIES[0], series_uid="1.2.3"), *STUDIES[1:]])
    study = Study("1.2.3", "scan", STUDIES[0].date, series_uid="1.2.3")
    other = FollowUp((study,), (replace(one.lesions[0], findings={}),)).mark("1.2.3", (8, 8, 8), "L1")
    both = joined(one, other)
    assert both.studies == one.studies
    assert both.finding("L1", "a").point_ras == (8, 8, 8)


def test_a_guess_that_comes_along_names_the_study_here(one):
    """Else the proposal would be taken for one without ground, and its tip would not say where it came from."""
    one = one.with_studies([replace(study, series_uid=f"1.{n}") for n, study in enumerate(STUDIES)])
    other = FollowUp().with_studies([replace(study, key=f"their {study.key}") for study in one.studies])
    other = other.mark("their a", (5, 5, 5)).propose(
        "their b", {"L1": Proposal((6, 6, 6), Guess("matched", "their a"))}
    )
    other = other.propose("their c", {"L1": Proposal((7, 7, 7), Guess("matched", "gone"))})
    both = joined(one, other)
    found = both.lesions[-1].findings
    assert {key: each.guess and each.guess.source for key, each in found.items()} == {"a": None, "b": "a", "c": "gone"}


def test_a_date_that_is_not_known_here_comes_along(one):
    one = one.with_studies([replace(STUDIES[0], date=None), *STUDIES[1:]])
    other = FollowUp().with_studies([replace(STUDIES[0], date=date(2024, 2, 29)), replace(STUDIES[1], date=None)])
    assert [study.date for study in joined(one, other).studies] == [date(2024, 2, 29), *(s.date for s in STUDIES[1:])]


HERE = (Study("k1", "prior"), Study("k2", "renamed", series_uid="1.2"), Study("k3", "else", date(2024, 5, 1)))
THERE = Study("x", "prior", date(2024, 1, 1))


@pytest.mark.parametrize(
    ("here", "there", "same"),
    [
        (HERE, (THERE, Study("y", "now", series_uid="1.2")), {"x": "k1", "y": "k2"}),
        (HERE, (Study("k3", "prior"), Study("y", "no name", series_uid="9.9")), {"k3": "k3"}),
        (HERE, (replace(THERE, series_uid="9.9"),), {}),
        ((replace(HERE[0], series_uid="9.9"), *HERE[1:]), (THERE,), {}),
        ((*HERE, Study("k4", "prior")), (THERE,), {}),
        ((*HERE, Study("k4", "prior", date(2024, 1, 2))), (THERE,), {"x": "k1"}),
        (HERE, (THERE, Study("y", "prior")), {}),
        (HERE, (Study("x", "else", date(2024, 6, 1)),), {}),
        ((replace(HERE[0], study_uid="2.1"),), (replace(THERE, study_uid="2.2"),), {}),
        (HERE, (Study("k2", "now"), Study("y", "now", series_uid="1.2")), {"k2": "k2"}),
    ],
    ids=[
        "by name and by series", "by key before name", "a series that is not here", "here a series",
        "two here of a name", "the date tells two apart", "two there of a name", "another day", "another DICOM study",
        "one series twice",
    ],
)  # fmt: skip
def test_studies_are_the_same_by_key_or_series_or_else_by_a_name_without_doubt(here, there, same):
    one, other = FollowUp().with_studies(here), FollowUp().with_studies(there)
    assert same_studies(one, other) == same
    both = joined(one, other.mark(there[0].key, (1, 2, 3)))
    assert {study.key for study in both.studies} == {s.key for s in here} | {same.get(s.key, s.key) for s in there}
    assert both.finding("L1", same.get(there[0].key, there[0].key)).point_ras == (1, 2, 3)


def test_a_proposal_replaces_no_word_of_a_person(one):
    proposal = {"L1": Proposal((9, 9, 9), Guess("matched", "a"))}
    other = replace(one, lesions=tuple(replace(lesion, findings={}) for lesion in one.lesions)).propose("a", proposal)
    assert joined(one, other).finding("L1", "a") == one.finding("L1", "a")
    assert joined(other, one).finding("L1", "a") == one.finding("L1", "a")


def test_studies_without_a_date_stay_in_the_order_they_came_in(one):
    other = FollowUp().with_studies([Study("x", "undated")])
    assert [study.key for study in joined(one, other).studies] == ["a", "b", "c", "x"]


@pytest.mark.parametrize("join", [joined, lambda one, other: taken_in(one, other).record])
def test_a_study_without_a_date_does_not_put_the_others_out_of_order(join) -> None:
    here = FollowUp().with_studies(
        [Study("a", "a", date(2024, 1, 1)), Study("b", "b", date(2024, 7, 1)), Study("u", "u")]
    )
    there = FollowUp().with_studies([Study("e", "e", date(2023, 1, 1)), Study("a", "a", date(2024, 1, 1))])
    assert [study.key for study in join(here, there).studies] == ["e", "a", "b", "u"]


def test_the_second_file_of_a_name_is_the_second_file_in_slicer() -> None:
    days = date(2024, 1, 1), date(2024, 7, 1)
    command = [Study(f"{n:040x}", name, day) for n, (name, day) in enumerate(zip(("ct", "ct_2"), days, strict=True))]
    slicers = [Study(key, name, day) for key, name, day in zip("xy", ("ct", "ct_1"), days, strict=True)]
    records = [FollowUp().with_studies(studies) for studies in (command, slicers)]
    assert same_studies(*records) == {"x": command[0].key, "y": command[1].key}
    assert same_studies(*records[::-1]) == {command[0].key: "x", command[1].key: "y"}


def test_numbers_that_belong_to_names_tell_scans_apart() -> None:
    one, other = (FollowUp().with_studies([Study(key, name, date(2024, 1, 1))]) for key, name in ("xs", "yt"))
    assert same_studies(one, other) == {}
    one, other = (FollowUp().with_studies([Study(key, key, date(2024, 1, 1))]) for key in ("scan_1", "scan_2"))
    assert same_studies(one, other) == {}
