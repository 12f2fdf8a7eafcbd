"""Make a follow-up record from a table of lesion sizes: one row for each lesion, one column for each study."""

from datetime import date

from AnatomicalEmbedding.followup.lesions import PROPOSED, Finding, Guess, Measurement, Study
from AnatomicalEmbedding.followup.record import FollowUp
from AnatomicalEmbedding.followup.response import Response, responses

GONE, OUT, SEEN = "gone", "out", "seen"  # seen: and not measured
Said = float | str | None


def axis(length: float) -> tuple:
    """A line that long, to the patient's right."""
    return (0.0, 0.0, 0.0), (length, 0.0, 0.0)


def patient(
    *lesions: tuple[Said, ...], studies: tuple[Study, ...] = (), **described: dict
) -> FollowUp:
    """A lesion a row, a study a column: mm of the long axis (the short one is half of it), a word, or None: not said.

    Studies are "a", "b" and so on, two months apart, unless others are given. described: of lesions by id, in order.
    """
    count = max(map(len, lesions))
    studies = studies or tuple(
        Study("abcdef"[n], f"scan {n}", date(2024, 1 + 2 * n, 1)) for n in range(count)
    )
    record = FollowUp().with_studies(studies)
    for row in lesions:
        first = next(
            n for n, what in enumerate(row) if isinstance(what, int | float) or what == SEEN
        )
        record = record.mark(studies[first].key, (0, 0, 0))
        for study, what in zip(studies, row, strict=False):
            record = said(record, record.lesions[-1].id, study.key, what)
    for lesion_id, changes in described.items():
        record = record.describe(lesion_id, **changes)
    return record


def said(record: FollowUp, lesion_id: str, study: str, what: Said) -> FollowUp:
    """The record once that is said of a lesion in a study, or is proposed."""
    if what is None:
        return record
    if what == GONE:
        return record.not_visible(lesion_id, study)
    if what == OUT:
        return record.outside(lesion_id, study)
    if what == PROPOSED:
        guess = Guess("matched", record.studies[0].key, 2.0, 0.99)
        return record.propose(
            study, {lesion_id: Finding(PROPOSED, (0, 0, 0), guess, Measurement(axis(10), axis(5)))}
        )
    record = record.mark(study, (0, 0, 0), lesion_id)
    return record if what == SEEN else record.measure(lesion_id, study, axis(what), axis(what / 2))


def categories(record: FollowUp) -> list[str]:
    """Of each study."""
    return [each.category for each in responses(record)]


def last(record: FollowUp) -> Response:
    """Of the last study."""
    return responses(record)[-1]
