"""Colours and words with the same meaning in every table, label and view."""

from AnatomicalEmbedding.matching.status import MATCHED_MM, decimals

# backgrounds of table cells
GOOD = "#d8f3dc"
DOUBTFUL = "#ffe8c2"
NOTHING = "#e6e6e6"
BY_HAND = "#d9e8fb"
FAULT = "#ffd9d6"

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


def mmText(lengthMm: float, unitMm: float = 1.0, digits: int = 1) -> str:
    """Return a length as text.

    Args:
        lengthMm: the length.
        unitMm: unit of the maps; small objects get more digits.
        digits: digits after the point, at least.
    """
    return f"{lengthMm:.{max(digits, decimals(unitMm))}f} mm"


def errorText(errorMm: float | None, probability: float | None = None, unitMm: float = 1.0) -> str:
    """Return a phrase with the expected error.

    Args:
        errorMm: the expected error, or None if it is unknown.
        probability: chance that the error is at most 10 mm, or 10 units, 0 to 1; None if it is unknown.
        unitMm: unit of the maps; 1 for CTs.
    """
    if errorMm is None:
        return "expected error unknown for these weights"
    within = f"{MATCHED_MM * unitMm:.2g} mm"
    share = "" if probability is None else f", {100 * probability:.0f} % within {within}"
    return f"expected error {mmText(errorMm, unitMm)}{share}"
