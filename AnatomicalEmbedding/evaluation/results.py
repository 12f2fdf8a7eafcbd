"""Results of an evaluation: summaries, and tables as text for a terminal."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from ..files import aligned
from ..structures.label_names import GROUPS, group_of


class Section(NamedTuple):
    """A heading, a table and notes below the table. The first row has the column names, the first column is text."""

    heading: str
    rows: tuple[tuple[str, ...], ...]
    notes: tuple[str, ...] = ()


class Tables:
    """Base class of results that consist of sections; formats the sections as text."""

    def sections(self) -> list[Section]:
        """Return the sections of the result."""
        raise NotImplementedError

    def table(self) -> str:
        """Return the result as text with aligned columns, for a terminal."""
        blocks = []
        for heading, rows, notes in self.sections():
            lines = aligned(rows)
            if lines:
                widths = (max(map(len, column)) for column in zip(*rows, strict=True))
                lines.insert(1, "  ".join("-" * width for width in widths))
            blocks.append("\n".join([heading, *lines, *notes]))
        return "\n\n".join(blocks)


@dataclass(frozen=True, eq=False)
class MeasuredPair:
    """Results of one matcher at N points of a template and one target. kinds: kind of each point, such as "centre".

    errors_mm: (N,) distance between answer and truth in mm; NaN without an answer. seconds: time of the matching.
    inside: structure -> share of its inner points whose answers lie inside the same structure of the target.
    """

    matcher: str
    template: str
    target: str
    names: tuple[str, ...]
    kinds: tuple[str, ...]
    errors_mm: np.ndarray
    seconds: float
    inside: Mapping[str, float]

    @property
    def groups(self) -> tuple[str, ...]:
        """The group of each point: "centre", "extreme" or "landmark"."""
        return tuple(map(group_of, self.kinds))

    def to_dict(self) -> dict[str, Any]:
        """Return the values for JSON: the summary of each group of points, and the error of each point."""
        groups = np.array(self.groups)
        summaries = {
            group: vars(summarise(self.errors_mm[groups == group]))
            for group in GROUPS
            if group in self.groups
        }
        points = [
            {"name": name, "kind": kind, "error": round(error, 2) if np.isfinite(error) else None}
            for name, kind, error in zip(
                self.names, self.kinds, self.errors_mm.tolist(), strict=True
            )
        ]
        return {
            "matcher": self.matcher,
            "template": self.template,
            "target": self.target,
            "seconds": round(self.seconds, 4),
            **summaries,
            "inside": {name: round(share, 3) for name, share in self.inside.items()},
            "points": points,
        }


@dataclass(frozen=True)
class Summary:
    """Statistics of the errors of n points, mm; each is None if n is 0. missing: number of points without answer."""

    n: int
    missing: int
    mean: float | None = None
    median: float | None = None
    sd: float | None = None
    p90: float | None = None


def summarise(errors_mm: np.ndarray) -> Summary:
    """Summarise errors (N,) in mm; NaN means a point without answer."""
    answered = errors_mm[np.isfinite(errors_mm)]
    missing = len(errors_mm) - len(answered)
    if not len(answered):
        return Summary(0, missing)
    statistics = answered.mean(), np.median(answered), answered.std(), np.percentile(answered, 90)
    return Summary(len(answered), missing, *map(float, statistics))


@dataclass(frozen=True, eq=False)
class Result(Tables):
    """All measured errors. scan_seconds: for each matcher, mean seconds of the work that is done once for each scan.

    left_out: why structures were not measured: id of a labelled scan -> name of the structure -> reason.
    """

    matchers: tuple[str, ...]
    measured: tuple[MeasuredPair, ...]
    scan_seconds: dict[str, float]
    left_out: dict[str, dict[str, str]]
    notes: tuple[str, ...]

    def errors(self, matcher: str, group: str | None = None, name: str | None = None) -> np.ndarray:
        """Return a matcher's errors, (N,) mm.

        Args:
            matcher: name of the matcher.
            group: only errors at points of this group; None for all groups.
            name: only errors at points of this name; None for all names.
        """
        chosen = []
        for pair in self.measured:
            if pair.matcher != matcher:
                continue
            for point, kind, error in zip(pair.names, pair.groups, pair.errors_mm, strict=True):
                if group in (None, kind) and name in (None, point):
                    chosen.append(error)
        return np.array(chosen, np.float64)

    def summary(self, matcher: str, group: str | None = None, name: str | None = None) -> Summary:
        """Return the summary of a matcher's errors.

        Args:
            matcher, group, name: as for `errors`.
        """
        return summarise(self.errors(matcher, group, name))

    def inside(self, matcher: str, name: str) -> float:
        """Return the share of inner points of a structure, over all pairs, whose answers lie inside the structure."""
        shares = [
            m.inside[name] for m in self.measured if m.matcher == matcher and name in m.inside
        ]
        return float(np.mean(shares))

    def pair_seconds(self, matcher: str) -> float:
        """Return the mean seconds to match all points of one pair of scans, without the time to embed the scans."""
        return float(np.mean([pair.seconds for pair in self.measured if pair.matcher == matcher]))

    def pairs(self, group: str) -> int:
        """Return the number of pairs (template, target) in which points of this group were measured."""
        scans = {(pair.template, pair.target) for pair in self.measured if group in pair.groups}
        return len(scans)

    def names(self, group: str) -> list[str]:
        """Return the sorted names of the structures or landmarks that were measured in a group."""
        points = {
            point for pair in self.measured for point in zip(pair.names, pair.groups, strict=True)
        }
        return sorted(name for name, point_group in points if point_group == group)

    def sections(self) -> list[Section]:
        sections = [
            _group_section(self, group, heading)
            for group, heading in GROUPS.items()
            if self.names(group)
        ]
        if self.names("centre"):
            sections.append(_structure_section(self))
        if self.notes:
            sections.append(Section("Notes", (), self.notes))
        return sections

    def to_json(self) -> str:
        """Return JSON text with the summaries, and for every pair of scans the error of each point in mm."""
        values = {
            "unit": "mm",
            "matchers": {name: self._matcher_dict(name) for name in self.matchers},
            "pairs": [pair.to_dict() for pair in self.measured],
            "left_out": self.left_out,
            "notes": self.notes,
        }
        return json.dumps(values, indent=1, allow_nan=False)

    def _matcher_dict(self, matcher: str) -> dict[str, Any]:
        """Return the values of a matcher for JSON: times, summaries by group, and by structure and group."""
        groups = [group for group in GROUPS if self.names(group)]
        structures = {}
        for name in self.names("centre"):
            structures[name] = {
                group: vars(self.summary(matcher, group, name)) for group in ("centre", "extreme")
            } | {"inside": self.inside(matcher, name)}
        return {
            "seconds_per_pair": self.pair_seconds(matcher),
            "seconds_per_scan": self.scan_seconds.get(matcher),
            "groups": {group: vars(self.summary(matcher, group)) for group in groups},
            "structures": structures,
        }


def _group_section(result: Result, group: str, heading: str) -> Section:
    """Return the table of one group of points, with a row for each matcher."""
    rows: list[tuple[str, ...]] = [
        ("mm", "mean", "median", "SD", "90 %", "points", "missing", "s/pair", "s/scan")
    ]
    for matcher in result.matchers:
        summary = result.summary(matcher, group)
        figures = map(in_mm, (summary.mean, summary.median, summary.sd, summary.p90))
        seconds = result.pair_seconds(matcher), result.scan_seconds.get(matcher)
        rows.append(
            (matcher, *figures, str(summary.n), str(summary.missing), *map(_seconds, seconds))
        )
    return Section(f"{heading} ({result.pairs(group)} ordered pairs)", tuple(rows))


def _structure_section(result: Result) -> Section:
    """Return the table of mean errors at centres and extremes, and of the share of inner points that land inside: a
    row for each structure, a column for each matcher."""
    rows = [("centre | extremes, mean mm | inside", "pairs", *result.matchers)]
    for name in result.names("centre"):
        cells = []
        for matcher in result.matchers:
            centre = result.summary(matcher, "centre", name)
            extreme = result.summary(matcher, "extreme", name)
            inside = result.inside(matcher, name)
            cells.append(f"{in_mm(centre.mean)} | {in_mm(extreme.mean)} | {inside:.2f}")
        pairs = len(result.errors(result.matchers[0], "centre", name))
        rows.append((name, str(pairs), *cells))
    means = []
    for matcher in result.matchers:
        mean = np.mean([result.inside(matcher, name) for name in result.names("centre")])
        means.append(f"{mean:.2f}")
    rows.append(("mean inside", "", *means))
    return Section("Each structure", tuple(rows))


def in_mm(value: float | None) -> str:
    return "-" if value is None else f"{value:.1f}"


def _seconds(value: float | None) -> str:
    if value is None:
        return "-"
    return f"{value:.3f}" if value < 0.1 else f"{value:.1f}"
