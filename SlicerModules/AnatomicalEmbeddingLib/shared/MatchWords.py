"""Words for an answer and how far it can be trusted, the same in panels, on the page and in descriptions of points."""

from __future__ import annotations

STATUS_WORDS = {  # statuses of `AnswerList`
    "matched": "matched",
    "uncertain": "uncertain",
    "absent": "not in scan",
    "moved": "by hand",
    "removed": "not visible",
}


def errorText(errorMm: float | None, probability: float | None = None) -> str:
    """Expected error and probability of at most 10 mm, as part of a sentence. errorMm: None where it is not known."""
    if errorMm is None:
        return "these weights do not state the error to expect"
    within = "" if probability is None else f", {100 * probability:.0f} % within 10 mm"
    return f"expected error {errorMm:.1f} mm{within}"
