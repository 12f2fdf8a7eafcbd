"""What an evaluation of follow-ups measured, as tables and JSON."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from ..followup.assignment import SAME
from ..followup.lesions import MERGED, OUTSIDE
from ..followup.status import DISAPPEARED, NEW, SPLIT
from .results import Section, as_markdown, as_text, summarise

_CLOSE_MM = 10.0
_STATES = (SAME, SPLIT, MERGED, DISAPPEARED, NEW, OUTSIDE)
UNCHANGED, RESHAPED, GONE = "same lesion", "split or merged", "gone (its tissue)"


# Centre point matching rates (CPM). Three papers call different things by the same two names, so figures of different
# columns cannot be compared. DLT: Cai et al., CVPR 2021, and their script. UAE: Yan et al., TMI 2022, and their
# repository. TLT: Tang et al., MICCAI 2022, and their code, which counts in voxels.
MEANINGS = {
    "CPM@Radius as DLT: offset < radius": "dlt_radius",
    "CPM@10mm as DLT: offset <= radius and 10 mm": "dlt_10",
    "CPM@Radius as UAE: in the target's box": "uae_radius",
    "CPM@10mm as UAE: offset <= 10 mm": "uae_10",
    "CPM@Radius as TLT: voxels < box diagonal": "tlt_radius",
    "CPM@10 as TLT: voxels < box diagonal and 10": "tlt_10",
}
_NO_LESS = 1e-3  # mm, as in DLT's script


@dataclass(frozen=True, eq=False)
class CentrePoints:
    """Answers for the centres of n lesions. offsets_mm: (n, 3) answer less truth along the axes that the box has.
    spacing_mm: (n, 3) of the target's voxels along them. radius_mm: (n,) half the longest diameter.
    from_corner_mm, box_mm: (n, 3) answer less the box's least corner, and the box's size.
    """

    offsets_mm: np.ndarray
    spacing_mm: np.ndarray
    radius_mm: np.ndarray
    from_corner_mm: np.ndarray
    box_mm: np.ndarray

    @property
    def errors_mm(self) -> np.ndarray:
        """(n,) distance of answer and truth."""
        return np.linalg.norm(self.offsets_mm, axis=1)

    def hits(self) -> dict[str, np.ndarray]:
        """Name of `MEANINGS` -> (n,) bool."""
        error = self.errors_mm
        voxels = np.linalg.norm(self.offsets_mm / self.spacing_mm, axis=1)
        diagonal = np.linalg.norm(self.box_mm / self.spacing_mm, axis=1)
        in_box = ((self.from_corner_mm >= 0) & (self.from_corner_mm <= self.box_mm)).all(axis=1)
        found = {
            "dlt_radius": error < np.maximum(self.radius_mm, _NO_LESS),
            "dlt_10": error <= np.minimum(self.radius_mm, 10.0),
            "uae_radius": in_box,
            "uae_10": error <= 10.0,
            "tlt_radius": voxels < diagonal,
            "tlt_10": voxels < np.minimum(10.0, diagonal),
        }
        return {name: found[key] for name, key in MEANINGS.items()}

    def rates(self) -> dict[str, float]:
        """Name of `MEANINGS` -> share of the lesions."""
        return {name: float(hit.mean()) for name, hit in self.hits().items()}


@dataclass(frozen=True, eq=False)
class Placed:
    """n lesions carried over to another study that shows their place. group: (n,) UNCHANGED, RESHAPED or GONE; the
    truth is the middle of what the lesion has become, or where its tissue went. status: (n,) what matching said.
    """

    points: CentrePoints
    group: np.ndarray
    status: np.ndarray

    def matched(self) -> np.ndarray:
        """(n,) bool: within the lesion's radius, or 10 mm."""
        return self.points.errors_mm <= np.maximum(self.points.radius_mm, _CLOSE_MM)


@dataclass(frozen=True, eq=False)
class FollowUpResult:
    """placed: places found. links: right, wrong and missing ones between lesions of two studies. states: (true, told)
    words of lesions -> how many. outside: lesions carried to a scan that does not show them -> how many were said so.
    """

    model: str
    patients: int
    placed: Placed
    links: tuple[int, int, int]
    states: Mapping[tuple[str, str], int]
    outside: tuple[int, int]
    seconds: Mapping[str, float]

    @property
    def f1(self) -> float:
        right, wrong, missing = self.links
        return 2 * right / max(2 * right + wrong + missing, 1)

    @property
    def states_right(self) -> float:
        return sum(n for (true, told), n in self.states.items() if true == told) / max(sum(self.states.values()), 1)

    @property
    def share_matched(self) -> float:
        """Of lesions that both studies show, those found within their radius or 10 mm."""
        return float(self.placed.matched()[self.placed.group != GONE].mean())

    def _sections(self) -> list[Section]:
        right, wrong, missing = self.links
        found, count = self.outside
        rows = [("mm", "lesions", "within radius or 10", "mean", "median", "90 %")]
        there = self.placed.group != GONE
        groups = {"shown by both": there} | {g: self.placed.group == g for g in (UNCHANGED, RESHAPED, GONE)}
        for name, chosen in groups.items():
            if chosen.any():
                known = summarise(self.placed.points.errors_mm[chosen])
                close = self.placed.matched()[chosen].mean()
                rows.append(
                    (name, str(known.n), f"{close:.1%}", f"{known.mean:.1f}", f"{known.median:.1f}", f"{known.p90:.1f}")
                )
        words = [("true", "lesions", "told right", *_STATES)]
        for true in _STATES:
            told = [self.states.get((true, word), 0) for word in _STATES]
            if sum(told):
                share = self.states.get((true, true), 0) / sum(told)
                words.append((true, str(sum(told)), f"{share:.1%}", *(str(n) if n else "" for n in told)))
        words.append(("all", str(sum(self.states.values())), f"{self.states_right:.1%}", *[""] * len(_STATES)))
        rates = _chosen(self.placed.points, there).rates()
        return [
            Section(
                f"Places of lesions in other studies ({self.model}, {self.patients} synthetic patients)",
                tuple(rows),
                (f"said not to be in the scan, of those that are not: {found} of {count}",) if count else (),
            ),
            Section(
                "Centre point matching, shown by both studies",
                (("share", "found"), *((what, f"{rate:.4f}") for what, rate in rates.items())),
                (
                    "Synthetic patients, of the family that the shipped weights were partly trained on:",
                    "not to be set beside figures of DeepLesion.",
                ),
            ),
            Section(
                "Which lesion is which, marked in both studies",
                (
                    ("", "links", "precision", "recall", "F1"),
                    (
                        "all",
                        str(right + missing),
                        f"{right / max(right + wrong, 1):.3f}",
                        f"{right / max(right + missing, 1):.3f}",
                        f"{self.f1:.3f}",
                    ),
                ),
            ),
            Section("What became of them", tuple(words)),
            Section("Seconds", (("", "mean"), *((what, f"{value:.2f}") for what, value in self.seconds.items()))),
        ]

    def table(self) -> str:
        """The result as aligned text."""
        return as_text(self._sections())

    def markdown(self) -> str:
        """The result as Markdown tables."""
        return as_markdown(self._sections())

    def to_json(self) -> str:
        """The result as JSON text."""
        there = self.placed.group != GONE
        groups = {
            name: vars(summarise(self.placed.points.errors_mm[self.placed.group == name]))
            | {"within_radius_or_10_mm": float(self.placed.matched()[self.placed.group == name].mean())}
            for name in (UNCHANGED, RESHAPED, GONE)
            if (self.placed.group == name).any()
        }
        right, wrong, missing = self.links
        values = {
            "unit": "mm",
            "model": self.model,
            "patients": self.patients,
            "matched": self.share_matched,
            "places": groups,
            "centre_point_matching": _chosen(self.placed.points, there).rates(),
            "outside_found": list(self.outside),
            "links": {"right": right, "wrong": wrong, "missing": missing, "f1": self.f1},
            "states_right": self.states_right,
            "states": [{"true": t, "told": w, "lesions": n} for (t, w), n in sorted(self.states.items())],
            "seconds": dict(self.seconds),
        }
        return json.dumps(values, indent=1)


def _chosen(points: CentrePoints, which: np.ndarray) -> CentrePoints:
    return CentrePoints(*(values[which] for values in vars(points).values()))
