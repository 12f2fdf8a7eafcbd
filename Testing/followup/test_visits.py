"""Test visits: scans of one day, or of one DICOM study, have one response together."""

from datetime import date

import pytest
from measured_patient import GONE, OUT, PROPOSED, SEEN, categories, patient

from AnatomicalEmbedding.followup.lesions import Study
from AnatomicalEmbedding.followup.response import BASELINE, NOT_EVALUABLE, responses
from AnatomicalEmbedding.followup.timeline import timeline_of

SPRING, SUMMER = date(2024, 1, 1), date(2024, 4, 1)
SCANS = (
    Study("t1", "thorax", SPRING), Study("a1", "abdomen", SPRING),
    Study("t2", "thorax", SUMMER), Study("a2", "abdomen", SUMMER),
)  # fmt: skip
NOTE = "thorax and abdomen: have the same date or DICOM study, so they count as one visit."


def test_each_scan_of_a_visit_has_the_joint_answer() -> None:
    record = patient((30, OUT, 15, OUT), (OUT, 40, OUT, 20), studies=SCANS)  # 70, then 35: half
    course = responses(record)
    assert [each.study for each in course] == ["t1", "a1", "t2", "a2"]
    assert [each.sum_mm for each in course] == [70, 70, 35, 35]
    assert [each.category for each in course] == [BASELINE, BASELINE, "PR", "PR"]
    assert [each.from_baseline for each in course[2:]] == pytest.approx([-50, -50])
    assert all((each.new, each.missing, each.notes) == ((), (), (NOTE,)) for each in course)


@pytest.mark.parametrize(
    ("thorax", "abdomen", "category"),
    [
        (GONE, GONE, "CR"),
        (GONE, OUT, "CR"),
        (GONE, None, "CR"),
        (GONE, PROPOSED, NOT_EVALUABLE),  # the abdomen may show it still
        (OUT, OUT, NOT_EVALUABLE),
        (OUT, None, NOT_EVALUABLE),
        (GONE, 21, "PR"),
        (SEEN, 21, "PR"),
        (GONE, SEEN, NOT_EVALUABLE),
        (20, 21, "PR"),  # the larger: 21 of 30 is 30 % less
        (20, 21.5, "SD"),
    ],
)
def test_a_lesion_in_two_scans_of_a_visit(thorax, abdomen, category) -> None:
    assert categories(patient((30, None, thorax, abdomen), studies=SCANS))[2:] == [category] * 2


def test_a_lesion_is_new_only_where_the_whole_visit_before_did_not_show_it() -> None:
    seen = patient((30, OUT, 30, OUT), (OUT, 12, OUT, 12), studies=SCANS)
    assert all(each.new == () for each in responses(seen))
    new = patient((30, OUT, 30, OUT), (OUT, GONE, OUT, 12), studies=SCANS)
    assert [each.new for each in responses(new)] == [(), (), ("L2",), ("L2",)]
    # nobody looked at the abdomen
    unseen = patient((30, OUT, 30, OUT), (OUT, None, OUT, 12), studies=SCANS)
    assert categories(unseen)[2:] == [NOT_EVALUABLE] * 2


def test_visits_go_by_date_or_by_the_study_in_dicom() -> None:
    studies = (
        Study("a", "A", SPRING, "1.2"), Study("b", "B", None, "1.2"), Study("c", "C"), Study("d", "D"),
        Study("e", "E", SUMMER, "1.3"), Study("f", "F", SUMMER, "1.4"),
    )  # fmt: skip
    visits = timeline_of(patient((30,), studies=studies))
    assert [[scan.key for scan in scans] for scans in visits.scans] == [
        ["a", "b"],
        ["c"],
        ["d"],
        ["e", "f"],
    ]
    assert [visits.number_of(key) for key in "abcdef"] == [0, 0, 1, 2, 3, 3]
    bridged = (
        Study("a", "A", SPRING),
        Study("b", "B", None, "1.2"),
        Study("c", "C", SPRING, "1.2"),
    )
    assert len(timeline_of(patient((30,), studies=bridged)).scans) == 1
