"""Small pictures that panels paint themselves."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import qt


@contextmanager
def painted(width: int, height: int, palette) -> Iterator[tuple]:
    """A QPixmap in the background colour of a palette, and the QPainter that paints on it until the block ends."""
    pixmap = qt.QPixmap(width, height)
    pixmap.fill(palette.color(qt.QPalette.Base))
    painter = qt.QPainter()
    painter.begin(pixmap)
    try:
        painter.setRenderHint(qt.QPainter.Antialiasing)
        yield pixmap, painter
    finally:
        painter.end()
