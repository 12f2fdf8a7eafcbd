"""The status of a lesion in a study: one word, which tables of lesions and studies show."""

from ..matching.status import ABSENT, UNCERTAIN
from .lesions import NOT_VISIBLE, PROPOSED
from .record import FollowUp
from .timeline import timeline_of

BASELINE = "baseline"  # seen in the baseline visit or, if there is no baseline, in the first visit with a lesion
NEW = "new"  # first seen in this visit; in an earlier visit a person looked at the place and saw no lesion
MAYBE_NEW = "new?"  # first seen in this visit; whether it is new depends on an entry that a person must still make
SPLIT = "split"  # first seen in this visit, as a part of another lesion
DISAPPEARED = "disappeared"  # not visible, but seen in an earlier visit


def status_of(record: FollowUp, lesion_id: str, study: str) -> str:
    """Return the status, such as "new", "uncertain" or "confirmed"; "" if the lesion has no finding in the study.

    Args:
        record: the record.
        lesion_id: the lesion.
        study: key of the study.
    """
    finding = record.finding(lesion_id, study)
    if finding is None:
        return ""
    if finding.state == PROPOSED:
        status = finding.guess.status if finding.guess is not None else ""
        return status if status in (UNCERTAIN, ABSENT) else PROPOSED
    if not finding.visible and finding.state != NOT_VISIBLE:
        return finding.state
    timeline = timeline_of(record)
    number_now = timeline.number_of(study)
    before = timeline.record.lesion(lesion_id).findings
    # the visits up to this one in which a person saw the lesion
    visible_numbers = [
        number
        for number, visit in enumerate(timeline.record.studies[: number_now + 1])
        if visit.key in before and before[visit.key].visible
    ]
    if finding.state == NOT_VISIBLE:
        return DISAPPEARED if visible_numbers and number_now not in visible_numbers else NOT_VISIBLE
    news = timeline.news(number_now)
    # before the start, a person looked at the place and saw no lesion
    was_clean = any(before.get(s.key, finding).state == NOT_VISIBLE for s in timeline.clean)
    if number_now == timeline.start and was_clean:
        return NEW
    baseline = timeline.start if timeline.baseline is None else timeline.baseline
    if number_now == baseline and lesion_id not in news.ids:
        return BASELINE
    if visible_numbers[0] != number_now:
        return finding.state
    if record.lesion(lesion_id).split_from:
        return SPLIT
    if lesion_id in news.new:
        return NEW
    return MAYBE_NEW if lesion_id in news.ids else finding.state
