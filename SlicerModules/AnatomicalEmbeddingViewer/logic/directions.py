"""The patient's directions at the edges of a slice view, as radiology viewers write them."""

from __future__ import annotations

from collections.abc import Sequence

_TOWARDS, _AWAY = "RAS", "LPI"


def height_words(slice_to_ras: Sequence[Sequence[float]]) -> str:
    """Where a slice lies along the patient, such as "123.4 S": mm, and on which side of the scan's zero."""
    axis = max(range(3), key=lambda each: abs(slice_to_ras[each][2]))
    mm = slice_to_ras[axis][3]
    return f"{abs(mm):.1f} mm {(_TOWARDS if mm >= 0 else _AWAY)[axis]}"


def edge_letters(slice_to_ras: Sequence[Sequence[float]]) -> dict[str, str]:
    """Which way the patient lies at each edge: `left`, `right`, `top` and `bottom`, each one of R L A P S I.

    slice_to_ras: rows of a slice node's SliceToRAS; its first column points to the view's right, its second to its top.
    Of an oblique slice the nearest direction.
    """
    edges = {}
    for column, (behind, ahead) in enumerate((("left", "right"), ("bottom", "top"))):
        direction = [row[column] for row in slice_to_ras[:3]]
        axis = max(range(3), key=lambda each: abs(direction[each]))
        letters = _TOWARDS[axis], _AWAY[axis]
        edges[ahead], edges[behind] = letters if direction[axis] > 0 else letters[::-1]
    return edges
