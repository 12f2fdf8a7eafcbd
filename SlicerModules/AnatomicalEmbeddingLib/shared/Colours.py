"""Colours and words with the same meaning in every table, label and view."""

from __future__ import annotations

# backgrounds of table cells
GOOD = "#d8f3dc"
DOUBTFUL = "#ffe8c2"
NOTHING = "#e6e6e6"
BY_HAND = "#d9e8fb"
FAULT = "#ffd9d6"

# text colours of labels, by state; legible on light and dark backgrounds
TEXTS = {"good": "#2a9d4e", "warning": "#c77800", "bad": "#d8433b"}

# points and lines in views: green is matched, amber is uncertain. The mean of red, green and blue is above 0.5, so that
# VTK draws names with a black shadow, which is legible on every tissue. Below 0.5, the shadow would be white
GREEN = (0.31, 0.86, 0.42)
AMBER = (1.0, 0.65, 0.1)

STATUS_WORDS = {  # words for the statuses of `AnswerList`
    "matched": "matched",
    "uncertain": "uncertain",
    "absent": "not in scan",
    "moved": "by hand",
    "removed": "not visible",
}


def errorText(errorMm: float | None, probability: float | None = None) -> str:
    """Return a phrase with the expected error. probability: chance that the error is at most 10 mm, 0 to 1.

    Either number may be None if it is unknown.
    """
    if errorMm is None:
        return "expected error unknown for these weights"
    within = "" if probability is None else f", {100 * probability:.0f} % within 10 mm"
    return f"expected error {errorMm:.1f} mm{within}"
