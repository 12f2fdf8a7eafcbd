"""Measure places found by words on labelled scans.

    python Testing/benchmarks/word_places.py DEV

IOR (inside organ ratio) and NVD (nearest voxel distance) are defined by Grujicic et al. 2020. Their data differ from
ours, so the figures cannot be compared with those of their paper.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from AnatomicalEmbedding import load_model
from AnatomicalEmbedding.anatomy.names import SIDES, VERTEBRAE, whole_name
from AnatomicalEmbedding.anatomy.terms import load_terms
from AnatomicalEmbedding.scan.label_map import LabelMap
from AnatomicalEmbedding.structures.labelled_scans import load_cases
from AnatomicalEmbedding.words import Place, PlaceFinder

GROUPS = ("organs", "vessels", "muscles", "bones", "vertebrae", "ribs", "all")
_LEAST_ML = 0.1
_SAMPLE = 3000  # voxels of a structure that regions are compared with


@dataclass(frozen=True)
class PlaceResult:
    """One structure in one scan. distance_mm: of the point to the structure, 0 inside; None where called outside.
    wrong_side: nearer to the same structure of the other side. level: how many levels off, of vertebrae and ribs.
    shares: of the structure in the regions of 50 and 90 %.
    """

    group: str
    distance_mm: float | None = None
    wrong_side: bool | None = None
    level: int | None = None
    shares: tuple[float, float] = (0.0, 0.0)


def judge(finder: PlaceFinder, labels: LabelMap) -> list[PlaceResult]:
    """Every structure of a label map."""
    terms = load_terms()
    values: dict[str, list[int]] = {}
    for label, value in labels.values.items():
        if whole_name(label) in terms.by_name:
            values.setdefault(whole_name(label), []).append(value)
    ml = abs(float(np.linalg.det(labels.ijk_to_ras[:3, :3]))) / 1000
    voxels = {name: np.argwhere(np.isin(labels.voxels, of))[:, ::-1] for name, of in values.items()}
    ras = {
        name: of @ labels.ijk_to_ras[:3, :3].T + labels.ijk_to_ras[:3, 3]
        for name, of in voxels.items()
        if len(of) * ml >= _LEAST_ML
    }
    results = []
    for name in ras:
        # ventricles lie in the brain
        parts = [other for other in values if terms[other].parent == name]
        held = [value for each in (name, *parts) for value in values[each]]
        results.append(_judged(finder, labels, name, held, ras))
    return results


def group_of(name: str) -> str:
    """One of GROUPS."""
    numbered = {"vertebrae": "vertebrae", "rib": "ribs"}.get(name.split("_")[0])
    group = numbered or load_terms()[name].group
    return group if group in GROUPS else "organs"


def _judged(
    finder: PlaceFinder, labels: LabelMap, name: str, held: list[int], ras: dict[str, np.ndarray]
) -> PlaceResult:
    place = finder.place(name)
    shares = tuple(_share_in(finder, place, share, ras[name]) for share in (0.5, 0.9))
    if place.point_ras is None:
        return PlaceResult(group_of(name), shares=shares)
    distance = (
        0.0 if labels.at(place.point_ras[None])[0] in held else _nearest(place.point_ras, ras[name])
    )
    left, right = SIDES
    mirror = name.replace(left, right) if left in name else name.replace(right, left)
    wrong = mirror in ras and mirror != name and distance > _nearest(place.point_ras, ras[mirror])
    level = None
    if group_of(name) in ("vertebrae", "ribs"):
        stem, number = name.rsplit("_", 1)
        nearest = min(
            (n for n in ras if n.rsplit("_", 1)[0] == stem),
            key=lambda n: _nearest(place.point_ras, ras[n]),
        )
        order = [*VERTEBRAE, *(str(n) for n in range(13))]
        level = order.index(nearest.rsplit("_", 1)[1]) - order.index(number)
    return PlaceResult(group_of(name), distance, wrong, level, shares)


def _nearest(point: np.ndarray, ras: np.ndarray) -> float:
    return float(np.sqrt(np.square(ras - point).sum(axis=1).min()))


def _share_in(finder: PlaceFinder, place: Place, share: float, ras: np.ndarray) -> float:
    """Share of points (n, 3) RAS mm in the smallest region that holds `share` of the place's total chance."""
    inner = place.region.values >= place.least_chance(share)
    ras = ras[:: max(len(ras) // _SAMPLE, 1)]
    cell = np.rint((ras - finder.grid.origin) / finder.grid.step).astype(int) - place.region.first
    inside = ((cell >= 0) & (cell < inner.shape[::-1])).all(axis=1)
    i, j, k = cell[inside].T
    return float(inner[k, j, i].sum() / len(ras))


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path)
    options = parser.parse_args()
    model = load_model("auto", "cpu")
    results: list[PlaceResult] = []
    for case in load_cases(options.folder):
        if case.labels is not None:
            results += judge(PlaceFinder(model.embed(case.volume), case.volume), case.label_map)
    print(
        "| group | structures | IOR | NVD mm | wrong side | right level | called outside | in 50 % | in 90 % |"
    )
    print("|---|---|---|---|---|---|---|---|---|")
    for group in GROUPS:
        of = [r for r in results if group in (r.group, "all")]
        found = [r for r in of if r.distance_mm is not None]
        if not found:
            continue
        distance = np.array([r.distance_mm for r in found])
        levels = [r.level == 0 for r in found if r.level is not None]
        half, most = np.mean([r.shares for r in of], axis=0)
        print(
            f"| {group} | {len(of)} | {(distance == 0).sum() / len(of):.1%} | {distance.mean():.1f} "
            f"| {np.mean([r.wrong_side for r in found]):.1%} | {f'{np.mean(levels):.1%}' if levels else '-'} "
            f"| {1 - len(found) / len(of):.1%} | {half:.0%} | {most:.0%} |"
        )


if __name__ == "__main__":
    main()
