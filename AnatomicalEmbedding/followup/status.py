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
    number = timeline.number_of(study)
    visits = timeline.record.studies
    lesion = timeline.record.lesion(lesion_id)
    was_visible = any(visit.key in lesion.visible for visit in visits[:number])
    if finding.state == NOT_VISIBLE:
        is_visible = visits[number].key in lesion.visible  # in another scan of this visit
        return DISAPPEARED if was_visible and not is_visible else NOT_VISIBLE
    news = timeline.news(number)
    if number == timeline.start:
        # before the start, a person looked at the place and saw no lesion
        for visit in timeline.clean:
            if visit.key in lesion.findings and lesion.findings[visit.key].state == NOT_VISIBLE:
                return NEW
    baseline = timeline.start if timeline.baseline is None else timeline.baseline
    if number == baseline and lesion_id not in news.ids:
        return BASELINE
    if was_visible:
        return finding.state
    if record.lesion(lesion_id).split_from:
        return SPLIT
    if lesion_id in news.new:
        return NEW
    return MAYBE_NEW if lesion_id in news.ids else finding.state
