"""Words for the status and error of an answer, used in panels, in the browser viewer and in descriptions of points."""

from __future__ import annotations

STATUS_WORDS = {  # statuses of `AnswerList`
    "matched": "matched",
    "uncertain": "uncertain",
    "absent": "not in scan",
    "moved": "by hand",
    "removed": "not visible",
}


def errorText(errorMm: float | None, probability: float | None = None) -> str:
    """Format the expected error, as part of a sentence. errorMm: None if not known. probability: of at most 10 mm."""
    if errorMm is None:
        return "these weights do not state the error to expect"
    within = "" if probability is None else f", {100 * probability:.0f} % within 10 mm"
    return f"expected error {errorMm:.1f} mm{within}"
