"""One word for each cell of the table lesion x study."""

from __future__ import annotations

from .lesions import NOT_VISIBLE, PROPOSED
from .record import FollowUp

BASELINE = "baseline"  # seen in the first study
NEW = "new"  # first seen in a later study, and no earlier one that was looked at showed it
SPLIT = "split"  # first seen as a part of another lesion
UNCERTAIN = "uncertain"  # proposed, and likely enough to be wrong
ABSENT = "absent"  # proposed: this scan does not show the place
DISAPPEARED = "disappeared"  # not visible any more, and seen before


def status_of(record: FollowUp, lesion_id: str, study: str) -> str:
    """ "" where nothing is known, else one of the words above or the finding's own state."""
    found = record.finding(lesion_id, study)
    if found is None:
        return ""
    if found.state == PROPOSED:
        status = found.guess.status if found.guess is not None else ""
        return status if status in (UNCERTAIN, ABSENT) else PROPOSED
    first = record.first_seen(lesion_id)
    order = [each.key for each in record.studies]
    if found.state == NOT_VISIBLE:
        seen = first is not None and order.index(first.key) < order.index(study)
        return DISAPPEARED if seen else NOT_VISIBLE
    if first is not None and first.key == study:
        if study == order[0]:
            return BASELINE
        return SPLIT if record.lesion(lesion_id).split_from else NEW
    return found.state
