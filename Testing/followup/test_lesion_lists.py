"""Test lists of marked lesions: known lesions are recognised, and entries of a person are never replaced."""

import pytest

from AnatomicalEmbedding.followup.lesion_lists import MarkedLesion, is_automatic, mark_lesions
from AnatomicalEmbedding.followup.lesions import NOT_VISIBLE
from AnatomicalEmbedding.followup.record import FollowUp

FIRST = (0.0, 0.0, 0.0)
FAR = (200.0, 100.0, 300.0)


def in_list(*lesions) -> list[MarkedLesion]:
    return [MarkedLesion(name, place) for name, place in lesions]


def marked(record: FollowUp, study: str, marks: list[MarkedLesion]) -> FollowUp:
    return mark_lesions(record, study, marks)[0]


def places(record: FollowUp, study: str) -> dict[str, tuple]:
    return {
        lesion.label: lesion.findings[study].point_ras
        for lesion in record.lesions
        if study in lesion.findings
    }


@pytest.mark.parametrize(
    "name", ["F-1", "1", "L1", "L", "F_1-1", "PointList-1", "Lesions-3", "Line_2", "R2", "p-4"]
)
def test_a_name_that_programs_give_is_another_lesion_in_another_scan(
    empty: FollowUp, name: str
) -> None:
    record = marked(empty, "a", in_list((name, FIRST))).not_visible("L1", "b")
    done, _done_notes = mark_lesions(record, "b", in_list((name, FAR)))
    assert done.finding("L1", "b").state == NOT_VISIBLE
    assert done.finding("L2", "b").point_ras == FAR


@pytest.mark.parametrize(
    "name", ["liver", "segment 8", "S6", "Lesion 1", "node", "LN", "Läsion", "F2a"]
)
def test_a_name_that_a_person_gives_is_the_same_lesion_in_another_scan(
    empty: FollowUp, name: str
) -> None:
    assert not is_automatic(name)
    done, done_notes = mark_lesions(
        marked(empty, "a", in_list((name, FIRST))), "b", in_list((name, FAR))
    )
    assert (len(done.lesions), done_notes) == (1, [])
    assert done.finding("L1", "b").point_ras == FAR


@pytest.mark.parametrize("gone", ["not visible", "outside", "merged"])
def test_what_a_person_has_entered_stays(empty: FollowUp, gone: str) -> None:
    record = marked(empty, "a", in_list(("liver", FIRST), ("lung", FAR)))
    steps = {
        "not visible": lambda: record.not_visible("L1", "b"),
        "outside": lambda: record.outside("L1", "b"),
        "merged": lambda: record.mark("b", FAR, "L2").merge("L1", "b", "L2"),
    }
    said = steps[gone]()
    done, done_notes = mark_lesions(said, "b", in_list(("liver", (9.0, 9.0, 9.0))))
    assert done == said
    assert done_notes == [
        f"L1 liver: was reviewed as {gone} in 2024-03-05; the place in the list was not used."
    ]


@pytest.mark.parametrize("names", [("F-1", "F-2"), ("liver", "lung")])
def test_a_list_given_again_leaves_what_was_moved(empty: FollowUp, names: tuple[str, str]) -> None:
    marks = in_list((names[0], FIRST), (names[1], FAR))
    moved = marked(empty, "a", marks).move("L1", "a", (3.0, 0.0, 0.0))
    done, done_notes = mark_lesions(moved, "a", marks)
    assert done == moved
    assert done_notes == [
        f"L1 {names[0]}: is already marked in 2024-01-05, 3 mm from its place in the list; the mark was not moved."
    ]


def test_a_line_of_what_is_marked_already_is_its_axis(empty: FollowUp) -> None:
    line = (-10.0, 0.0, 0.0), (10.0, 0.0, 0.0)
    points = in_list(("dome", FIRST))
    lines = [MarkedLesion("dome", FIRST, line)]
    for record, marks in ((marked(empty, "a", points), lines), (empty, [*points, *lines])):
        done, done_notes = mark_lesions(record, "a", marks)
        assert (len(done.lesions), done_notes) == (1, [])
        assert done.finding("L1", "a").size.long_axis == line
    again, again_notes = mark_lesions(done, "a", lines)
    assert (again, again_notes) == (done, [])
    other, other_notes = mark_lesions(
        done, "a", [MarkedLesion("dome", FIRST, (line[0], (12.0, 0.0, 0.0)))]
    )
    assert (other, other_notes) == (done, [])
