"""What a line, an angle or a curve measures in the template and in the targets, with its error."""

from __future__ import annotations

import numpy as np

from AnatomicalEmbedding.landmarks.markups import (
    QUANTITIES,
    Markup,
    Measurement,
    check_count,
    measure,
    measurement_error,
)
from AnatomicalEmbedding.matching.status import ABSENT, MATCHED, UNCERTAIN

from .AnswerList import REMOVED, Answer, AnswerList
from .ControlPoints import definedIds, labelOf, worldOf


def measurementOf(points) -> Measurement | None:
    """Measure the template's line, angle or curve. Returns None for a point list, or if points are still missing."""
    markup, ids = markupOf(points), definedIds(points)
    if markup is None:
        return None
    places = np.array([worldOf(points, pointId) for pointId in ids])
    return _measurement(markup, float(measure(markup, places)), 0.0, "")


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
    markup, answers = markupOf(points), answerList.answers
    ids = definedIds(points)
    if markup is None or any(pointId not in answers for pointId in ids):
        return None
    ends = [answers[pointId] for pointId in ids]
    status = _status(ends)
    if status == ABSENT:
        return _measurement(markup, None, None, status)
    places = np.array([answerList.worldOf(answer) for answer in ends])
    errors = [0.0 if answer.byHand else answer.errorMm for answer in ends]
    margin = None
    if None not in errors:
        margin = measurement_error(markup, places, np.array(errors))
    return _measurement(markup, float(measure(markup, places)), margin, status)


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


def _status(answers: list[Answer]) -> str:
    statuses = {answer.status for answer in answers}
    if statuses & {ABSENT, REMOVED}:
        return ABSENT
    return UNCERTAIN if UNCERTAIN in statuses else MATCHED


def _measurement(
    markup: Markup, value: float | None, margin: float | None, status: str
) -> Measurement:
    quantity, unit = QUANTITIES[markup.kind]
    return Measurement(markup.name, markup.kind, quantity, unit, value, margin, status)
