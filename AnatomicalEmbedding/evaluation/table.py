"""Evaluation results as tables, for a terminal and for Markdown."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Section:
    """A heading, a table (its first row the column names, its first column text) and sentences below it."""

    heading: str
    rows: tuple[tuple[str, ...], ...]
    notes: tuple[str, ...] = ()


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


def _align(cells: Sequence[str], widths: list[int]) -> list[str]:
    numbers = [cell.rjust(width) for cell, width in zip(cells[1:], widths[1:], strict=True)]
    return [cells[0].ljust(widths[0]), *numbers]
