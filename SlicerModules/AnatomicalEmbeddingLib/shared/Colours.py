"""Colours that mean the same in every table, label and view."""

from __future__ import annotations

# backgrounds of table cells
GOOD = "#d8f3dc"
DOUBTFUL = "#ffe8c2"
NOTHING = "#e6e6e6"
BY_HAND = "#d9e8fb"
FAULT = "#ffd9d6"

# words in labels, by state; legible on light and dark backgrounds
TEXTS = {"good": "#2a9d4e", "warning": "#c77800", "bad": "#d8433b"}

# points and lines in views: matched, and uncertain. The mean of each is above a half: VTK then draws a black shadow
# below names, legible on every tissue, and else a white one
GREEN = (0.31, 0.86, 0.42)
AMBER = (1.0, 0.65, 0.1)
