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
    """Return the status, such as "new", "uncertain" or "confirmed"; "" if the lesion has no finding in the study."""
    found = record.finding(lesion_id, study)
    if found is None:
        return ""
    if found.state == PROPOSED:
        status = found.guess.status if found.guess is not None else ""
        return status if status in (UNCERTAIN, ABSENT) else PROPOSED
    if not found.visible and found.state != NOT_VISIBLE:
        return found.state
    timeline = timeline_of(record)
    here = timeline.number_of(study)
    before = timeline.record.lesion(lesion_id).findings
    visits = [before.get(visit.key) for visit in timeline.record.studies[: here + 1]]
    seen = [number for number, each in enumerate(visits) if each is not None and each.visible]
    if found.state == NOT_VISIBLE:
        return DISAPPEARED if seen and here not in seen else NOT_VISIBLE
    news = timeline.news(here)
    if here == timeline.start and any(before.get(each.key, found).state == NOT_VISIBLE for each in timeline.clean):
        return NEW
    if here == (timeline.start if timeline.baseline is None else timeline.baseline) and lesion_id not in news.ids:
        return BASELINE
    if seen[0] != here:
        return found.state
    if record.lesion(lesion_id).split_from:
        return SPLIT
    return NEW if lesion_id in news.new else MAYBE_NEW if lesion_id in news.ids else found.state
