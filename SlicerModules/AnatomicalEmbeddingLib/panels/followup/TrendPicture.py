"""The sizes of lesions over time, and the sum of targets, as a picture for the panel. Confirmed sizes only."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise

import qt
from slicer.i18n import tr as _

from AnatomicalEmbedding.followup.lesions import Study
from AnatomicalEmbedding.followup.record import FollowUp
from AnatomicalEmbedding.followup.trend_chart import Line, Room, end_names, lines_of, study_positions, tick_step

from ..Painting import painted

HEIGHT = 190
_LEAST_WIDTH = 320
_LEFT, _RIGHT, _TOP, _BOTTOM = 34, 112, 20, 24  # pixels around the plot for its scale, names and dates
_NAME_PX, _LABEL_PX, _DATE_PX = 90, 14, 70  # that a name takes, and a date
_TICKS = 4


def draw(width: int, palette, record: FollowUp, ratio: float = 1.0):
    """A QPixmap. palette: of the widget it is shown in, so that it fits dark and light panels. ratio: see `painted`."""
    width = max(int(width), _LEAST_WIDTH)
    with painted(width, HEIGHT, palette, ratio) as (pixmap, painter):
        _Chart(painter, width, palette.color(qt.QPalette.Text), palette.color(qt.QPalette.Base)).draw(record)
    return pixmap


class _Chart:
    def __init__(self, painter, width: int, ink, paper) -> None:
        self.painter, self.ink = painter, ink
        self.paper = qt.QColor(paper.red(), paper.green(), paper.blue(), 190)
        self.faint = qt.QColor(ink.red(), ink.green(), ink.blue(), 45)
        self.width, self.height = width - _LEFT - _RIGHT, HEIGHT - _TOP - _BOTTOM

    def draw(self, record: FollowUp) -> None:
        lines = lines_of(record)
        if not lines:
            self._text((self.width + _LEFT + _RIGHT) / 2, HEIGHT / 2, _("No confirmed size yet"), 0.5, self.ink)
            return
        xs = [_LEFT + 10 + share * (self.width - 20) for share in study_positions(record.studies)]
        step = tick_step(max(value for line in lines for value in line.values if value is not None), _TICKS)
        highest = max(value or 0 for line in lines for value in line.values)
        self.top = step * max(1, math.ceil(highest / step - 1e-9))
        self._axes(step, record.studies, xs)
        for line in lines:
            self._line(line, xs)
        self._names(lines, xs)

    def _axes(self, step: float, studies: Sequence[Study], xs: Sequence[float]) -> None:
        self._text(_LEFT - 6, _TOP - 8, _("mm"), 1.0, self.ink)
        for number in range(round(self.top / step) + 1):
            y = self._y(number * step)
            self.painter.setPen(self.faint)
            self.painter.drawLine(_LEFT, int(y), _LEFT + self.width, int(y))
            self._text(_LEFT - 6, y + 4, f"{number * step:g}", 1.0, self.ink)
        free = -math.inf
        for study, x in zip(studies, xs, strict=True):
            self.painter.setPen(self.faint)
            self.painter.drawLine(int(x), _TOP, int(x), _TOP + self.height)
            if x >= free:
                free = x + _DATE_PX
                self._text(x, HEIGHT - 7, study.label[:12], 0.5, self.ink)

    def _line(self, line: Line, xs: Sequence[float]) -> None:
        """Dotted across studies in which nothing is confirmed, dashed for what is no target."""
        colour, isSum = self._colour(line), line.kind == "sum"
        known = [(n, xs[n], self._y(mm)) for n, mm in enumerate(line.values) if mm is not None]
        for (n, x1, y1), (m, x2, y2) in pairwise(known):
            style = qt.Qt.DotLine if m > n + 1 else qt.Qt.DashLine if line.kind == "other" else qt.Qt.SolidLine
            pen = qt.QPen(colour)
            pen.setWidthF(2.6 if isSum else 1.6)
            pen.setStyle(style)
            self.painter.setPen(pen)
            self.painter.drawLine(qt.QPointF(x1, y1), qt.QPointF(x2, y2))
        self.painter.setPen(colour)
        self.painter.setBrush(qt.QBrush(colour))
        for _n, x, y in known:
            self.painter.drawEllipse(qt.QPointF(x, y), 3.2 if isSum else 2.4, 3.2 if isSum else 2.4)
        self.painter.setBrush(qt.QBrush())

    def _names(self, lines: Sequence[Line], xs: Sequence[float]) -> None:
        """Beside each line's last mark; a thin dotted tick leads to those that make room for others."""
        for name in end_names(lines, xs, self._y, Room(_NAME_PX, _LABEL_PX, _TOP, _TOP + self.height)):
            colour, left = self._colour(name.line), name.x + 11
            if name.is_moved:
                pen = qt.QPen(qt.QColor(colour.red(), colour.green(), colour.blue(), 150))
                pen.setWidthF(0.8)
                pen.setStyle(qt.Qt.DotLine)
                self.painter.setPen(pen)
                self.painter.drawLine(qt.QPointF(name.x + 4, name.y), qt.QPointF(left - 1, name.place))
            text = _("sum of targets") if name.line.kind == "sum" else name.line.name
            text = self._fitted(text, _LEFT + self.width + _RIGHT - left - 4)
            width = self.painter.fontMetrics().boundingRect(text).width()
            # what passes below a name does not make it hard to read
            self.painter.fillRect(int(left) - 1, int(name.place) - 5, width + 3, 11, self.paper)
            self._text(left, name.place + 4, text, 0.0, colour)

    def _colour(self, line: Line):
        return self.ink if line.kind == "sum" else qt.QColor(line.colour)

    def _y(self, mm: float) -> float:
        return _TOP + self.height * (1 - mm / self.top)

    def _fitted(self, text: str, width: float) -> str:
        return self.painter.fontMetrics().elidedText(text, qt.Qt.ElideRight, int(width))

    def _text(self, x: float, y: float, text: str, anchor: float, colour) -> None:
        """anchor: the share of the text that lies to the left of x."""
        self.painter.setPen(colour)
        width = self.painter.fontMetrics().boundingRect(text).width()
        self.painter.drawText(int(x - anchor * width), int(y), text)
