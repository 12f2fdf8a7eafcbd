"""Scans of one visit are one time point: thorax and abdomen of a day, or of one study in DICOM."""

import csv
import io
from datetime import date

import pytest
from hypothesis import given
from measured_patient import GONE, OUT, PROPOSED, SEEN, axis, categories, patient
from record_steps import records

from AnatomicalEmbedding.followup.lesions import Guess, Study
from AnatomicalEmbedding.followup.record import Proposal
from AnatomicalEmbedding.followup.response import BASELINE, NOT_EVALUABLE, responses
from AnatomicalEmbedding.followup.status import status_of
from AnatomicalEmbedding.followup.table import SUM_LABEL, write_csv
from AnatomicalEmbedding.followup.timeline import visits_of
from AnatomicalEmbedding.followup.trend_chart import lines_of, trend_svg

SPRING, SUMMER = date(2024, 1, 1), date(2024, 4, 1)
SCANS = (
    Study("t1", "thorax", SPRING), Study("a1", "abdomen", SPRING),
    Study("t2", "thorax", SUMMER), Study("a2", "abdomen", SUMMER),
)  # fmt: skip
NOTE = "thorax and abdomen: one visit, by date or by study in DICOM."


def test_each_scan_of_a_visit_has_the_joint_answer() -> None:
    record = patient((30, OUT, 15, OUT), (OUT, 40, OUT, 20), studies=SCANS)  # 70, then 35: half
    course = responses(record)
    assert [each.study for each in course] == ["t1", "a1", "t2", "a2"]
    assert [each.sum_mm for each in course] == [70, 70, 35, 35]
    assert [each.category for each in course] == [BASELINE, BASELINE, "PR", "PR"]
    assert [each.from_baseline for each in course[2:]] == pytest.approx([-50, -50])
    assert all((each.new, each.missing, each.notes) == ((), (), (NOTE,)) for each in course)


def test_what_is_entered_for_one_scan_is_enough_where_it_shows_the_lesion() -> None:
    record = patient((30, None, 15, PROPOSED), (PROPOSED, 40, GONE, 20), studies=SCANS)
    assert [each.sum_mm for each in responses(record)] == [70, 70, 35, 35]


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


def test_a_proposal_in_a_scan_that_does_not_show_the_place_asks_nothing() -> None:
    elsewhere = {"L1": Proposal((0, 0, 0), Guess("absent", "t1"))}
    record = patient((30, None, GONE, None), studies=SCANS).propose("a2", elsewhere)
    assert categories(record)[2:] == ["CR", "CR"]


def test_a_lesion_is_new_only_where_the_whole_visit_before_did_not_show_it() -> None:
    seen = patient((30, OUT, 30, OUT), (OUT, 12, OUT, 12), studies=SCANS)
    assert all(each.new == () for each in responses(seen))
    new = patient((30, OUT, 30, OUT), (OUT, GONE, OUT, 12), studies=SCANS)
    assert [each.new for each in responses(new)] == [(), (), ("L2",), ("L2",)]
    unseen = patient((30, OUT, 30, OUT), (OUT, None, OUT, 12), studies=SCANS)  # nobody looked at the abdomen
    assert categories(unseen)[2:] == [NOT_EVALUABLE] * 2


def test_visits_go_by_date_or_by_the_study_in_dicom() -> None:
    studies = (
        Study("a", "A", SPRING, "1.2"), Study("b", "B", None, "1.2"), Study("c", "C"), Study("d", "D"),
        Study("e", "E", SUMMER, "1.3"), Study("f", "F", SUMMER, "1.4"),
    )  # fmt: skip
    visits = visits_of(patient((30,), studies=studies))
    assert [[scan.key for scan in scans] for scans in visits.scans] == [["a", "b"], ["c"], ["d"], ["e", "f"]]
    assert [visits.number_of(key) for key in "abcdef"] == [0, 0, 1, 2, 3, 3]
    bridged = (Study("a", "A", SPRING), Study("b", "B", None, "1.2"), Study("c", "C", SPRING, "1.2"))
    assert len(visits_of(patient((30,), studies=bridged)).scans) == 1


@given(records())
def test_a_record_with_one_scan_a_visit_is_itself(record) -> None:
    assert visits_of(record).record is record


# -- where it is shown


def test_words_of_the_table_are_of_the_visit() -> None:
    record = patient((30, 28, GONE, 15), (OUT, 40, OUT, GONE), studies=SCANS)
    words = [[status_of(record, lesion, scan.key) for scan in SCANS] for lesion in ("L1", "L2")]
    assert words == [
        [BASELINE, BASELINE, "not visible", "marked"],  # it is in the abdomen still
        ["outside", BASELINE, "outside", "disappeared"],
    ]


def test_the_csv_has_a_row_of_sums_for_each_scan(tmp_path) -> None:
    write_csv(tmp_path / "t.csv", patient((30, OUT, 15, OUT), studies=SCANS))
    text = (tmp_path / "t.csv").read_text(encoding="utf-8-sig")
    sums = [row for row in csv.DictReader(io.StringIO(text)) if row["lesion"] == SUM_LABEL]
    assert [(row["study"], row["sum_mm"], row["status"]) for row in sums] == [
        ("thorax", "30.0", "baseline"), ("abdomen", "30.0", "baseline"),
        ("thorax", "15.0", "PR"), ("abdomen", "15.0", "PR"),
    ]  # fmt: skip


def test_the_chart_has_no_gap_where_only_the_other_scan_of_a_visit_shows_a_lesion() -> None:
    record = patient((30, OUT, 15, OUT), studies=SCANS)
    lines = {line.name: line.values for line in lines_of(record)}
    assert lines == {"L1": (30, 30, 15, 15), "sum of targets": (30, 30, 15, 15)}
    assert 'stroke-dasharray="2 5"' not in trend_svg(record)


def test_a_lesion_may_be_measured_in_another_scan_of_the_next_visit() -> None:
    record = patient((50, OUT, OUT, 50), studies=SCANS)
    assert categories(record)[2:] == ["SD", "SD"]
    grown = record.measure("L1", "a2", axis(60), None)
    assert categories(grown)[2:] == ["PD", "PD"]
