"""Evaluation results as tables, for a terminal and for Markdown."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .results import Result


@dataclass(frozen=True)
class Section:
    """A heading, a table (its first row the column names, its first column text) and sentences below it."""

    heading: str
    rows: tuple[tuple[str, ...], ...]
    notes: tuple[str, ...] = ()


def sections(result: Result, groups: Mapping[str, str]) -> list[Section]:
    """A table for each group of points measured (key -> heading), then one of every structure, then the notes."""
    found = [_group_section(result, group, heading) for group, heading in groups.items() if result.names(group)]
    if result.names("centre"):
        found.append(_structure_section(result))
    if result.notes:
        found.append(Section("Notes", (), result.notes))
    return found


def aligned(rows: Sequence[Sequence[str]]) -> list[str]:
    """Rows of equal length as lines: the first column to the left, the others to the right."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return ["  ".join(_align(cells, widths)).rstrip() for cells in rows]


def markdown_lines(rows: Sequence[Sequence[str]]) -> list[str]:
    """Rows of equal length, the first the column names, as a Markdown table."""
    escaped = [[cell.replace("|", "\\|") for cell in row] for row in rows]
    head, *body = ["| " + " | ".join(row) + " |" for row in escaped]
    return [head, "|---|" + "---:|" * (len(rows[0]) - 1), *body]


def as_text(tables: list[Section]) -> str:
    """Aligned columns, for a terminal."""
    blocks = []
    for section in tables:
        widths = [max(map(len, column)) for column in zip(*section.rows, strict=True)]
        lines = aligned(section.rows)
        rule = ["  ".join("-" * width for width in widths)] if lines else []
        blocks.append("\n".join([section.heading, *lines[:1], *rule, *lines[1:], *section.notes]))
    return "\n\n".join(blocks)


def as_markdown(tables: list[Section]) -> str:
    """Markdown, a heading of level 3 for each table."""
    blocks = []
    for section in tables:
        lines = [f"### {section.heading}", ""]
        if section.rows:
            lines += [*markdown_lines(section.rows), ""]
        blocks.append("\n".join([*lines, *section.notes]).rstrip())
    return "\n\n".join(blocks) + "\n"


def _group_section(result: Result, group: str, heading: str) -> Section:
    rows = [("mm", "mean", "median", "SD", "90 %", "points", "missing", "s/pair", "s/scan")]
    for matcher in result.matchers:
        summary = result.summary(matcher, group)
        rows.append(
            (
                matcher,
                *(_number(value) for value in (summary.mean, summary.median, summary.sd, summary.p90)),
                str(summary.n),
                str(summary.missing),
                _seconds(result.pair_seconds(matcher)),
                _seconds(result.scan_seconds.get(matcher)),
            )
        )
    return Section(f"{heading} ({result.pairs(group)} ordered pairs)", tuple(rows))


def _structure_section(result: Result) -> Section:
    rows = [("centre | extremes, mean mm", "pairs", *result.matchers)]
    for name in result.names("centre"):
        cells = []
        for matcher in result.matchers:
            centre, extreme = (result.summary(matcher, group, name) for group in ("centre", "extreme"))
            cells.append(f"{_number(centre.mean)} | {_number(extreme.mean)}")
        pairs = len(result.errors(result.matchers[0], "centre", name))
        rows.append((name, str(pairs), *cells))
    return Section("Each structure", tuple(rows))


def _align(cells: Sequence[str], widths: list[int]) -> list[str]:
    numbers = [cell.rjust(width) for cell, width in zip(cells[1:], widths[1:], strict=True)]
    return [cells[0].ljust(widths[0]), *numbers]


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.1f}"


def _seconds(value: float | None) -> str:
    return "-" if value is None else f"{value:.3f}" if value < 0.1 else f"{value:.1f}"
