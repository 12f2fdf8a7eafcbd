"""A small picture of a run's curves for a panel: the loss on the left, the validation errors on the right."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import qt
from slicer.i18n import tr as _

from ...scene.training.TrainingCurves import COLOURS
from ...scene.training.TrainingLog import LossCurve, Validations
from ..Painting import painted

HEIGHT = 150
_LEAST_WIDTH = 320
_LEFT, _TOP, _BOTTOM, _GAP = 44, 20, 18, 10  # pixels around a plot for its axis, title and steps
_TITLE, _LINE_HEIGHT = 14, 13  # pixels from the top to the title's base line, and between names
_LEGEND = 86  # pixels beside the validation plot for the names of its curves
_LINES = 3  # of the grid


def draw(width: int, palette, losses: LossCurve, validations: Validations, ratio: float = 1.0):
    """A QPixmap of both plots. palette: of the widget it is shown in, so that it fits dark and light panels. ratio: see
    `painted`.
    """
    width = max(int(width), _LEAST_WIDTH)
    with painted(width, HEIGHT, palette, ratio) as (pixmap, painter):
        ink = palette.color(qt.QPalette.Text)
        split = int(0.42 * width)
        loss = {"": (losses.steps, losses.means)} if losses.steps else {}
        errors = {kind: (validations.steps, values) for kind, values in validations.errorsMm.items()}
        _Plot(painter, 0, split, ink).draw(_("Loss"), loss)
        _Plot(painter, split, width - split, ink, _LEGEND).draw(_("Validation error (mm)"), errors)
    return pixmap


def kindNames() -> dict[str, str]:
    """Short words for the kinds of points that are validated on."""
    return {
        "phantom": _("synthetic"),
        "centre": _("centres"),
        "extreme": _("borders"),
        "landmark": _("landmarks"),
    }


class _Plot:
    """One plot, in the columns `left` to `left + width` of a picture; `legend` of them, on the right, for names."""

    def __init__(self, painter, left: int, width: int, ink, legend: int = 0) -> None:
        self.painter, self.ink, self.legend = painter, ink, legend
        self.faint = qt.QColor(ink.red(), ink.green(), ink.blue(), 50)
        self.x, self.width = left + _LEFT, width - _LEFT - _GAP - legend
        self.y, self.height = _TOP, HEIGHT - _TOP - _BOTTOM

    def draw(self, title: str, curves: dict[str, tuple[Sequence[int], Sequence[float]]]) -> None:
        """curves: name -> steps and values, NaN among them left out. With a legend, each value has a dot."""
        self.painter.setPen(self.ink)
        self.painter.drawText(self.x, _TITLE, title)
        self.painter.setPen(self.faint)
        self.painter.drawRect(self.x, self.y, self.width, self.height)
        points = {name: found for name, curve in curves.items() if len(found := _finite(*curve))}
        if not points:
            self._text(self.x + self.width // 2, self.y + self.height // 2 + 4, _("nothing yet"), 0.5)
            return
        everything = np.concatenate(list(points.values()))
        last = max(float(everything[:, 0].max()), 1.0)
        ticks = _ticks(float(everything[:, 1].min()), float(everything[:, 1].max()))
        self._axes(ticks, last)
        ends = []
        for n, (name, found) in enumerate(points.items()):
            colour = qt.QColor(*(round(255 * part) for part in COLOURS[n % len(COLOURS)]))
            rows = self._rows(found[:, 1], ticks)
            self._line(self.x + found[:, 0] / last * self.width, rows, colour)
            ends.append((float(rows[-1]), name, float(found[-1, 1]), colour))
        if self.legend:
            self._names(sorted(ends, key=lambda end: end[0]))
        else:
            self.painter.setPen(ends[0][3])
            self._text(self.x + self.width, _TITLE, f"{ends[0][2]:.3g}", 1.0)

    def _names(self, ends: list[tuple]) -> None:
        """Names and last values, each beside the end of its curve as far as there is room."""
        lowest = float("-inf")
        for row, name, value, colour in ends:
            lowest = max(row + 4, lowest + _LINE_HEIGHT)
            self.painter.setPen(colour)
            self.painter.drawText(self.x + self.width + 6, int(lowest), f"{value:.1f} {kindNames().get(name, name)}")

    def _axes(self, ticks: list[float], last: float) -> None:
        decimals = max(0, -math.floor(math.log10(ticks[1] - ticks[0])))
        for tick in ticks:
            row = int(self._rows(tick, ticks))
            self.painter.setPen(self.faint)
            self.painter.drawLine(self.x, row, self.x + self.width, row)
            self.painter.setPen(self.ink)
            self._text(self.x - 4, row + 4, f"{tick:.{decimals}f}", 1.0)
        self._text(self.x, HEIGHT - 4, "0", 0.5)
        self._text(self.x + self.width, HEIGHT - 4, f"{last:.0f}", 1.0)
        self._text(self.x + self.width // 2, HEIGHT - 4, _("step"), 0.5)

    def _rows(self, values: np.ndarray | float, ticks: list[float]) -> np.ndarray | float:
        return self.y + self.height * (ticks[-1] - values) / (ticks[-1] - ticks[0])

    def _line(self, columns: np.ndarray, rows: np.ndarray, colour) -> None:
        path = qt.QPainterPath()
        path.moveTo(float(columns[0]), float(rows[0]))
        for column, row in zip(columns[1:], rows[1:], strict=True):
            path.lineTo(float(column), float(row))
        if self.legend or len(columns) == 1:
            for column, row in zip(columns, rows, strict=True):
                path.addEllipse(float(column) - 2, float(row) - 2, 4.0, 4.0)
        pen = qt.QPen(colour)
        pen.setWidthF(1.6)
        self.painter.setPen(pen)
        self.painter.drawPath(path)

    def _text(self, x: int, y: int, text: str, anchor: float) -> None:
        """anchor: the share of the text that lies to the left of x."""
        width = self.painter.fontMetrics().boundingRect(text).width()
        self.painter.drawText(int(x - anchor * width), int(y), text)


def _finite(steps: Sequence[int], values: Sequence[float], most: int = 600) -> np.ndarray:
    """(n, 2) points that can be drawn, the last one among them, no more than a plot has pixels."""
    points = np.stack([np.asarray(steps, dtype=float), np.asarray(values, dtype=float)], axis=1)
    points = points[np.isfinite(points).all(axis=1)]
    return points[::-1][:: -(-len(points) // most) or 1][::-1]


def _ticks(low: float, high: float) -> list[float]:
    """Round numbers that enclose both, evenly spaced."""
    if high <= low:
        low, high = low - max(abs(low), 1e-6) / 10, high + max(abs(high), 1e-6) / 10
    rough = (high - low) / _LINES
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(factor * power for factor in (1, 2, 5, 10) if factor * power >= rough * 0.999)
    first, last = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
    return [n * step for n in range(first, last + 1)]
