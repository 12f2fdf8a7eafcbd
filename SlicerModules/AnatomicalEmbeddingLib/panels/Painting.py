"""Small pictures that panels paint themselves."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import qt


@contextmanager
def painted(width: int, height: int, palette, ratio: float) -> Iterator[tuple]:
    """A QPixmap in the background colour of a palette, and the QPainter that paints on it until the block ends.

    ratio: pixels of the screen for one of width and height, `devicePixelRatioF()` of the widget it is shown in.
    """
    pixmap = qt.QPixmap(round(width * ratio), round(height * ratio))
    pixmap.setDevicePixelRatio(ratio)
    pixmap.fill(palette.color(qt.QPalette.Base))
    painter = qt.QPainter()
    painter.begin(pixmap)
    try:
        painter.setRenderHint(qt.QPainter.Antialiasing)
        yield pixmap, painter
    finally:
        painter.end()
