"""Colours that mean the same in every table and every view."""

from __future__ import annotations

# backgrounds of table cells
GOOD, DOUBTFUL, NOTHING, BY_HAND, FAULT = "#d8f3dc", "#ffe8c2", "#e6e6e6", "#d9e8fb", "#ffd9d6"

# points and lines in views: sure, and to be looked at. Their means are above a half: VTK then draws a black shadow
# below names, legible on every tissue, and a white one else
GREEN, AMBER = (0.31, 0.86, 0.42), (1.0, 0.65, 0.1)
