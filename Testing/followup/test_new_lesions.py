"""Test lesions that are new since the baseline or not in the sum: RECIST 1.1, 4.3.5 and tables 1 to 3."""

import pytest
from measured_patient import GONE, OUT, PROPOSED, SEEN, axis, categories, last, patient

from AnatomicalEmbedding.followup.response import BASELINE, NOT_EVALUABLE, responses


@pytest.mark.parametrize(
    ("later", "why"),
    [
        (PROPOSED, "only proposed in 2024-05-01; confirm or move the place."),
        (None, "not assessed in 2024-05-01; mark the lesion in this study."),
        (OUT, "not in the scan of 2024-05-01."),
    ],
)
@pytest.mark.parametrize("target", [GONE, 5])  # without the new lesion CR, and PR
def test_a_new_lesion_of_which_nothing_is_known_later_keeps_the_response_open(
    target, later, why
) -> None:
    record = patient((20, 10, target), (GONE, 15, later))
    assert categories(record) == [BASELINE, "PD", NOT_EVALUABLE]
    assert last(record).missing == (f"L2: {why}",)


def test_a_new_lesion_keeps_progress_until_it_is_gone() -> None:
    assert categories(patient((20, 10, GONE), (GONE, 15, 8))) == [BASELINE, "PD", "PD"]
    assert categories(patient((20, 10, GONE), (GONE, 15, GONE))) == [BASELINE, "PD", "CR"]
    merged = patient((20, 10, 10), (GONE, 15, None)).merge("L2", "c", target_id="L1")
    assert (last(merged).category, last(merged).new) == ("PD", ("L2",)), "it is there, in the other"


# -- parts


def test_a_part_of_a_non_target_keeps_the_response_from_being_complete() -> None:
    record = patient(
        (30, GONE),
        (20, GONE),
        (None, 20),
        L2={"target": False},
        L3={"split_from": "L2", "target": True},
    )
    assert last(record).category == "PR"
    assert last(record).notes == (
        "L3: may still exist but is not in the sum, so the response is incomplete; review the lesion.",
    )
    assert last(record.not_visible("L3", "b")).category == "CR"


def test_a_part_of_a_new_lesion_is_new() -> None:
    record = patient((40, 20, GONE), (GONE, 18, GONE), (None, None, 9), L3={"split_from": "L2"})
    assert [each.new for each in responses(record)] == [(), ("L2",), ("L3",)]
    assert categories(record) == [BASELINE, "PD", "PD"]


# -- nodes: 10 mm of short axis is disease


def test_a_new_node_is_measured_before_it_is_called_new() -> None:
    record = patient((30, 30), (GONE, SEEN), L2={"nodal": True})
    assert last(record).category == NOT_EVALUABLE
    assert last(record).missing == (
        "L2: is this lesion new? Draw its short axis in 2024-03-01: a lymph node below 10 mm is normal.",
    )
    assert last(record.measure("L2", "b", None, axis(9.9))).category == "SD"
    assert last(record.measure("L2", "b", None, axis(10))).category == "PD"
