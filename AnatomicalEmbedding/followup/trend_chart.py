"""The sizes of lesions over time, and the sum of targets, as one SVG picture. Confirmed sizes only."""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from xml.sax.saxutils import escape

from .lesions import Study
from .record import FollowUp
from .response import responses
from .sizes import diameter_mm
from .timeline import visits_of

_LEFT, _TOP, _BOTTOM = 46, 30, 38
_NAME_PX, _LABEL_PX = 120, 15  # that a name takes
_DATE_PX = 74  # that a date needs
_NEAR_PX = 5  # a name this near to its mark needs no leader
_TICKS = 5
# keeps a name readable above lines
HALO = ' paint-order="stroke" stroke="var(--panel, Canvas)" stroke-width="3" stroke-linejoin="round"'
# distinct for colour-blind readers, on dark and on white
_COLOURS = ("#3d9fe0", "#d98a00", "#0f9d77", "#c86fa0", "#d65a1a", "#8c7ae6", "#b0a412", "#7f8c9a")
_SUM_NAME = "sum of targets"


@dataclass(frozen=True)
class Line:
    """One line: values in mm by study, None where nothing is confirmed in its visit."""

    name: str
    values: tuple[float | None, ...]
    colour: str
    kind: str  # "target", "other" or "sum"


@dataclass(frozen=True)
class _Frame:
    """Size of the picture, mm at its top, and room for names at its right; pixels but for `top`."""

    width: int
    height: int
    top: float

    @property
    def right(self) -> int:
        return self.width - min(170, self.width // 3)

    @property
    def bottom(self) -> int:
        return self.height - _BOTTOM

    def x(self, share: float) -> float:
        return _LEFT + share * (self.right - _LEFT)

    def y(self, mm: float) -> float:
        return self.bottom - mm / self.top * (self.bottom - _TOP)


def lines_of(record: FollowUp) -> list[Line]:
    """The lines to draw, lesions first, then the sum."""
    lines, visits = [], visits_of(record)
    numbers = [visits.number_of(study.key) for study in record.studies]
    for number, lesion in enumerate(record.lesions):
        values = tuple(diameter_mm(lesion, visits.finding(lesion.id, visit)) for visit in numbers)
        colour = _COLOURS[number % len(_COLOURS)]
        if any(values):  # not only zeros
            lines.append(Line(lesion.label, values, colour, "target" if lesion.target else "other"))
    sums = {each.study: each.sum_mm for each in responses(record)}
    values = tuple(sums.get(study.key) for study in record.studies)
    if any(value is not None for value in values):
        lines.append(Line(_SUM_NAME, values, "currentColor", "sum"))
    return lines


def trend_svg(record: FollowUp, width: int = 900, height: int = 340) -> str:
    """The chart, or "" where there is nothing confirmed to draw. Text and the sum are in the colour around it.

    width, height: in units of which its letters are 12 high; the page sets its size.
    """
    lines = lines_of(record)
    if not lines:
        return ""
    step = tick_step(max(value for line in lines for value in line.values if value is not None), _TICKS)
    top = step * math.ceil(max(value or 0 for line in lines for value in line.values) / step + 1e-9)
    frame = _Frame(width, height, top)
    xs = [frame.x(share) for share in study_positions(record.studies)]
    parts = [*_grid(frame, step), *_dates(frame, record.studies, xs)]
    for line in lines:
        parts += _drawn(frame, line, record.studies, xs)
    parts += _names(frame, lines, xs)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" class="trend" viewBox="0 0 {width} {height}" role="img"'
        f' font-family="system-ui, sans-serif" font-size="12" fill="currentColor">'
        f"<title>Diameters over time, mm</title>{''.join(parts)}</svg>"
    )


def study_positions(studies: Sequence[Study]) -> list[float]:
    """Where each study stands, 0 to 1: by date; evenly where one has none or all have the same."""
    days = [study.date.toordinal() for study in studies if study.date is not None]
    if len(days) == len(studies) and max(days) > min(days):
        return [(day - min(days)) / (max(days) - min(days)) for day in days]
    last = len(studies) - 1
    return [number / last if last else 0.5 for number in range(len(studies))]


def tick_step(highest: float, ticks: int) -> float:
    """A round number of mm between ticks, of which about so many reach from 0 to the highest value."""
    rough = max(highest, 1.0) / ticks
    power = 10 ** math.floor(math.log10(rough))
    return next(step * power for step in (1, 2, 5, 10) if step * power >= rough * (1 - 1e-9))


def _grid(frame: _Frame, step: float) -> Iterator[str]:
    for number in range(round(frame.top / step) + 1):
        y = frame.y(number * step)
        yield (
            f'<path d="M{_LEFT} {y:.1f}H{frame.right}" stroke="currentColor" opacity=".16"/>'
            f'<text x="{_LEFT - 7}" y="{y + 4:.1f}" text-anchor="end" opacity=".7">{number * step:g}</text>'
        )
    yield f'<text x="{_LEFT - 7}" y="{_TOP - 14}" text-anchor="end" opacity=".7">mm</text>'


def _dates(frame: _Frame, studies: Sequence[Study], xs: Sequence[float]) -> Iterator[str]:
    free = -math.inf
    for study, x in zip(studies, xs, strict=True):
        yield f'<path d="M{x:.1f} {frame.bottom}v5" stroke="currentColor" opacity=".6"/>'
        if x >= free:
            free = x + _DATE_PX
            yield (
                f'<text x="{x:.1f}" y="{frame.bottom + 19}" text-anchor="middle" opacity=".8">'
                f"{_text(_short(study.label))}</text>"
            )


def _drawn(frame: _Frame, line: Line, studies: Sequence[Study], xs: Sequence[float]) -> Iterator[str]:
    """The line, dotted across studies in which nothing is confirmed, and a mark at each value."""
    known = [(n, xs[n], frame.y(mm)) for n, mm in enumerate(line.values) if mm is not None]
    width = 3 if line.kind == "sum" else 1.8
    for (n, x1, y1), (m, x2, y2) in pairwise(known):
        dash = ' stroke-dasharray="2 5"' if m > n + 1 else ' stroke-dasharray="7 4"' if line.kind == "other" else ""
        yield (
            f'<path d="M{x1:.1f} {y1:.1f}L{x2:.1f} {y2:.1f}" stroke="{line.colour}" stroke-width="{width}"'
            f' fill="none"{dash}/>'
        )
    for n, x, y in known:
        text = f"{line.name}, {studies[n].label}: {line.values[n]:.1f} mm"
        yield (
            f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{width + 1.7:.1f}" fill="{line.colour}">'
            f"<title>{_text(text)}</title></circle>"
        )


def _names(frame: _Frame, lines: Sequence[Line], xs: Sequence[float]) -> Iterator[str]:
    """Each line's name at its last mark; a thin dotted line leads to names that were moved apart."""
    for name in end_names(lines, xs, frame.y, Room(_NAME_PX, _LABEL_PX, _TOP, frame.bottom)):
        line, left = name.line, name.x + 11
        if name.is_moved:
            yield (
                f'<path class="leader" d="M{name.x + 5:.1f} {name.y:.1f}L{left - 1:.1f} {name.place:.1f}"'
                f' stroke="{line.colour}" fill="none" stroke-width=".8" opacity=".6" stroke-dasharray="1 2"/>'
            )
        weight = ' font-weight="650"' if line.kind == "sum" else ""
        yield (
            f'<text x="{left:.1f}" y="{name.place + 4:.1f}" fill="{line.colour}"{weight}{HALO}>'
            f"{_text(_short(line.name, int(frame.width - left) // 7))}</text>"
        )


@dataclass(frozen=True)
class Room:
    """Size of a name, and the limits for names; pixels from the picture's top."""

    width: float
    height: float
    top: float
    bottom: float


@dataclass(frozen=True)
class EndName:
    """A line's name: it belongs to the last mark at (x, y), and stands to its right at height `place`."""

    line: Line
    x: float
    y: float
    place: float

    @property
    def is_moved(self) -> bool:
        """Whether it stands so far from its mark that it needs a leader."""
        return abs(self.place - self.y) > _NEAR_PX


def end_names(lines: Sequence[Line], xs: Sequence[float], y_of: Callable[[float], float], room: Room) -> list[EndName]:
    """Names next to the lines' last marks, as near as possible: a long leader would look like growth."""
    ends = []
    for line in lines:
        last = max(n for n, value in enumerate(line.values) if value is not None)
        ends.append((xs[last], y_of(line.values[last]), line))
    columns: list[list[tuple[float, float, Line]]] = []
    for end in sorted(ends, key=lambda end: end[0]):
        if not columns or end[0] - columns[-1][-1][0] >= room.width:
            columns.append([])
        columns[-1].append(end)
    names = []
    for column in columns:
        column.sort(key=lambda end: end[1])
        places = spread([y for _, y, _ in column], room.height, room.top, room.bottom)
        names += [EndName(line, x, y, place) for (x, y, line), place in zip(column, places, strict=True)]
    return names


def spread(wanted: Sequence[float], gap: float, low: float, high: float) -> list[float]:
    """Ascending places near the ascending ones wanted, `gap` apart and within the limits; closer together where there
    is not enough room.
    """
    gap = min(gap, (high - low) / max(len(wanted) - 1, 1))
    places: list[float] = []
    for value in wanted:
        places.append(max(value, low if not places else places[-1] + gap))
    limit = high
    for number in reversed(range(len(places))):
        places[number] = limit = min(places[number], limit)
        limit -= gap
    return places


def _text(value: str) -> str:
    """Escaped, and without control characters, which XML cannot hold."""
    return escape("".join(char if char.isprintable() else " " for char in value))


def _short(text: str, most: int = 22) -> str:
    return text if len(text) <= most else f"{text[: most - 1]}…"
