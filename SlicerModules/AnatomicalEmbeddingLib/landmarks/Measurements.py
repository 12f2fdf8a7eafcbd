"""What a line, an angle or a curve measures in the template and in the targets, with its error."""

import numpy as np

from AnatomicalEmbedding.landmarks.markups import QUANTITIES, Markup, check_count, measurement_of
from AnatomicalEmbedding.matching.status import ABSENT, MATCHED
from AnatomicalEmbedding.scan.points import Measurement

from .AnswerList import MOVED, REMOVED, AnswerList
from .ControlPoints import definedIds, labelOf, worldOf

_STATUS = {MOVED: MATCHED, REMOVED: ABSENT}  # what the user's own answers are for a measurement


def measurementOf(points) -> Measurement | None:
    """Measure the template's line, angle or curve. Returns None for a point list, or if points are still missing."""
    markup = markupOf(points)
    ids = definedIds(points)
    if markup is None:
        return None
    places = np.array([worldOf(points, pointId) for pointId in ids])
    return measurement_of(markup, places, None, ())


def measurementIn(points, answerList: AnswerList) -> Measurement | None:
    """Measure the answers to the template's line, angle or curve in one target.

    The error follows from the expected errors of the points; a point that the user has placed has no error. The value
    is None if the target does not show a point.

    Args:
        points: the template's line, angle or curve.
        answerList: the answers in the target.

    Returns:
        None for a point list, or if a point has no answer yet.
    """
    markup = markupOf(points)
    answers = answerList.answers
    ids = definedIds(points)
    if markup is None or any(pointId not in answers for pointId in ids):
        return None
    ends = [answers[pointId] for pointId in ids]
    places = [answerList.worldOf(answer) for answer in ends]
    worldPoints = np.array([(np.nan,) * 3 if place is None else place for place in places])
    errors = [0.0 if answer.byHand else answer.errorMm for answer in ends]
    error_mm = None if None in errors else np.array(errors)
    statuses = [_STATUS.get(answer.status, answer.status) for answer in ends]
    return measurement_of(markup, worldPoints, error_mm, statuses)


def markupOf(points, labels: tuple[str, ...] | None = None) -> Markup | None:
    """Return the markup of a line, angle or curve; None for a point list, or if points are still missing.

    labels: names of its points; default: their labels.
    """
    kind = points.GetMarkupType()
    if kind not in QUANTITIES:
        return None
    if labels is None:
        labels = tuple(labelOf(points, pointId) for pointId in definedIds(points))
    markup = Markup(kind, points.GetName(), labels)
    try:
        check_count(markup)
    except ValueError:
        return None
    return markup
