"""Test the response by RECIST 1.1 on cases computed by hand. Section numbers are of Eisenhauer et al. 2009."""

import pytest
from measured_patient import GONE, OUT, axis, categories, last, patient

from AnatomicalEmbedding.followup.lesions import PROPOSED, Finding, Guess, Measurement
from AnatomicalEmbedding.followup.response import BASELINE, NOT_EVALUABLE, responses


def test_sums_percent_and_nadir_over_a_course() -> None:
    # 50+30, 30+25, 20+20, 24+24, 25+25: sums 80, 55, 40, 48, 50
    course = responses(patient((50, 30, 20, 24, 25), (30, 25, 20, 24, 25)))
    assert [each.sum_mm for each in course] == [80, 55, 40, 48, 50]
    assert [each.nadir_mm for each in course] == [None, 80, 55, 40, 40]
    assert [each.from_baseline for each in course[1:]] == pytest.approx([-31.25, -50, -40, -37.5])
    assert [each.from_nadir for each in course[1:]] == pytest.approx(
        [-31.25, -100 * 15 / 55, 20, 25]
    )
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
    assert categories(patient((baseline, now))) == [BASELINE, category]


def test_nodes_count_by_their_short_axis_and_are_normal_below_10_mm() -> None:  # 4.3.1, 4.3.2
    node = {"nodal": True}
    record = patient((40, 18), (30, GONE), L1=node)  # short axis 20, then 9
    assert [each.sum_mm for each in responses(record)] == [50, 9]
    assert last(record).category == "CR"
    record = patient((40, 20), (30, GONE), L1=node)  # 10 mm is not normal
    assert last(record).category == "PR"


def test_all_targets_gone_is_a_complete_response_unless_others_are_left() -> None:  # table 1
    assert last(patient((30, GONE), (20, GONE))).category == "CR"
    other = {"target": False}
    assert last(patient((30, GONE), (20, GONE), L2=other)).category == "CR"
    for left in (12, None, OUT):
        now = last(patient((30, GONE), (20, left), L2=other))
        assert now.category == "PR"
        assert "L2: may still exist" in now.notes[0]
    small_node = patient((30, GONE), (30, 18), L2={"target": False, "nodal": True})
    assert last(small_node).category == "CR"


def test_what_comes_back_after_a_complete_response_is_progress() -> None:  # 4.3.2 and 4.4.1
    assert categories(patient((30, GONE, 4))) == [BASELINE, "CR", "PD"]
    # from a partial response it only adds to the sum
    assert categories(patient((30, GONE, 4), (50, 50, 50))) == [BASELINE, "PR", "PR"]


def test_a_new_lesion_is_progress_once_somebody_has_looked_back() -> None:  # 4.3.5
    record = patient((50, 20), (None, 12))
    asked = last(record)
    assert asked.category == NOT_EVALUABLE
    assert asked.sum_mm == 20
    assert asked.missing == (
        "L2: is this lesion new? Look at its place in 2024-01-01, and enter whether the lesion is there.",
    )
    looked = last(record.not_visible("L2", "a"))
    assert (looked.category, looked.new, looked.sum_mm, looked.missing) == ("PD", ("L2",), 20, ())
    unseen = last(record.outside("L2", "a"))
    assert unseen.category == "PD"
    assert "counts the lesion as new" in unseen.notes[0]
    both = record.mark("a", (0, 0, 0), "L2").measure("L2", "a", axis(12), None)  # 62, then 32 mm
    assert (last(both).category, last(both).new) == ("PR", ())


def test_proposals_and_carried_over_axes_count_for_nothing() -> None:
    record = patient((50, None), (30, 20))
    assert last(record).missing == (
        "L1: not assessed in 2024-03-01; mark the lesion in this study.",
    )
    carried = Finding(
        PROPOSED,
        (0, 0, 0),
        Guess("matched", "a", 2.0, 0.99),
        Measurement(axis(10), axis(5), confirmed=True),
    )
    record = record.propose("b", {"L1": carried})
    now = last(record)
    assert (now.sum_mm, now.from_baseline, now.category) == (None, None, NOT_EVALUABLE)
    assert "only proposed" in now.missing[0]
    record = record.confirm("L1", "b")
    assert last(record).category == NOT_EVALUABLE
    assert "were copied from another study" in last(record).missing[0]
    now = last(record.accept_size("L1", "b"))
    assert (now.sum_mm, now.category) == (30, "PR")


def test_progress_is_certain_when_the_measured_targets_alone_have_grown_enough() -> None:  # 4.4.3
    now = last(patient((50, 100), (30, None)))
    assert (now.category, now.sum_mm) == ("PD", None)
    assert now.missing
    assert "grown enough" in now.notes[0]
    assert last(patient((50, 90), (30, None))).category == NOT_EVALUABLE  # 90 < 1.2 x 80


def test_merged_lesions_count_once_with_the_one_that_they_went_into() -> None:  # appendix II
    record = patient((30, 50), (25, None)).merge("L2", "b", target_id="L1")
    now = last(record)
    assert (now.sum_mm, now.category) == (50, "SD")
    # the union counts though it is measured in a lesion that was no target itself
    record = patient((30, 50), (25, None), L1={"target": False}).merge("L2", "b", target_id="L1")
    assert [each.sum_mm for each in responses(record)] == [25, 50]


def test_parts_of_a_target_are_added() -> None:  # appendix II
    record = patient(
        (60, 30, 30),
        (None, 20, 12),
        (None, None, 9),
        L2={"split_from": "L1"},
        L3={"split_from": "L2"},
    )
    course = responses(record)
    assert [each.sum_mm for each in course] == [60, 50, 51]
    assert [each.category for each in course] == [BASELINE, "SD", "SD"]
    assert course[1].new == ()


def test_paired_organs_are_one_and_so_are_all_nodes() -> None:  # 3.2: two of an organ at most
    lungs = [
        {"site": site}
        for site in ("left lung", "lung_right", "Right Lung", "left kidney", "right kidney")
    ]
    record = patient(*[(30,)] * 5, **{f"L{n}": each for n, each in enumerate(lungs, start=1)})
    assert responses(record)[0].notes == (
        "3 targets are marked in lung; RECIST 1.1 allows at most 2 in one organ.",
    )
    nodes = [
        {"site": f"{place} lymph node", "nodal": nodal}
        for place, nodal in (("axillary", True), ("hilar", True))
    ]
    nodes += [{"site": "", "nodal": True}, {"site": "lung"}]
    record = patient(*[(40,)] * 4, **{f"L{n}": each for n, each in enumerate(nodes, start=1)})
    assert responses(record)[0].notes == (
        "3 targets are marked in lymph nodes; RECIST 1.1 allows at most 2 in one organ.",
    )


def test_notes_on_the_choice_of_targets() -> None:
    sites = {
        f"L{n}": {"site": site}
        for n, site in enumerate(("Liver", "liver ", "liver", "", "", "lung"), start=1)
    }
    sites["L6"]["nodal"] = True
    notes = responses(patient((30,), (9,), (30,), (30,), (30,), (28,), **sites))[0].notes
    assert notes == (
        "6 targets are marked; RECIST 1.1 allows at most 5.",
        "3 targets are marked in liver; RECIST 1.1 allows at most 2 in one organ.",
        "L2: its long axis is 9.0 mm at baseline; RECIST 1.1 asks for 10 mm or more.",
        "L6: its short axis is 14.0 mm at baseline; RECIST 1.1 asks for 15 mm or more.",
    )
