"""Test the status of a lesion in a study: one word for each cell of the table."""

from AnatomicalEmbedding.followup.lesions import CONFIRMED, MERGED, PROPOSED, Finding, Guess
from AnatomicalEmbedding.followup.record import FollowUp
from AnatomicalEmbedding.followup.status import (
    ABSENT,
    BASELINE,
    DISAPPEARED,
    SPLIT,
    UNCERTAIN,
    status_of,
)


def _words(record: FollowUp, lesion_id: str) -> list[str]:
    return [status_of(record, lesion_id, study.key) for study in record.studies]


def test_a_lesion_that_goes_away(empty: FollowUp) -> None:
    record = empty.mark("a", (0, 0, 0)).propose(
        "b", {"L1": Finding(PROPOSED, (1, 0, 0), Guess("matched", "a"))}
    )
    assert _words(record, "L1") == [BASELINE, PROPOSED, ""]
    record = record.confirm("L1", "b").not_visible("L1", "c")
    assert _words(record, "L1") == [BASELINE, CONFIRMED, DISAPPEARED]


def test_parts_and_unions(empty: FollowUp) -> None:
    record = empty.mark("a", (0, 0, 0)).mark("b", (9, 0, 0)).describe("L2", split_from="L1")
    assert _words(record, "L2") == ["", SPLIT, ""]
    record = record.mark("c", (0, 0, 0), "L1").merge("L2", "c", target_id="L1")
    assert _words(record, "L2") == ["", SPLIT, MERGED]


def test_doubtful_proposals(empty: FollowUp) -> None:
    record = empty.mark("a", (0, 0, 0))
    for doubt in (UNCERTAIN, ABSENT):
        told = record.propose("b", {"L1": Finding(PROPOSED, (1, 0, 0), Guess(doubt, "a"))})
        assert status_of(told, "L1", "b") == doubt
