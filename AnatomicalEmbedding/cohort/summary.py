"""Summaries of a cohort: parts of the body that its scans show, odd scans, and mean places of structures."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import Any

import numpy as np

from ..embedding.coverage import LEVELS_MM


def oddities(facts: Sequence[Mapping[str, Any]]) -> list[str]:
    """The faults of each scan that were found when it was embedded, in words, or ""."""
    return ["; ".join(each.get("faults", ())) for each in facts]


def coverage_svg(facts: Sequence[Mapping[str, Any]], title: str) -> str:
    """Draw how many scans show each body height, and each scan as a line; returns an SVG document."""
    width, height, left, top, bottom = 900, 520, 190, 50, 20
    low, high = -150.0, 900.0
    ordered = sorted(facts, key=lambda each: (each["low_mm"] + each["high_mm"]) / 2)
    heights = np.linspace(low, high, 211)
    counts = np.array([sum(each["low_mm"] <= at <= each["high_mm"] for each in ordered) for at in heights])
    most = max(int(counts.max()), 1) if len(ordered) else 1
    inner = height - top - bottom

    def y(at: float) -> float:
        return top + inner * (1 - (min(max(at, low), high) - low) / (high - low))

    curve = " ".join(f"{left + 180 * n / most:.1f},{y(at):.1f}" for at, n in zip(heights, counts, strict=True))
    first = left + 210
    step = (width - first - 20) / max(len(ordered), 1)
    lines = [
        f'<line x1="{first + (n + 0.5) * step:.2f}" x2="{first + (n + 0.5) * step:.2f}" y1="{y(each["low_mm"]):.1f}" '
        f'y2="{y(each["high_mm"]):.1f}" stroke="#2a8fa3" stroke-width="{max(min(step * 0.8, 6), 0.4):.2f}"/>'
        for n, each in enumerate(ordered)
    ]
    levels = []
    for name, at in LEVELS_MM.items():
        here = sum(each["low_mm"] <= at <= each["high_mm"] for each in ordered)
        levels.append(
            f'<line x1="{left}" x2="{width - 20}" y1="{y(at):.1f}" y2="{y(at):.1f}" stroke="#d5dae0"/>'
            f'<text x="{left - 8}" y="{y(at) + 4:.1f}" text-anchor="end">{escape(name)}: {here}</text>'
        )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" font-family="sans-serif" '
        f'font-size="12"><rect width="{width}" height="{height}" fill="#fff"/>'
        f'<text x="{left}" y="22" font-size="15">{escape(title)}: {len(ordered)} scans</text>'
        f'<text x="{left}" y="42" fill="#667">scans that show each height (most: {most})</text>'
        f'<text x="{first}" y="42" fill="#667">each scan, from its lower to its upper end</text>'
        f"{''.join(levels)}"
        f'<polygon points="{left},{y(low):.1f} {curve} {left},{y(high):.1f}" fill="#56c4d6" opacity="0.6"/>'
        f"{''.join(lines)}</svg>\n"
    )


@dataclass(frozen=True, eq=False)
class Population:
    """Mean place of one structure in the body frame, over the scans that show it whole.

    Args:
        scans: their number.
        middle_mm, size_mm: (3,) mean along right, anterior, superior; `_sd_mm`: standard deviation over the scans.
    """

    name: str
    scans: int
    middle_mm: np.ndarray
    middle_sd_mm: np.ndarray
    size_mm: np.ndarray
    size_sd_mm: np.ndarray


def population(boxes: Mapping[str, Iterable[np.ndarray]]) -> list[Population]:
    """Mean and spread of boxes (2, 3) in the body frame, by structure; structures without a box are left out."""
    found = []
    for name, of in boxes.items():
        every = np.array(list(of))
        if len(every):
            middle, size = every.mean(axis=1), every[:, 1] - every[:, 0]
            spread = [values.std(axis=0, ddof=1) if len(every) > 1 else np.full(3, np.nan) for values in (middle, size)]
            found.append(Population(name, len(every), middle.mean(axis=0), spread[0], size.mean(axis=0), spread[1]))
    return found


def in_frame(frame: Sequence[Sequence[float]], box_ras: np.ndarray) -> np.ndarray:
    """Map a box (2, 3) RAS mm of a scan to the body frame, by the scan's affine fit (4, 3)."""
    fit = np.asarray(frame)
    middle, half = box_ras.mean(axis=0), (box_ras[1] - box_ras[0]) / 2
    centre, reach = middle @ fit[:3] + fit[3], half @ np.abs(fit[:3])
    return np.stack([centre - reach, centre + reach])
