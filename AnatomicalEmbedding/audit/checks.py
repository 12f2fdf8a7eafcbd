"""The checks of one labelled scan: sides, names, levels, pieces, volumes, cut ends, grids, tissue, overlaps, shifts."""

from collections.abc import Sequence
from itertools import combinations, pairwise

import numpy as np

from ..anatomy.names import SIDES, canonical_name, other_side
from ..anatomy.terms import load_terms
from ..embedding.map import EmbeddingMap
from ..embedding.orientation import FAULTS
from ..scan.checks import size_text
from ..scan.geometry import GRIDS_AGREE_MM, corner_distance_mm, transform_points
from ..scan.label_map import LabelMap, Overlap
from ..scan.volume import Volume
from .findings import AuditFinding, judge
from .measuring import MeasuredLabel
from .relations import SPINE, Relations
from .usual import Usual

# limits of `judge`: for the decrease of the cost by another explanation, or for a cost
_SIDE, _EXCHANGED, _RENAMED, _FAR = (5.0, 2.0), (8.0, 2.5), (9.0, 3.0), (15.0, 3.0)
# a label is renamed if its own place costs more, and another place less
_FAR_COST, _NEAR_COST = 8.0, 6.0
_PIECE_MM = (20.0, 6.0)  # limit: a piece is stray if it is this much farther away than usual
_OUTSIDE_MM = 20.0  # added for labels that the border cuts, as the pieces may be connected outside of the scan
# limits, in standard deviations of the logarithm; of `MeasuredLabel.flat`
_VOLUME, _FLAT = (3.6, 0.5), (0.28, 0.06)
_FEWEST_PATIENTS = 5  # in the table
# limits: by which share of the usual distance a lower number lies lower; by how many vertebrae a gap is off
_ORDER, _GAP = (0.45, 0.1), (0.52, 0.08)
# the last two ribs are left out: they are short, and often missing
_RIBS = tuple(tuple(f"rib_{side}_{n}" for n in range(1, 11)) for side in SIDES)
_AIR_HU = -400.0  # darker voxels of a label lie in air or lung; by hand, not tuned
# Voxels of these tissues, and of structures whose names begin so, may be dark: they contain air, or lie at air.
_AIRY = (
    {"air", "lung", "bowel", "fat", "any"},
    ("esophagus", "duodenum", "rectum", "larynx", "pulmonary"),
)
_VOXELS = 3000  # so many voxels of a label are compared with the scan
_OUTSIDE_SHARE, _OVERLAP_SHARE = (0.2, 0.05), (0.15, 0.05)  # limits
_LEAST_OVERLAP_ML = 0.5  # smallest overlap of two labels that is reported; by hand
_SHIFTED_MM, _ONE_LABEL_MM = 25.0, 20.0  # limit of a shift; added for one label, less for several
_FEWEST_SHIFTED = 2  # one label alone may be wrong itself
_CERTAIN, _MIRRORED, _FAULT = 0.99, 0.93, 0.8  # scores


def check_labels(relations: Relations) -> list[AuditFinding]:
    """Compare the labels of a scan with one another, with the usual body and with the scan's map."""
    findings = _check_names(relations) + _check_numbers(relations) + _check_shapes(relations)
    reason = relations.explanation
    if reason is not None:
        return findings + judge(reason.problem, relations.gain, reason.limit, reason.text)
    return findings + _check_shift(relations)


def _check_names(relations: Relations) -> list[AuditFinding]:
    """Find labels that would fit better with another name, or far from their place. Each label gets one finding."""
    rows = relations.fit.rows
    # (label, structure): by place, and by place and volume
    place_costs, costs = relations.costs
    better = (
        costs[np.arange(len(rows)), rows][:, None] - costs
    )  # by how much another name decreases the cost of a label
    findings = _check_pairs(relations, better)
    # one label that would fit better with a name that no label has
    usual = relations.usual
    free = ~np.isin(np.arange(len(usual.names)), rows)
    for n, label in enumerate(relations.scan.labels):
        name = relations.fit.names[n]
        opposite = usual.index.get(other_side(name), rows[n])
        if free[opposite]:
            text = _place_text(label, usual.names[opposite])
            findings += judge("side", better[n, opposite], _SIDE, text, label)
        best = int(np.where(free, better[n], -np.inf).argmax())
        expected_ras = relations.expected_ras(name)
        if label.is_cut or expected_ras is None:
            continue
        place_cost = place_costs[n, rows[n]]
        if place_cost > _FAR_COST and costs[n, best] < _NEAR_COST:
            text = _place_text(label, usual.names[best])
            findings += judge("exchanged", better[n, best], _RENAMED, text, label)
        away = float(np.linalg.norm(label.centre_ras - expected_ras))
        text = f"{label.text} ({label.volume_ml:.1f} ml) lies {away:.0f} mm from its usual place"
        findings += judge("stray", place_cost, _FAR, text, label)
    return _most_certain(findings)


def _check_pairs(relations: Relations, better: np.ndarray) -> list[AuditFinding]:
    """Find two labels that would fit better with each other's names. better: (n, u), see `_check_names`."""
    names = relations.fit.names
    rows = relations.fit.rows
    labels = relations.scan.labels
    findings = []
    for n, m in combinations(range(len(rows)), 2):
        gains = better[n, rows[m]], better[m, rows[n]]
        text = f"the names {labels[n].text} and {labels[m].text} seem to be exchanged"
        if other_side(names[n]) == names[m]:
            findings += judge("side", sum(gains), _SIDE, text, labels[n], labels[m])
        elif min(gains) > 0 and not _is_part(names[n], names[m]):
            findings += judge("exchanged", sum(gains), _EXCHANGED, text, labels[n], labels[m])
    return findings


def _place_text(label: MeasuredLabel, name: str) -> str:
    return f"{label.text} lies where {load_terms()[name].title} usually lies"


def _most_certain(findings: list[AuditFinding]) -> list[AuditFinding]:
    """Return the findings, the most certain first, without those of a label that an earlier finding explains."""
    chosen = []
    explained: set[str] = set()
    for finding in sorted(findings, key=lambda finding: -finding.score):
        wrong = {label.text for label in finding.labels}
        if not wrong & explained:
            chosen.append(finding)
            explained |= wrong
    return chosen


def _is_part(first: str, second: str) -> bool:
    """Whether one of two structures is a part of the other, or may be, as its name is unknown."""
    terms = load_terms()
    if not {first, second} <= terms.by_name.keys():
        return True
    return first in terms.ancestors(second) or second in terms.ancestors(first)


def _check_numbers(relations: Relations) -> list[AuditFinding]:
    """Find vertebrae and ribs in the wrong order, and vertebrae whose distance does not fit their numbers, for example
    T12 directly above L2."""
    if relations.fit.frame.scale[2] <= 0:  # the scan is upside down
        return []
    findings = []
    for series in (SPINE, *_RIBS):
        wrong, gaps = _check_series(relations, series)
        if wrong:
            findings += wrong
        elif series is SPINE:
            findings += gaps
    return findings


def _check_series(
    relations: Relations, series: Sequence[str]
) -> tuple[list[AuditFinding], list[AuditFinding]]:
    """Find labels in the wrong order, and labels whose distance does not fit their numbers: two lists.

    The distances of neighbours are compared with their usual distances; the median ratio is the size of the patient.
    series: structures in the order of their numbers, from the head downwards.
    """
    scan = relations.scan
    whole = {name: n for n, name in enumerate(relations.fit.names) if not scan.is_cut[n]}
    names = [name for name in series if name in relations.usual.index]
    order = [n for n, name in enumerate(names) if name in whole]
    if len(order) < 2:
        return [], []
    # of labels that follow each other: the measured distance divided by the usual one, below 0 in the wrong order
    rows = [whole[names[n]] for n in order]
    usual_mm = _usual_ways(names, relations.usual)
    ratio = -np.diff(scan.centres[rows, 2]) / np.diff(usual_mm[order])
    off = (ratio / np.median(ratio) - 1) * np.diff(order)  # in numbers
    wrong = []
    gaps = []
    for n, (upper, lower) in enumerate(pairwise(scan.labels[row] for row in rows)):
        text = f"{upper.text} lies below {lower.text}: the names seem to be exchanged"
        wrong += judge("exchanged", -ratio[n], _ORDER, text, upper, lower)
        distance = "farther apart" if off[n] > 0 else "closer together"
        text = f"{upper.text} and {lower.text} lie {distance} than their numbers say"
        gaps += judge("level", abs(off[n]), _GAP, text, upper, lower)
    return wrong, gaps


def _usual_ways(names: list[str], usual: Usual) -> np.ndarray:
    """Return the usual distances (n,), mm, from the first of n neighbouring structures down to each, smoothed."""
    heights_mm = usual.places[[usual.index[name] for name in names], 2]
    distances_mm = np.maximum(-np.diff(heights_mm), 8.0)
    smooth = np.convolve(np.pad(distances_mm, 1, mode="edge"), np.full(3, 1 / 3), mode="valid")
    return np.append(0, smooth.cumsum())


def _check_shapes(relations: Relations) -> list[AuditFinding]:
    """Find stray pieces, unusual volumes, and labels that end with a large flat slice, as if a part were missing."""
    usual = relations.usual
    scan = relations.scan
    findings = []
    is_scaled = relations.explanation is not None and relations.explanation.problem == "geometry"
    for label, row, log_volume in zip(
        scan.labels, relations.fit.rows, scan.log_volumes, strict=True
    ):
        for piece in label.pieces:
            # a gap may lie outside the scan, so cut labels may have wider ones
            farther = piece.away_mm - usual.gap_mm[row] - _OUTSIDE_MM * label.is_cut
            text = f"a piece of {label.text} ({piece.volume_ml:.1f} ml) lies {piece.away_mm:.0f} mm from the rest"
            findings += judge("stray", farther, _PIECE_MM, text, label, point_ras=piece.point_ras)
        if usual.patients[row] < _FEWEST_PATIENTS:
            continue
        text = f"{label.text} ends with a slice of {label.flat:.0%} of its largest area, as if it were cut off"
        findings += judge("cut", label.flat - usual.flat[row], _FLAT, text, label)
        # the volume of a label at the border of the scan, or of a scan with wrong voxel sizes, says nothing
        if not label.is_cut and not is_scaled:
            off = abs(log_volume - usual.volume[row]) / usual.volume_spread[row]
            text = f"{label.text} has {label.volume_ml:.1f} ml; usual are about {np.exp(usual.volume[row]):.3g} ml"
            findings += judge("volume", off, _VOLUME, text, label)
    return findings


def _check_shift(relations: Relations) -> list[AuditFinding]:
    """Find labels that are all shifted relative to the scan, by the body coordinates at the labels."""
    scan = relations.scan
    usable = ~scan.is_cut & np.isfinite(scan.body[:, 0])
    if usable.sum() < _FEWEST_SHIFTED:
        return []
    off = (scan.body - relations.usual.places[relations.fit.rows])[usable]
    away = float(np.linalg.norm(np.median(off, axis=0)))
    text = f"all labels lie about {away:.0f} mm from where the scan shows their structures, as if they were shifted"
    return judge("geometry", away, (_SHIFTED_MM + _ONE_LABEL_MM / np.sqrt(usable.sum()), 5.0), text)


def check_map(embedding: EmbeddingMap) -> list[AuditFinding]:
    """Report the faults of a scan that its map shows: mirrored, upside down, joined, wrong voxel size."""
    findings = []
    for fault in embedding.faults:
        text = f"according to the scan's anatomy, {fault}"
        if fault in FAULTS:
            findings.append(AuditFinding("mirrored", _MIRRORED, text))
        else:
            findings.append(AuditFinding("geometry", _FAULT, text))
    return findings


def check_grids(volume: Volume, labels: LabelMap) -> list[AuditFinding]:
    """Compare the grid of a scan with the grid of its labels."""
    if volume.shape != labels.voxels.shape:
        sizes = (size_text(shape[::-1]) for shape in (volume.shape, labels.voxels.shape))
        text = "the scan has {} voxels, its labels have {}".format(*sizes)
        return [AuditFinding("geometry", _CERTAIN, text)]
    away = corner_distance_mm(volume.ijk_to_ras, labels.ijk_to_ras, volume.shape)
    text = f"the headers of scan and labels place the same voxel up to {away:.1f} mm apart"
    return [AuditFinding("geometry", _CERTAIN, text)] if away > GRIDS_AGREE_MM else []


def check_tissue(
    volume: Volume, labels: LabelMap, measured: Sequence[MeasuredLabel]
) -> list[AuditFinding]:
    """Find labels that lie partly in air, which is outside of the body.

    Args:
        volume: the scan.
        labels: its labels.
        measured: the measured labels.
    """
    findings = []
    for label in measured:
        term = load_terms().by_name.get(label.name)
        if term is None or term.tissue in _AIRY[0] or term.name.startswith(_AIRY[1]):
            continue
        voxels = np.argwhere(labels.mask(label.text))[:, ::-1]
        points = transform_points(labels.ijk_to_ras, voxels[:: max(1, len(voxels) // _VOXELS)])
        dark = points[volume.sample(points) < _AIR_HU]
        share = len(dark) / len(points)
        text = f"{share:.0%} of {label.text} lies in air, outside of the body or in a lung"
        place = dark[len(dark) // 2] if share else None
        findings += judge("outside", share, _OUTSIDE_SHARE, text, label, point_ras=place)
    return findings


def check_overlaps(
    overlaps: Sequence[Overlap], measured: Sequence[MeasuredLabel]
) -> list[AuditFinding]:
    """Find masks that overlap although their structures exclude each other."""
    findings = []
    for first, second, shared_ml in overlaps:
        labels = [label for label in measured if label.text in (first, second)]
        # of the smaller label; all of it if neither label was measured
        smaller_ml = min((label.volume_ml for label in labels), default=0.0)
        share = shared_ml / max(smaller_ml, shared_ml)
        may_overlap = _is_part(canonical_name(first), canonical_name(second))
        if shared_ml >= _LEAST_OVERLAP_ML and not may_overlap:
            text = f"{first} and {second} share {shared_ml:.1f} ml"
            findings += judge("overlap", share, _OVERLAP_SHARE, text, *labels)
    return findings
