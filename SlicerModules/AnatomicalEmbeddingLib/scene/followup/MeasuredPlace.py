"""Where a lesion is that is measured before anybody has said so."""

from __future__ import annotations

import math

import numpy as np

from AnatomicalEmbedding.followup.lesions import PROPOSED, WITH_PLACE, Axis
from AnatomicalEmbedding.followup.record import FollowUp


def placedOn(record: FollowUp, lesion: str, study: str, axis: Axis | None) -> FollowUp:
    """With a place for what is about to be measured: the axis' middle, unless a place near enough is known."""
    found = record.finding(lesion, study)
    if axis is None or (found is not None and found.reviewed and found.state in WITH_PLACE):
        return record
    middle = tuple(np.mean(axis, axis=0))
    if found is None:
        return record.mark(study, middle, lesion)
    if found.state == PROPOSED and math.dist(found.point_ras, middle) <= math.dist(*axis) / 2:
        return record
    return record.move(lesion, study, middle)
