"""Test which study is the baseline (RECIST 1.1, sections 3.2 and 4.3), also in the table and the statuses."""

from measured_patient import GONE, PROPOSED, SEEN, axis, categories, last, patient

from AnatomicalEmbedding.followup.lesions import MARKED
from AnatomicalEmbedding.followup.record import FollowUp
from AnatomicalEmbedding.followup.response import BASELINE, NOT_EVALUABLE, responses
from AnatomicalEmbedding.followup.status import MAYBE_NEW, NEW, status_of

AXIS_IN_A = "L1: not measured in 2024-01-01; draw the long axis."


def words(record: FollowUp) -> list[list[str]]:
    return [
        [status_of(record, lesion.id, study.key) for study in record.studies]
        for lesion in record.lesions
    ]


def test_a_new_lesion_makes_no_baseline() -> None:
    other = {"target": False}
    record = patient((20, GONE), (GONE, 12), L1=other)  # table 2: no targets, a new lesion
    assert categories(record) == [NOT_EVALUABLE, "PD"]
    assert last(record).new == ("L2",)
    assert "no target lesion is marked in 2024-01-01" in last(record).missing[0]
    asked = patient((20, GONE), (None, 12), L1=other)
    assert categories(asked) == [NOT_EVALUABLE, NOT_EVALUABLE]
    assert (
        "L2: is this lesion new? Look at its place in 2024-01-01, and enter whether the lesion is there."
        in last(asked).missing
    )


def test_where_a_target_was_not_measured_the_baseline_moves_and_says_why() -> None:
    record = patient((SEEN, 10, 10), (40, 20, 10))
    course = responses(record)
    assert [each.category for each in course] == [NOT_EVALUABLE, BASELINE, "PR"]  # 30, then 20
    assert [each.sum_mm for each in course] == [None, 30, 20]
    assert course[1].notes == (
        "this is the baseline, because not all targets were measured in 2024-01-01.",
        AXIS_IN_A,
    )
    measured = responses(record.measure("L1", "a", axis(20), None))  # 60, 30, 20
    assert [each.category for each in measured] == [BASELINE, "PR", "PR"]
    assert measured[0].notes == ()


# -- one truth: the words in the table


def test_baseline_is_where_the_response_has_it() -> None:
    assert words(patient((SEEN, 10), (40, 20))) == [[MARKED, BASELINE]] * 2
    assert words(patient((PROPOSED, 10, 5))) == [["proposed", BASELINE, MARKED]]
    assert words(patient((SEEN, SEEN))) == [[BASELINE, MARKED]], (
        "as long as there is none, the first looked at"
    )


def test_new_is_what_the_response_calls_new() -> None:
    record = patient((20, 20, 20), (None, 12, 12))
    assert words(record)[1] == ["", MAYBE_NEW, MARKED]
    assert words(record.not_visible("L2", "a"))[1] == ["not visible", NEW, MARKED]
    node = record.describe("L2", nodal=True).not_visible("L2", "a")  # short axis 6: normal
    assert words(node)[1][1:] == [MARKED, MARKED]
    unmeasured = patient((20, 20), (GONE, SEEN), L2={"nodal": True})
    assert words(unmeasured)[1] == ["not visible", MAYBE_NEW]
