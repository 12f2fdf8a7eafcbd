"""The status of a lesion in a study, one word for the table lesion x study."""

from ..matching.status import ABSENT, UNCERTAIN
from .lesions import NOT_VISIBLE, PROPOSED, Finding
from .record import FollowUp
from .timeline import Timeline, timeline_of

BASELINE = "baseline"  # seen in the response's baseline or, without one, in the first reviewed study
NEW = "new"  # first seen here, although a person looked for it in an earlier visit
MAYBE_NEW = "new?"  # first seen here; not yet decided whether it is new
SPLIT = "split"  # first seen as a part of another lesion
DISAPPEARED = "disappeared"  # not visible, but seen in an earlier visit


def status_of(record: FollowUp, lesion_id: str, study: str) -> str:
    """One of the words above or the state of the finding; "" without a finding."""
    found = record.finding(lesion_id, study)
    if found is None:
        return ""
    if found.state == PROPOSED:
        status = found.guess.status if found.guess is not None else ""
        return status if status in (UNCERTAIN, ABSENT) else PROPOSED
    if not found.visible and found.state != NOT_VISIBLE:
        return found.state
    timeline = timeline_of(record)
    here = timeline.visits.number_of(study)
    seen = (number for number in range(here + 1) if _is_visible(timeline.visits.finding(lesion_id, number)))
    first = next(seen, None)
    if found.state == NOT_VISIBLE:
        shown_here = _is_visible(timeline.visits.finding(lesion_id, here))
        return DISAPPEARED if first is not None and not shown_here else NOT_VISIBLE
    news = timeline.news(here)
    if here == timeline.start and lesion_id in _looked_for(timeline):
        return NEW
    if here == (timeline.start if timeline.baseline is None else timeline.baseline) and lesion_id not in news.ids:
        return BASELINE
    if first != here:
        return found.state
    if record.lesion(lesion_id).split_from:
        return SPLIT
    unclear = dict(news.unclear)
    return NEW if lesion_id in news.new else MAYBE_NEW if lesion_id in unclear else found.state


def _looked_for(timeline: Timeline) -> set[str]:
    """Lesions reviewed as not visible in visits before the start."""
    keys = [study.key for study in timeline.clean]
    lesions = timeline.record.lesions
    return {each.id for each in lesions if any(f.state == NOT_VISIBLE for k, f in each.findings.items() if k in keys)}


def _is_visible(found: Finding | None) -> bool:
    return found is not None and found.visible
