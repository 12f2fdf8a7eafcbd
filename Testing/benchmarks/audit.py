"""Measure the audit of labels: plant errors in labelled scans, and count how many the audit finds.

    python Testing/benchmarks/audit.py measure FOLDER... -o MEASURED.pickle
    python Testing/benchmarks/audit.py plant MEASURED.pickle [--folds 5] [--seed 1] [--scans]
    python Testing/benchmarks/audit.py table MEASURED.pickle -o usual.csv [--without DEV]

`measure` measures the labels of all NAME.seg.nii.gz with NAME.labels.json in the folders. `plant` changes the measured
labels as each error would change them; the table of usual places is made without the patients of the fold that is
tested. Stray pieces are planted in the voxels. With --scans, the maps of the scans are used too, and twelve scans are
mirrored and scaled. `table` makes the table that ships.
"""

from __future__ import annotations

import argparse
import pickle
import random
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from itertools import pairwise
from pathlib import Path
from zlib import crc32

import numpy as np
from usual_table import make_table, to_csv

from AnatomicalEmbedding.anatomy.names import VERTEBRAE, other_side
from AnatomicalEmbedding.audit.checks import check_labels, check_map
from AnatomicalEmbedding.audit.dataset import LabelledScan, list_entries, read_entry_labels
from AnatomicalEmbedding.audit.findings import AuditFinding
from AnatomicalEmbedding.audit.measuring import LabelPiece, MeasuredLabel, measure_labels
from AnatomicalEmbedding.audit.relations import relate
from AnatomicalEmbedding.audit.usual import Usual, load_usual
from AnatomicalEmbedding.embedding.inference import Model
from AnatomicalEmbedding.embedding.map import EmbeddingMap
from AnatomicalEmbedding.resources import resource
from AnatomicalEmbedding.scan.geometry import transform_points
from AnatomicalEmbedding.scan.volume import Volume
from AnatomicalEmbedding.structures.labelled_scans import patient_of
from AnatomicalEmbedding.words.atlas import Atlas

Labels = list[MeasuredLabel]
_LIMITS = (0.3, 0.5, 0.7, 0.9)
_TRUNK = 5  # labels from which a mirrored scan can be recognised
_FARTHEST_MM = 90.0  # stray pieces are planted up to this far from the label
_PIECES_ML = (1.0, 2.0, 5.0, 10.0, 20.0)
_SHIFTS_MM = (20.0, 40.0, 60.0)
_MOST_CHANGED = 12  # so many scans are mirrored and scaled; each must be embedded again
_MIRRORED = {"mirrored": 0, "upside down": 2}
_SCALED = {"halved spacing": (0.5, 0.5, 0.5), "halved slice distance": (1.0, 1.0, 0.5)}


@dataclass
class Body:
    """One measured entry: the entry, its labels, and the geometry of its label map."""

    entry: LabelledScan
    labels: Labels
    ijk_to_ras: np.ndarray
    shape: tuple[int, int, int]


def measure(folders: list[Path], output: Path) -> None:
    bodies = {}
    for folder in folders:
        for entry in list_entries(folder):
            labels = read_entry_labels(entry)
            bodies[f"{folder.name}/{entry.name}"] = Body(
                entry, measure_labels(labels), labels.ijk_to_ras, labels.voxels.shape
            )
    output.write_bytes(pickle.dumps(bodies))
    print(f"{len(bodies)} label maps measured")


def first_places() -> dict[str, np.ndarray]:
    """The mean place of each structure in the shipped atlas, or in the shipped table, (3,) body coordinates."""
    atlas = Atlas.load(resource("Atlas") / "ct-open.atlas.npz")
    found = dict(zip(load_usual().names, load_usual().places, strict=True))
    for name, occupancy in atlas.occupancies.items():
        points, weight = occupancy.points_mm()
        found[name] = (points * weight[:, None]).sum(axis=0)
    return found


def table_of(bodies: dict[str, Body]) -> Usual:
    return make_table({name: body.labels for name, body in bodies.items()}, first_places())


# Each planter changes labels and returns the names of the labels that are wrong now, or None if it cannot be planted.
Planted = tuple[Labels, set[str], str]


def renamed(labels: Labels, names: dict[str, str]) -> Labels:
    """Exchange names; the text of each label becomes its new name."""
    return [
        replace(each, name=names.get(each.name, each.name), text=names.get(each.name, each.text))
        for each in labels
    ]


def swap_one_pair(labels: Labels, usual: Usual, rng: random.Random) -> Planted | None:
    held = {each.name for each in labels if not each.is_cut}
    pairs = [
        n for n in sorted(held) if other_side(n) in held and n < other_side(n) and n in usual.index
    ]
    if not pairs:
        return None
    one = rng.choice(pairs)
    return (
        renamed(labels, {one: other_side(one), other_side(one): one}),
        {one, other_side(one)},
        "side",
    )


def swap_all_pairs(labels: Labels, usual: Usual, rng: random.Random) -> Planted | None:
    held = {each.name for each in labels}
    names = {name: other_side(name) for name in held if other_side(name) in held - {name}}
    return (renamed(labels, names), set(names), "side") if names else None


def wrong_side(labels: Labels, usual: Usual, rng: random.Random) -> Planted | None:
    """One label of a pair gets the name of the other side, and the other label is not there."""
    pairs = [(each.name, other_side(each.name)) for each in labels if not each.is_cut]
    held = [one for one, other in pairs if one != other and {one, other} <= usual.index.keys()]
    if not held:
        return None
    one = rng.choice(sorted(held))
    kept = [each for each in labels if each.name != other_side(one)]
    return renamed(kept, {one: other_side(one)}), {other_side(one)}, "side"


def exchange(labels: Labels, usual: Usual, rng: random.Random) -> Planted | None:
    """Exchange the names of a label and of one of its three nearest neighbours; not of the two sides of an organ."""
    index = usual.index
    held = [each for each in labels if not each.is_cut and each.name in index]
    if len(held) < 3:
        return None
    one = rng.choice(held)
    near = sorted(
        (e for e in held if e is not one and e.name != other_side(one.name)),
        key=lambda e: _apart(e, one),
    )
    other = rng.choice(near[:3])
    return (
        renamed(labels, {one.name: other.name, other.name: one.name}),
        {one.name, other.name},
        "exchanged",
    )


def exchange_organs(labels: Labels, usual: Usual, rng: random.Random) -> Planted | None:
    return exchange(
        [e for e in labels if not e.name.startswith(("vertebrae_", "rib_"))], usual, rng
    )


def exchange_numbered(labels: Labels, usual: Usual, rng: random.Random) -> Planted | None:
    """Exchange the names of two vertebrae, or of two ribs of one side, with successive numbers."""
    held = {each.name for each in labels if not each.is_cut}
    series = [[f"vertebrae_{v}" for v in VERTEBRAE[:-1]]] + [
        [f"rib_{s}_{n}" for n in range(1, 13)] for s in ("left", "right")
    ]
    pairs = [(a, b) for of in series for a, b in pairwise(of) if {a, b} <= held]
    if not pairs:
        return None
    one, other = rng.choice(pairs)
    return renamed(labels, {one: other, other: one}), {one, other}, "exchanged"


def _apart(one: MeasuredLabel, other: MeasuredLabel) -> float:
    return float(np.linalg.norm(one.centre_ras - other.centre_ras))


def shift_levels(
    labels: Labels, usual: Usual, rng: random.Random, first: int = 0
) -> Planted | None:
    """Number all vertebrae, from vertebra number `first` on, one level too high or too low."""
    spine = [f"vertebrae_{v}" for v in VERTEBRAE[:-1]]
    held = [name for name in spine if any(each.name == name for each in labels)]
    if len(held) < max(3, first + 2):
        return None
    steps = [
        s
        for s in (-1, 1)
        if spine.index(held[0]) + s >= 0 and spine.index(held[-1]) + s < len(spine)
    ]
    step = rng.choice(steps) if first == 0 else 1
    names = {
        n: spine[spine.index(n) + step] for n in held[first:] if spine.index(n) + step < len(spine)
    }
    # L5 would become a sixth
    labels = [each for each in labels if each.name not in held[first:] or each.name in names]
    return renamed(labels, names), set(names.values()), "level"


def shift_part(labels: Labels, usual: Usual, rng: random.Random) -> Planted | None:
    return shift_levels(labels, usual, rng, first=2)


def mirror(labels: Labels, usual: Usual, rng: random.Random, axis: int = 0) -> Planted | None:
    flip = np.ones(3)
    flip[axis] = -1

    def turned(each: MeasuredLabel) -> MeasuredLabel:
        return replace(each, centre_ras=each.centre_ras * flip)

    return (
        (list(map(turned, labels)), {""}, "mirrored")
        if sum(e.name in usual.index for e in labels) >= _TRUNK
        else None
    )


def upside_down(labels: Labels, usual: Usual, rng: random.Random) -> Planted | None:
    return mirror(labels, usual, rng, axis=2)


def halve(
    labels: Labels, usual: Usual, rng: random.Random, scale: tuple[float, ...] = (0.5, 0.5, 0.5)
) -> Planted | None:
    times = np.array(scale)

    def scaled(each: MeasuredLabel) -> MeasuredLabel:
        pieces = tuple(
            LabelPiece(p.point_ras * times, p.volume_ml * times.prod(), p.away_mm * times.mean())
            for p in each.pieces
        )
        return replace(
            each, centre_ras=each.centre_ras * times,
            volume_ml=each.volume_ml * float(times.prod()), pieces=pieces,
        )  # fmt: skip

    return (
        (list(map(scaled, labels)), {""}, "geometry")
        if sum(e.name in usual.index for e in labels) >= 3
        else None
    )


def halve_slices(labels: Labels, usual: Usual, rng: random.Random) -> Planted | None:
    return halve(labels, usual, rng, (1.0, 1.0, 0.5))


PLANTERS: dict[str, Callable[[Labels, Usual, random.Random], Planted | None]] = {
    "one pair of sides": swap_one_pair, "all sides": swap_all_pairs, "one label, wrong side": wrong_side,
    "names of near organs": exchange_organs, "names of near labels": exchange,
    "names of vertebrae or ribs": exchange_numbered,
    "all levels by one": shift_levels, "levels by one from the third on": shift_part, "mirrored": mirror,
    "upside down": upside_down, "halved spacing": halve, "halved slice distance": halve_slices,
}  # fmt: skip


def shift_labels(labels: Labels, usual: Usual, rng: random.Random, mm: float = 40.0) -> Planted:
    """Shift all labels in a random direction along one axis, as if their header had another origin."""
    off = np.zeros(3)
    off[rng.randrange(3)] = rng.choice((-mm, mm))
    moved = [replace(e, centre_ras=e.centre_ras + off) for e in labels]
    return moved, {""}, "geometry"


# These errors are only seen by the map of the scan.
WITH_SCAN = {
    f"all labels shifted by {mm:.0f} mm": partial(shift_labels, mm=mm) for mm in _SHIFTS_MM
}
_CHANGE_SCAN = (*_MIRRORED, *_SCALED)
# Problems that count as found, if the planted problem is the key: an error may have several right names.
_RIGHT = {
    "side": {"side", "exchanged", "mirrored"}, "exchanged": {"exchanged", "level", "side", "stray"},
    "level": {"level", "exchanged"}, "mirrored": {"mirrored", "side"}, "geometry": {"geometry"},
}  # fmt: skip


def findings_of(labels: Labels, usual: Usual, embedding: EmbeddingMap | None) -> list[AuditFinding]:
    is_known = any(each.name in usual.index for each in labels)
    found = check_labels(relate(labels, usual, embedding)) if is_known else []
    return found if embedding is None else found + check_map(embedding)


def score_for(found: list[AuditFinding], planted: Planted) -> float:
    """The highest score of a finding that names a planted error."""
    _, names, problem = planted
    scores = [0.0]
    for each in found:
        of_scan = each.label == ""
        if each.problem in _RIGHT[problem] and (
            of_scan or "" in names or names & set(each.label.split(", "))
        ):
            scores.append(each.score)
    return max(scores)


def on_page(finding: AuditFinding, scan: str) -> tuple[float, str]:
    """The key by which the page sorts a finding."""
    return -finding.card([])["score"], scan


def plant(
    bodies: dict[str, Body], folds: int, seed: int, with_scans: bool, tested: str, every: int
) -> None:
    held = {
        name: body for name, body in bodies.items() if name.startswith(tuple(tested.split(",")))
    }
    if with_scans:
        held = {name: body for name, body in held.items() if body.entry.scan is not None}
    trunks = [
        name
        for name, body in sorted(held.items())
        if sum(each.name in load_usual().index for each in body.labels) >= _TRUNK
    ]
    model = _model() if with_scans else None
    false = defaultdict(list)
    scores = defaultdict(list)
    clean = 0
    wrong = 0
    # score on the page (negative), scan, names the planted error, was not there before
    pages: list[tuple[float, str, bool, bool]] = []
    for fold in range(folds):
        parts = {
            name: crc32(patient_of(name.rpartition("/")[2]).encode()) % folds for name in bodies
        }
        usual = table_of({name: body for name, body in bodies.items() if parts[name] != fold})
        for name in sorted(held):
            if parts[name] != fold:
                continue
            labels = bodies[name].labels
            volume = bodies[name].entry.scan.read() if model is not None else None
            embedding = None if model is None else model.embed(volume)
            before = findings_of(labels, usual, embedding)
            clean += 1
            for problem in {each.problem for each in before}:
                false[problem].append(max(each.score for each in before if each.problem == problem))
            page = [(*on_page(each, name), False, False) for each in before]
            rng = random.Random(f"{seed} {name}")
            cards = []
            for kind, planter in (PLANTERS | (WITH_SCAN if model is not None else {})).items():
                shown = embedding
                if model is not None and kind in _CHANGE_SCAN:
                    if name not in trunks[:_MOST_CHANGED]:
                        continue
                    shown = model.embed(changed(volume, kind))
                planted = planter(labels, usual, random.Random(f"{seed} {name} {kind}"))
                if planted is not None:
                    after = findings_of(planted[0], usual, shown)
                    scores[kind].append(score_for(after, planted))
                    old = {(each.label, each.problem) for each in before}
                    new = [(each.label, each.problem) not in old for each in after]
                    fits = [each.problem in _RIGHT[planted[2]] for each in after]
                    scored = [on_page(each, name) for each in after]
                    cards.append(
                        [
                            (*each, *of)
                            for each, of in zip(scored, zip(fits, new, strict=True), strict=True)
                        ]
                    )
            is_wrong = bool(cards) and rng.random() < 1 / every
            wrong += is_wrong
            pages += rng.choice(cards) if is_wrong else page
    print(f"{clean} label maps; share of planted errors found with a score of at least")
    for kind, of in scores.items():
        print(
            f"| {kind} | {len(of)} | "
            + " | ".join(f"{np.mean(np.array(of) >= limit):.1%}" for limit in _LIMITS)
            + " |"
        )
    first = sorted(pages, key=lambda each: each[:2])[:20]  # the order of the page
    fit, caused = np.mean([each[2:] for each in first], axis=0)
    print(f"an error in {wrong} of the label maps; of the first {len(first)} findings, {fit:.0%} name the error, and "
          f"{caused:.0%} are caused by it")  # fmt: skip
    print("findings in the label maps as they are (share of label maps)")
    for problem, of in sorted(false.items()):
        print(
            f"| {problem} | {len(of)} | "
            + " | ".join(f"{np.sum(np.array(of) >= limit) / clean:.1%}" for limit in _LIMITS)
            + " |"
        )


def changed(volume: Volume, kind: str) -> Volume:
    """Mirror a scan along R or S, or scale its voxels, as `mirror` and `halve` change the labels."""
    change = np.eye(4)
    back = np.eye(4)
    if kind in _SCALED:
        return replace(volume, ijk_to_ras=np.diag([*_SCALED[kind], 1.0]) @ volume.ijk_to_ras)
    change[_MIRRORED[kind], _MIRRORED[kind]] = -1
    # voxels along i are reversed too, so the axes stay right-handed
    back[0, [0, 3]] = (-1, volume.shape[2] - 1)
    return replace(
        volume,
        voxels=np.ascontiguousarray(volume.voxels[..., ::-1]),
        ijk_to_ras=change @ volume.ijk_to_ras @ back,
    )


def _model() -> Model:
    from AnatomicalEmbedding.embedding.cache import MapCache, default_folder
    from AnatomicalEmbedding.embedding.inference import load_model

    return load_model("auto", "cpu", MapCache(default_folder()))


def plant_pieces(bodies: dict[str, Body], seed: int, tested: str) -> None:
    """Plant one ball of 1 to 20 ml in each label map, in background voxels, and measure the labels again."""
    usual = load_usual()
    rows = []
    for name, body in sorted(bodies.items()):
        if not name.startswith(tuple(tested.split(","))):
            continue
        rng = random.Random(f"{seed} {name}")
        known = [each for each in body.labels if each.name in usual.index and not each.is_cut]
        if not known:
            continue
        labels = read_entry_labels(body.entry)
        one = rng.choice(known)
        size_ml = rng.choice(_PIECES_ML)
        voxels, away = _with_ball(labels.voxels.copy(), labels.ijk_to_ras, one, size_ml, rng)
        measured = measure_labels(replace(labels, voxels=voxels))
        found = check_labels(relate(measured, usual))
        score = max(
            (f.score for f in found if f.problem == "stray" and f.label == one.text), default=0.0
        )
        rows.append((away, size_ml, score))
    table = np.array(rows)
    for low, high in ((0, 15), (15, 30), (30, 50), (50, 200)):
        of = table[(table[:, 0] >= low) & (table[:, 0] < high)]
        shares = (
            " | ".join(f"{np.mean(of[:, 2] >= limit):.1%}" for limit in _LIMITS) if len(of) else "-"
        )
        print(f"| piece {low} to {high} mm away | {len(of)} | {shares} |")


def _with_ball(
    voxels: np.ndarray,
    ijk_to_ras: np.ndarray,
    label: MeasuredLabel,
    size_ml: float,
    rng: random.Random,
) -> tuple[np.ndarray, float]:
    """Draw a ball into a copy of the label map; return it and the distance, mm, of the ball from the label."""
    radius = (size_ml * 1000 * 3 / (4 * np.pi)) ** (1 / 3)
    own = transform_points(ijk_to_ras, np.argwhere(voxels == label.value)[:, ::-1])
    own = own[:: max(1, len(own) // 4000)]
    every = np.array(voxels.shape[::-1])
    while True:
        middle = transform_points(ijk_to_ras, np.array([[rng.uniform(0, n - 1) for n in every]]))[0]
        away = float(np.linalg.norm(own - middle, axis=1).min()) - radius
        if 3 < away < _FARTHEST_MM:
            break
    index = np.indices(voxels.shape)[::-1].reshape(3, -1).T
    inside = (
        np.linalg.norm(transform_points(ijk_to_ras, index) - middle, axis=1) <= radius
    ).reshape(voxels.shape)
    voxels[inside] = label.value
    return voxels, away


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    commands = parser.add_subparsers(dest="command", required=True)
    measuring = commands.add_parser("measure")
    measuring.add_argument("folders", type=Path, nargs="+")
    making = commands.add_parser("table")
    making.add_argument("--without", default="none/")
    planting = commands.add_parser("plant")
    planting.add_argument("--folds", type=int, default=5)
    planting.add_argument("--scans", action="store_true")
    planting.add_argument(
        "--every", type=int, default=5, help="for the first 20 findings: an error in one of so many"
    )
    planting.add_argument("--pieces", action="store_true", help="plant stray pieces only")
    planting.add_argument(
        "--tested", default="", help="only label maps whose names begin so, such as dev/"
    )
    for each in (making, planting):
        each.add_argument("measured", type=Path)
        each.add_argument("--seed", type=int, default=1)
    for each in (measuring, making):
        each.add_argument("-o", "--output", type=Path, required=True)
    options = parser.parse_args()
    if options.command == "measure":
        measure(options.folders, options.output)
        return
    bodies = pickle.loads(options.measured.read_bytes())
    if options.command == "table":
        kept = {name: body for name, body in bodies.items() if not name.startswith(options.without)}
        options.output.write_text(to_csv(table_of(kept)), encoding="utf-8")
    elif options.pieces:
        plant_pieces(bodies, options.seed, options.tested)
    else:
        plant(bodies, options.folds, options.seed, options.scans, options.tested, options.every)


if __name__ == "__main__":
    main()
