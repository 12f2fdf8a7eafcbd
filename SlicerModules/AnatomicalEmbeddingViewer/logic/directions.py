"""The patient's directions at the edges of a slice view, and the height of a slice, as radiology viewers write them."""

from __future__ import annotations

from collections.abc import Sequence

_POSITIVE, _NEGATIVE = "RAS", "LPI"  # letters of the directions along each axis


def height_text(slice_to_ras: Sequence[Sequence[float]]) -> str:
    """Return the position of a slice along the patient, such as "123.4 mm S", measured from RAS zero."""
    axis = max(range(3), key=lambda each: abs(slice_to_ras[each][2]))
    mm = slice_to_ras[axis][3]
    return f"{abs(mm):.1f} mm {(_POSITIVE if mm >= 0 else _NEGATIVE)[axis]}"


def edge_letters(slice_to_ras: Sequence[Sequence[float]]) -> dict[str, str]:
    """Return the patient's direction at each edge of a view: one of R L A P S I, the nearest one of an oblique slice.

    Args:
        slice_to_ras: (4, 4); the first column points to the view's right, the second to its top.

    Returns:
        Letters by edge: `left`, `right`, `top` and `bottom`.
    """
    edges = {}
    for column, (start, end) in enumerate((("left", "right"), ("bottom", "top"))):
        direction = [row[column] for row in slice_to_ras[:3]]
        axis = max(range(3), key=lambda each: abs(direction[each]))
        letters = _POSITIVE[axis], _NEGATIVE[axis]
        edges[end], edges[start] = letters if direction[axis] > 0 else letters[::-1]
    return edges
