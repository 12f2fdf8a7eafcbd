"""RECIST 1.1 worked by hand; section numbers are those of Eisenhauer et al. 2009."""

from datetime import date

import pytest

from AnatomicalEmbedding.followup.lesions import Guess, Measurement, Study
from AnatomicalEmbedding.followup.record import FollowUp, Proposal
from AnatomicalEmbedding.followup.response import BASELINE, NOT_EVALUABLE, Response, responses

GONE, OUT = "gone", "out"


def _axis(length: float) -> tuple:
    return (0.0, 0.0, 0.0), (length, 0.0, 0.0)


def _say(record: FollowUp, lesion_id: str, study: str, what: float | str | None) -> FollowUp:
    if what is None:
        return record
    if what == GONE:
        return record.not_visible(lesion_id, study)
    if what == OUT:
        return record.outside(lesion_id, study)
    record = record.mark(study, (0, 0, 0), lesion_id)
    return record.measure(lesion_id, study, _axis(what), _axis(what / 2))


def _patient(*lesions: tuple[float | str | None, ...], **described: dict) -> FollowUp:
    """A lesion a row, a study a column: mm of the long axis (the short one is half of it), GONE, OUT or not said."""
    studies = [Study("abcdef"[n], f"scan {n}", date(2024, 1 + 2 * n, 1)) for n in range(max(map(len, lesions)))]
    record = FollowUp().with_studies(studies)
    for row in lesions:
        first = next(n for n, what in enumerate(row) if isinstance(what, int | float))
        record = record.mark("abcdef"[first], (0, 0, 0))
        for n, what in enumerate(row):
            record = _say(record, record.lesions[-1].id, "abcdef"[n], what)
    for lesion_id, changes in described.items():
        record = record.describe(lesion_id, **changes)
    return record


def _categories(record: FollowUp) -> list[str]:
    return [each.category for each in responses(record)]


def _last(record: FollowUp) -> Response:
    return responses(record)[-1]


def test_sums_percent_and_nadir_over_a_course() -> None:
    # 50+30, 30+25, 20+20, 24+24, 25+25: sums 80, 55, 40, 48, 50
    course = responses(_patient((50, 30, 20, 24, 25), (30, 25, 20, 24, 25)))
    assert [each.sum_mm for each in course] == [80, 55, 40, 48, 50]
    assert [each.nadir_mm for each in course] == [None, 80, 55, 40, 40]
    assert [each.from_baseline for each in course[1:]] == pytest.approx([-31.25, -50, -40, -37.5])
    assert [each.from_nadir for each in course[1:]] == pytest.approx([-31.25, -100 * 15 / 55, 20, 25])
    # 48 is 20 % and 8 mm over the nadir of 40: progress, though 40 % below the baseline
    assert [each.category for each in course] == [BASELINE, "PR", "PR", "PD", "PD"]


@pytest.mark.parametrize(
    ("baseline", "now", "category"),
    [
        (100, 70.0, "PR"),  # exactly 30 % less
        (100, 70.1, "SD"),
        (100, 119.9, "SD"),
        (100, 120.0, "PD"),  # exactly 20 % more
        (20, 24.9, "SD"),  # 24.5 % more and less than 5 mm more
        (20, 25.0, "PD"),
        (15.5, 20.5, "PD"),  # 5 mm and 32 %
        (60, 66.0, "SD"),  # 6 mm and 10 %
    ],
)
def test_limits_of_the_categories(baseline: float, now: float, category: str) -> None:
    assert _categories(_patient((baseline, now))) == [BASELINE, category]


def test_nodes_count_by_their_short_axis_and_are_normal_below_10_mm() -> None:  # 4.3.1, 4.3.2
    node = {"nodal": True}
    record = _patient((40, 18), (30, GONE), L1=node)  # short axis 20, then 9
    assert [each.sum_mm for each in responses(record)] == [50, 9]
    assert _last(record).category == "CR"
    record = _patient((40, 20), (30, GONE), L1=node)  # 10 mm is not normal
    assert _last(record).category == "PR"


def test_all_targets_gone_is_a_complete_response_unless_others_are_left() -> None:  # table 1
    assert _last(_patient((30, GONE), (20, GONE))).category == "CR"
    other = {"target": False}
    assert _last(_patient((30, GONE), (20, GONE), L2=other)).category == "CR"
    for left in (12, None, OUT):
        last = _last(_patient((30, GONE), (20, left), L2=other))
        assert last.category == "PR"
        assert "L2: is no target" in last.notes[0]
    small_node = _patient((30, GONE), (30, 18), L2={"target": False, "nodal": True})
    assert _last(small_node).category == "CR"


def test_what_comes_back_after_a_complete_response_is_progress() -> None:  # 4.3.2 and 4.4.1
    assert _categories(_patient((30, GONE, 4))) == [BASELINE, "CR", "PD"]
    # from a partial response it only adds to the sum
    assert _categories(_patient((30, GONE, 4), (50, 50, 50))) == [BASELINE, "PR", "PR"]


def test_a_new_lesion_is_progress_once_somebody_has_looked_back() -> None:  # 4.3.5
    record = _patient((50, 20), (None, 12))
    asked = _last(record)
    assert asked.category == NOT_EVALUABLE
    assert asked.sum_mm == 20
    assert asked.missing == ("L2: new? Look at the place in 2024-01-01, and say whether it is there.",)
    looked = _last(record.not_visible("L2", "a"))
    assert (looked.category, looked.new, looked.sum_mm, looked.missing) == ("PD", ("L2",), 20, ())
    unseen = _last(record.outside("L2", "a"))
    assert unseen.category == "PD"
    assert "counts it as new" in unseen.notes[0]
    both = record.mark("a", (0, 0, 0), "L2").measure("L2", "a", _axis(12), None)  # 62, then 32 mm
    assert (_last(both).category, _last(both).new) == ("PR", ())


def test_a_new_lesion_that_is_no_target_counts_too() -> None:
    record = _patient((50, 20), (GONE, 12), L2={"target": False})
    assert _last(record).category == "PD"


def test_a_node_of_normal_size_is_not_new() -> None:
    record = _patient((50, 20), (GONE, 18), L2={"nodal": True})  # short axis 9
    assert _last(record).category == "PR"


def test_proposals_and_carried_over_axes_count_for_nothing() -> None:
    record = _patient((50, None), (30, 20))
    assert _last(record).missing == ("L1: nothing is known in 2024-03-01; find or mark it there.",)
    carried = Proposal((0, 0, 0), Guess("matched", "a", 2.0, 0.99), Measurement(_axis(10), _axis(5), confirmed=True))
    record = record.propose("b", {"L1": carried})
    last = _last(record)
    assert (last.sum_mm, last.from_baseline, last.category) == (None, None, NOT_EVALUABLE)
    assert "only proposed" in last.missing[0]
    record = record.confirm("L1", "b")
    assert _last(record).category == NOT_EVALUABLE
    assert "carried over" in _last(record).missing[0]
    last = _last(record.accept_size("L1", "b"))
    assert (last.sum_mm, last.category) == (30, "PR")


def test_what_cannot_be_measured_is_named() -> None:
    assert _last(_patient((50, OUT), (30, 20))).missing == ("L1: not in the scan of 2024-03-01.",)
    node = _patient((50, 20)).describe("L1", nodal=True).measure("L1", "b", _axis(20), None)
    assert _last(node).missing == ("L1: not measured in 2024-03-01; draw the short axis.",)


def test_lesions_with_the_same_gap_share_a_sentence() -> None:
    missing = _last(_patient((50, None), (30, OUT), (20, None))).missing
    assert missing == (
        "L1, L3: nothing is known in 2024-03-01; find or mark it there.",
        "L2: not in the scan of 2024-03-01.",
    )


def test_progress_is_certain_when_the_measured_targets_alone_have_grown_enough() -> None:  # 4.4.3
    last = _last(_patient((50, 100), (30, None)))
    assert (last.category, last.sum_mm) == ("PD", None)
    assert last.missing
    assert "grown enough" in last.notes[0]
    assert _last(_patient((50, 90), (30, None))).category == NOT_EVALUABLE  # 90 < 1.2 x 80


def test_the_nadir_skips_studies_without_a_sum() -> None:
    course = responses(_patient((50, 40, 20, 24), (30, 30, None, 30)))
    assert [each.sum_mm for each in course] == [80, 70, None, 54]
    assert course[3].nadir_mm == 70


def test_merged_lesions_count_once_with_the_one_that_they_went_into() -> None:  # appendix II
    record = _patient((30, 50), (25, None)).merge("L2", "b", into="L1")
    last = _last(record)
    assert (last.sum_mm, last.category) == (50, "SD")
    # the union counts though it is measured in a lesion that was no target itself
    record = _patient((30, 50), (25, None), L1={"target": False}).merge("L2", "b", into="L1")
    assert [each.sum_mm for each in responses(record)] == [25, 50]


def test_parts_of_a_target_are_added() -> None:  # appendix II
    record = _patient((60, 30, 30), (None, 20, 12), (None, None, 9), L2={"split_from": "L1"}, L3={"split_from": "L2"})
    course = responses(record)
    assert [each.sum_mm for each in course] == [60, 50, 51]
    assert [each.category for each in course] == [BASELINE, "SD", "SD"]
    assert course[1].new == ()


def test_baseline_is_the_first_study_with_every_known_target_measured() -> None:
    record = _patient((40, 40, 20), (30, 30, 20))
    record = record.mark("a", (0, 0, 0), "L2").forget("L2", "a").mark("a", (1, 1, 1), "L2")
    course = responses(record)
    assert [each.category for each in course] == [NOT_EVALUABLE, BASELINE, "PR"]
    assert course[0].missing == ("L2: not measured in 2024-01-01; draw the long axis.",)
    assert course[2].from_baseline == pytest.approx(-100 * 30 / 70)


def test_without_targets_nothing_is_judged() -> None:
    record = _patient((40, 20), L1={"target": False})
    assert _categories(record) == [NOT_EVALUABLE, NOT_EVALUABLE]
    assert "no target lesion" in responses(record)[0].missing[0]


def test_notes_on_the_choice_of_targets() -> None:
    sites = {f"L{n}": {"site": site} for n, site in enumerate(("Liver", "liver ", "liver", "", "", "lung"), start=1)}
    sites["L6"]["nodal"] = True
    notes = responses(_patient((30,), (9,), (30,), (30,), (30,), (28,), **sites))[0].notes
    assert notes == (
        "6 targets; RECIST 1.1 takes 5 at most.",
        "3 targets in liver; RECIST 1.1 takes 2 of an organ at most.",
        "L2: its long axis is 9.0 mm at baseline; RECIST 1.1 asks for 10 of a target.",
        "L6: its short axis is 14.0 mm at baseline; RECIST 1.1 asks for 15 of a target.",
    )
