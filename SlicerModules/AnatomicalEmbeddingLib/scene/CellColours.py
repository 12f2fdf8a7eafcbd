"""Colours of tables' cells, which mean the same in all of them. No Qt."""

from __future__ import annotations

GOOD, DOUBTFUL, NOTHING, BY_HAND, FAULT = "#d8f3dc", "#ffe8c2", "#e6e6e6", "#d9e8fb", "#ffd9d6"
