"""Words for an answer and how far it can be trusted, the same in panels, on the page and in descriptions of points."""

from __future__ import annotations

from slicer.i18n import tr as _


def statusText(status: str) -> str:
    """A status of `AnswerList` in the user's language."""
    return {
        "matched": _("matched"),
        "uncertain": _("uncertain"),
        "absent": _("not in scan"),
        "moved": _("by hand"),
        "removed": _("not visible"),
    }[status]


def errorText(errorMm: float | None, probability: float | None = None) -> str:
    """The expected error, and the probability of at most 10 mm, as part of a sentence. None: the weights state none."""
    if errorMm is None:
        return _("these weights do not state the error to expect")
    text = _("expected error {error:.1f} mm").format(error=errorMm)
    if probability is None:
        return text
    return _("{error}, {percent:.0f} % within 10 mm").format(error=text, percent=100 * probability)
