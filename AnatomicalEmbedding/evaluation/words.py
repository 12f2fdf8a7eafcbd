"""Places by words, on labelled scans: are their points in the structure, on the right side, at the right level?

IOR (inside organ ratio) and NVD (nearest voxel distance) are Grujicic 2020's; NVD-O, over misses alone, is the mean
over non-zero distances, as in that paper's code. Their data are others than ours: figures do not compare.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass

import numpy as np

from ..anatomy.names import LEFT, RIGHT, VERTEBRAE
from ..anatomy.terms import load_terms
from ..structures.labelled_scans import Case, LabelMap
from ..words.organ_parts import whole_name
from ..words.placing import OUTSIDE, Place, PlaceFinder

GROUPS = ("organs", "vessels", "muscles", "bones", "vertebrae", "ribs")
_LEAST_VOXELS_ML = 0.1
_COMPLETE = 25  # labels of a scan that are taken for all there are of their kind
_MUSCLES = ("gluteus", "iliopsoas", "autochthon", "gluteal")
_SAMPLE = 3000


@dataclass(frozen=True)
class WordResult:
    """One structure in one scan. distance_mm: of the point to the structure, 0 inside; None where called outside.
    wrong_side: nearer to the same structure of the other side. level: how many levels off, of vertebrae and ribs.
    in_half, in_most: share of the structure in the regions of 50 and 90 %. cut: by the scan's border. present: False
    for a structure that the scan does not show.
    """

    scan: str
    name: str
    group: str
    present: bool
    cut: bool
    status: str
    distance_mm: float | None
    wrong_side: bool
    level: int | None
    in_half: float
    in_most: float
    ms: float


@dataclass(frozen=True)
class WordResults:
    """model: whose maps. results: of every structure."""

    model: str
    results: tuple[WordResult, ...]

    def rows(self) -> list[list[str]]:
        """Lines of a table: group, number, IOR, NVD, NVD-O, wrong side, called outside, in 50 %, in 90 %, ms."""
        lines = []
        for group in (*GROUPS, "all"):
            of = [r for r in self.results if r.present and group in (r.group, "all")]
            if not of:
                continue
            distance = np.array([r.distance_mm for r in of if r.distance_mm is not None])
            misses = distance[distance > 0]
            sided = [r for r in of if r.name.endswith(("_left", "_right")) or r.group == "ribs"]
            lines.append(
                [
                    group,
                    str(len(of)),
                    f"{(distance == 0).sum() / len(of):.1%}",
                    f"{distance.mean():.1f}" if len(distance) else "-",
                    f"{misses.mean():.1f}" if len(misses) else "-",
                    f"{np.mean([r.wrong_side for r in sided]):.1%}" if sided else "-",
                    f"{np.mean([r.status == OUTSIDE for r in of]):.1%}",
                    f"{np.mean([r.in_half for r in of]):.0%}",
                    f"{np.mean([r.in_most for r in of]):.0%}",
                    f"{np.median([r.ms for r in of]):.0f}",
                ]
            )
        return lines

    def notes(self) -> list[str]:
        """Sentences on absent structures and on levels."""
        absent = [r for r in self.results if not r.present]
        lines = []
        if absent:
            right = np.mean([r.status == OUTSIDE for r in absent])
            lines.append(f"{len(absent)} structures that the scans do not show: {right:.1%} called outside.")
        for group in ("vertebrae", "ribs"):
            level = np.array([r.level for r in self.results if r.present and r.group == group and r.level is not None])
            if len(level):
                lines.append(
                    f"{group}: {np.mean(level == 0):.1%} at the right level, {np.mean(np.abs(level) <= 1):.1%} within "
                    f"one ({len(level)})."
                )
        return lines

    def table(self) -> str:
        rows = [list(_HEADER), *self.rows()]
        widths = [max(len(row[n]) for row in rows) for n in range(len(_HEADER))]
        lines = ["  ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True)) for row in rows]
        return "\n".join([f"words to places, {self.model}", *lines, *self.notes()])

    def markdown(self) -> str:
        rows = [list(_HEADER), ["---"] * len(_HEADER), *self.rows()]
        return "\n".join([*("| " + " | ".join(row) + " |" for row in rows), "", *self.notes(), ""])

    def to_json(self) -> str:
        return json.dumps({"model": self.model, "results": [asdict(r) for r in self.results]}, indent=1)


_HEADER = (
    "group", "structures", "IOR", "NVD mm", "NVD-O mm", "wrong side", "called outside", "in 50 %", "in 90 %", "ms",
)  # fmt: skip


def evaluate_words(
    cases: Iterable[Case], model: object, progress: Callable[[float, str], None] = lambda share, what: None
) -> WordResults:
    """Every structure of every labelled scan, by its name. model: as `load_model` gives it.

    A scan with 25 or more labels is taken to show no other structure of TotalSegmentator's kind.
    """
    cases = [case for case in cases if case.labels is not None]
    results: list[WordResult] = []
    for number, case in enumerate(cases):
        progress(number / len(cases), case.id)
        volume = case.volume
        finder = PlaceFinder(model.embed(volume), volume)
        results += judge(case.id, finder, case.label_map)
    return WordResults(model.name, tuple(results))


def judge(scan: str, finder: PlaceFinder, labels: LabelMap) -> list[WordResult]:
    """Every structure of one label map, and those of the atlas that it lacks where it is complete."""
    terms = load_terms()
    named: dict[str, list[int]] = {}
    for label, value in labels.values.items():
        term = terms.by_name.get(whole_name(label))
        if term is not None:
            named.setdefault(term.name, []).append(value)
    ml = abs(float(np.linalg.det(labels.ijk_to_ras[:3, :3]))) / 1000
    voxels = {name: np.argwhere(np.isin(labels.voxels, values))[:, ::-1] for name, values in named.items()}
    voxels = {name: of for name, of in voxels.items() if len(of) * ml >= _LEAST_VOXELS_ML}
    places = {name: of @ labels.ijk_to_ras[:3, :3].T + labels.ijk_to_ras[:3, 3] for name, of in voxels.items()}
    last = np.array(labels.voxels.shape[::-1]) - 1
    results = []
    for name, ras in places.items():
        cut = bool(((voxels[name] == 0) | (voxels[name] == last)).any())
        held = [*named[name], *(value for part in _parts(name, named) for value in named[part])]
        results.append(_judged(scan, finder, labels, name, held, ras, places, cut))
    if len(named) >= _COMPLETE:
        results += [_absent(scan, finder, name) for name in sorted(absent_names(set(named)))]
    return results


def _parts(name: str, held: Iterable[str]) -> list[str]:
    """Organs outlined as parts of this one: a point in the ventricles lies in the brain."""
    terms = load_terms()
    return [
        other for other in held if terms[other].parent == name and terms[other].group == terms[name].group == "organs"
    ]


def absent_names(held: set[str]) -> set[str]:
    """Structures of the usual label set that a scan lacks, and whose wholes and parts it lacks too."""
    usual = {*_USUAL, *(f"vertebrae_{v}" for v in VERTEBRAE[:-1])}
    usual |= {f"rib_{side}_{n}" for side in (LEFT, RIGHT) for n in range(1, 13)}
    terms = load_terms()
    related = held | {whole for name in held for whole in terms.ancestors(name)}
    return {name for name in usual - related if held.isdisjoint(terms.ancestors(name))}


_USUAL = [
    "spleen",
    "kidney_right",
    "kidney_left",
    "liver",
    "stomach",
    "pancreas",
    "adrenal_gland_right",
    "adrenal_gland_left",
    "lung_upper_lobe_left",
    "lung_lower_lobe_left",
    "lung_upper_lobe_right",
    "lung_middle_lobe_right",
    "lung_lower_lobe_right",
    "trachea",
    "thyroid_gland",
    "duodenum",
    "urinary_bladder",
    "sacrum",
    "heart",
    "aorta",
    "brachiocephalic_trunk",
    "superior_vena_cava",
    "iliac_artery_left",
    "iliac_artery_right",
    "scapula_left",
    "scapula_right",
    "clavicula_left",
    "clavicula_right",
    "femur_left",
    "femur_right",
    "hip_left",
    "hip_right",
    "gluteus_maximus_left",
    "gluteus_maximus_right",
    "brain",
    "humerus_left",
    "humerus_right",
]


def group_of(name: str) -> str:
    """One of GROUPS."""
    if name.startswith("vertebrae_"):
        return "vertebrae"
    if name.startswith("rib_"):
        return "ribs"
    if name.startswith(_MUSCLES):
        return "muscles"
    group = load_terms()[name].group
    return group if group in GROUPS else "organs"


def _judged(
    scan: str,
    finder: PlaceFinder,
    labels: LabelMap,
    name: str,
    values: list[int],
    ras: np.ndarray,
    others: dict[str, np.ndarray],
    cut: bool,
) -> WordResult:
    start = time.perf_counter()
    place = finder.place(name)
    ms = 1000 * (time.perf_counter() - start)
    distance, wrong, level = None, False, None
    if place.point_ras is not None:
        point = place.point_ras[None]
        distance = 0.0 if labels.at(point)[0] in values else _nearest(point, ras)
        mirror = _mirrored(name)
        wrong = bool(distance > 0 and mirror in others and _nearest(point, others[mirror]) < distance)
        level = _level(name, place, others)
    half, most = (_share_in(place, place.mask(share).values, ras) for share in (0.5, 0.9))
    group = group_of(name)
    return WordResult(scan, name, group, True, cut, place.status, distance, wrong, level, half, most, round(ms, 1))


def _absent(scan: str, finder: PlaceFinder, name: str) -> WordResult:
    place = finder.place(name)
    return WordResult(scan, name, group_of(name), False, False, place.status, None, False, None, 0.0, 0.0, 0.0)


def _nearest(point: np.ndarray, ras: np.ndarray) -> float:
    return float(np.sqrt(np.square(ras - point).sum(axis=1).min()))


def _mirrored(name: str) -> str:
    if LEFT in name:
        return name.replace(LEFT, RIGHT)
    return name.replace(RIGHT, LEFT) if RIGHT in name else ""


def _level(name: str, place: Place, others: dict[str, np.ndarray]) -> int | None:
    """Levels that the nearest vertebra, or rib of the side, is off."""
    if name.startswith("vertebrae_"):
        known = {n: VERTEBRAE.index(n[10:]) for n in others if n.startswith("vertebrae_")}
    elif name.startswith("rib_"):
        stem = name.rsplit("_", 1)[0]
        known = {n: int(n.rsplit("_", 1)[1]) for n in others if n.startswith(stem)}
    else:
        return None
    nearest = min(known, key=lambda n: _nearest(place.point_ras[None], others[n]))
    return known[nearest] - known[name]


def _share_in(place: Place, mask: np.ndarray, ras: np.ndarray) -> float:
    ras = ras[:: max(len(ras) // _SAMPLE, 1)]
    cell = np.rint((ras - place.grid.origin) / place.grid.step).astype(int) - place.region.first
    inside = ((cell >= 0) & (cell < mask.shape[::-1])).all(axis=1)
    i, j, k = cell[inside].T
    return float(mask[k, j, i].sum() / len(ras))
