"""Evaluation of lesion follow-up on synthetic patients: places, pairing of lesions, and their status.

As in the product, lesions are marked in a record (slightly off their middles), `find_places` carries them over, and
`assign_in_record` pairs them.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from itertools import combinations, permutations
from time import perf_counter

import numpy as np

from ..embedding.inference import Model
from ..embedding.map import EmbeddingMap
from ..followup.assignment import SAME, assign_in_record
from ..followup.lesions import MERGED, OUTSIDE, Study
from ..followup.proposing import find_places
from ..followup.record import FollowUp
from ..followup.status import DISAPPEARED, NEW, SPLIT
from ..phantom import followup as truth
from ..phantom.followup import PhantomFollowUp, make_follow_up
from .results import Section, Tables, summarise

_CLOSE_MM = 10.0
_STATES = (SAME, SPLIT, MERGED, DISAPPEARED, NEW, OUTSIDE)
UNCHANGED, RESHAPED, GONE = "same lesion", "split or merged", "gone (its tissue)"


# Centre point matching rates (CPM). Three papers call different things by the same two names, so figures of different
# columns cannot be compared. DLT: Cai et al., CVPR 2021, and their script. UAE: Yan et al., TMI 2022, and their
# repository. TLT: Tang et al., MICCAI 2022, and their code, which counts in voxels.
MEANINGS = (
    "CPM@Radius as DLT: offset < radius",
    "CPM@10mm as DLT: offset <= radius and 10 mm",
    "CPM@Radius as UAE: in the target's box",
    "CPM@10mm as UAE: offset <= 10 mm",
    "CPM@Radius as TLT: voxels < box diagonal",
    "CPM@10 as TLT: voxels < box diagonal and 10",
)
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
        found = (
            error < np.maximum(self.radius_mm, _NO_LESS),
            error <= np.minimum(self.radius_mm, 10.0),
            in_box,
            error <= 10.0,
            voxels < diagonal,
            voxels < np.minimum(10.0, diagonal),
        )
        return dict(zip(MEANINGS, found, strict=True))

    def rates(self) -> dict[str, float]:
        """Name of `MEANINGS` -> share of the lesions."""
        return {name: float(hit.mean()) for name, hit in self.hits().items()}


@dataclass(frozen=True, eq=False)
class Placed:
    """n lesions carried over to another study that shows their place. group: (n,) UNCHANGED, RESHAPED or GONE; the
    truth is the middle of what the lesion has become, or the place of its tissue. status: (n,) of matching.
    """

    points: CentrePoints
    group: np.ndarray
    status: np.ndarray

    def matched(self) -> np.ndarray:
        """(n,) bool: within the lesion's radius, or 10 mm."""
        return self.points.errors_mm <= np.maximum(self.points.radius_mm, _CLOSE_MM)


@dataclass(frozen=True, eq=False)
class FollowUpResult(Tables):
    """placed: places found. links: right, wrong and missing ones between lesions of two studies. states: (true,
    reported) words of lesions -> count. outside: of lesions carried to a scan that does not show them, those reported;
    all.
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
        return sum(n for (true, found), n in self.states.items() if true == found) / max(sum(self.states.values()), 1)

    @property
    def share_matched(self) -> float:
        """Of lesions that both studies show, those found within their radius or 10 mm."""
        return float(self.placed.matched()[self.placed.group != GONE].mean())

    def sections(self) -> list[Section]:
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
        words = [("true", "lesions", "right", *_STATES)]
        for true in _STATES:
            counts = [self.states.get((true, word), 0) for word in _STATES]
            if sum(counts):
                share = self.states.get((true, true), 0) / sum(counts)
                words.append((true, str(sum(counts)), f"{share:.1%}", *(str(n) if n else "" for n in counts)))
        words.append(("all", str(sum(self.states.values())), f"{self.states_right:.1%}", *[""] * len(_STATES)))
        rates = _chosen(self.placed.points, there).rates()
        return [
            Section(
                f"Places of lesions in other studies ({self.model}, {self.patients} synthetic patients)",
                tuple(rows),
                (f"reported as absent, of those outside the scan: {found} of {count}",) if count else (),
            ),
            Section(
                "Centre point matching, shown by both studies",
                (("share", "found"), *((what, f"{rate:.4f}") for what, rate in rates.items())),
                (
                    "Synthetic patients, of the family that the shipped weights were partly trained on:",
                    "not comparable with figures of DeepLesion.",
                ),
            ),
            Section(
                "Pairing of lesions marked in both studies",
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
            Section("Status of the lesions", tuple(words)),
            Section("Seconds", (("", "mean"), *((what, f"{value:.2f}") for what, value in self.seconds.items()))),
        ]

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
            "states": [{"true": t, "reported": w, "lesions": n} for (t, w), n in sorted(self.states.items())],
            "seconds": dict(self.seconds),
        }
        return json.dumps(values, indent=1)


def _chosen(points: CentrePoints, which: np.ndarray) -> CentrePoints:
    return CentrePoints(*(values[which] for values in vars(points).values()))


_MARK_SHARE = 0.15  # of the radius: standard deviation of a mark along each axis
_SIZE_SHARE = 0.1


def evaluate_follow_ups(
    model: Model,
    seeds: Iterable[int],
    studies: int = 2,
    effort: str = "standard",
    progress: Callable[[float, str], None] = lambda share, what: None,
) -> FollowUpResult:
    """Follow every synthetic patient up: every ordered pair of studies for places, every pair for their status.

    effort: see `matching.match.match_all`.
    """
    seeds = list(seeds)
    embed_s, match_s, assign_s = [], [], []
    rows: list[tuple] = []
    right = wrong = missing = absent = outside = 0
    states: Counter[tuple[str, str]] = Counter()
    for number, seed in enumerate(seeds):
        progress(number / len(seeds), f"patient {seed}")
        patient = make_follow_up(seed, studies)
        maps = {}
        for n, volume in enumerate(patient.volumes):
            started = perf_counter()
            maps[_key(n)] = model.embed(volume)
            embed_s.append(perf_counter() - started)
        rng = np.random.default_rng([seed, 9])
        marked = [_marked(patient, n, rng) for n in range(studies)]
        for one, other in permutations(range(studies), 2):
            started = perf_counter()
            found = _places(marked[one], patient, one, other, maps, effort)
            match_s.append(perf_counter() - started)
            rows += found[0]
            absent, outside = absent + found[1], outside + found[2]
        for one, other in combinations(range(studies), 2):
            started = perf_counter()
            links, words = _assigned(marked[one], marked[other], patient, (one, other), maps, effort)
            assign_s.append(perf_counter() - started)
            true = _true_links(patient, one, other)
            right, wrong, missing = right + len(links & true), wrong + len(links - true), missing + len(true - links)
            states += Counter((_true_word(patient, true, key, (one, other)), word) for key, word in words.items())
    progress(1.0, "done")
    offsets, spacing, radius, group, status = zip(*rows, strict=True)
    offsets, spacing, radius = np.array(offsets), np.array(spacing), np.array(radius)
    box = np.repeat(2 * radius[:, None], 3, axis=1)
    points = CentrePoints(offsets, spacing, radius, offsets + box / 2, box)
    return FollowUpResult(
        f"{model.name}, {effort}",
        len(seeds),
        Placed(points, np.array(group), np.array(status)),
        (right, wrong, missing),
        dict(states),
        (absent, outside),
        {
            "embedding a scan": float(np.mean(embed_s)),
            "places of one study's lesions in another": float(np.mean(match_s)),
            "assigning the lesions of two studies": float(np.mean(assign_s)),
        },
    )


# -- as in the product -----------------------------------------------------------------------------------------------

_Marks = Mapping[str, tuple[np.ndarray, float]]  # of a study: lesion -> the place that a person marks, its radius


def _key(number: int) -> str:
    return f"study {number + 1}"


def _marked(patient: PhantomFollowUp, study: int, rng: np.random.Generator) -> _Marks:
    marks = {}
    for lesion in patient.lesions:
        state = lesion.states[study]
        if state.state == truth.VISIBLE:
            place = state.point_ras + rng.normal(0, _MARK_SHARE * state.radius_mm, 3)
            marks[lesion.id] = place, float(state.radius_mm * np.exp(rng.normal(0, _SIZE_SHARE)))
    return marks


def _mark_all(record: FollowUp, study: str, marks: _Marks) -> tuple[FollowUp, dict[str, str]]:
    """The record with marks and long axes, and the phantom's name of each lesion of the record."""
    names = {}
    for name, (place, radius) in marks.items():
        lesion_id = record.free_id()
        half = np.array([radius, 0.0, 0.0])
        record = record.mark(study, place).measure(lesion_id, study, (place - half, place + half), None)
        names[lesion_id] = name
    return record, names


def _places(
    marks: _Marks, patient: PhantomFollowUp, one: int, other: int, maps: Mapping[str, EmbeddingMap], effort: str
) -> tuple[list[tuple], int, int]:
    """A row for each lesion whose place the other study shows; of the others, those reported as absent, and all."""
    record = FollowUp().with_studies([Study(_key(one), ""), Study(_key(other), "")])
    record, names = _mark_all(record, _key(one), marks)
    found = find_places(record, [_key(other)], maps, effort).proposals[_key(other)]
    lesions = {lesion.id: lesion for lesion in patient.lesions}
    reshaped = Counter(name for link in _true_links(patient, *sorted((one, other))) for name in set(link))
    spacing = np.linalg.norm(patient.volumes[other].ijk_to_ras[:3, :3], axis=0)
    rows, absent, outside = [], 0, 0
    for lesion_id, name in names.items():
        state = lesions[name].states[other]
        if state.state == truth.OUTSIDE:
            outside += 1
            absent += lesion_id in found and found[lesion_id].guess.status == "absent"
            continue
        here = lesions[name].states[one]
        if state.state == truth.VISIBLE:
            place, radius = state.point_ras, state.radius_mm
            group = RESHAPED if reshaped[name] > 1 else UNCHANGED
        else:
            place, radius, group = patient.to_study(here.point_ras[None], one, other)[0], here.radius_mm, GONE
        guess = found.get(lesion_id)
        offset = np.full(3, np.inf) if guess is None else np.array(guess.point_ras) - place
        rows.append((offset, spacing, radius, group, "" if guess is None else guess.guess.status))
    return rows, absent, outside


def _assigned(
    first: _Marks,
    second: _Marks,
    patient: PhantomFollowUp,
    studies: tuple[int, int],
    maps: Mapping[str, EmbeddingMap],
    effort: str,
) -> tuple[set[tuple[str, str]], dict[tuple[int, str], str]]:
    """Links between lesions of two studies in the resulting record, and the status of each lesion."""
    keys = [_key(n) for n in studies]
    record = FollowUp().with_studies([Study(key, "") for key in keys])
    record, earlier = _mark_all(record, keys[0], first)
    record, later = _mark_all(record, keys[1], second)
    assigned = assign_in_record(record, *keys, maps, effort)
    same = dict(assigned.same)
    after = assigned.put_into(record)
    links = set()
    for lesion in after.lesions:
        before, then = lesion.findings.get(keys[0]), lesion.findings.get(keys[1])
        if then is not None and then.state == MERGED:
            links.add((earlier[lesion.id], later[same.get(then.into, then.into)]))
        elif before is not None and then is not None:
            links.add((earlier[lesion.id], later[same[lesion.id]]))
        elif lesion.split_from:
            links.add((earlier[lesion.split_from], later[lesion.id]))
    words = {(0, earlier[key]): word for key, word in assigned.earlier.items()}
    words |= {(1, later[key]): word for key, word in assigned.later.items()}
    return links, words


# -- the truth --------------------------------------------------------------------------------------------------------


def _true_links(patient: PhantomFollowUp, one: int, other: int) -> set[tuple[str, str]]:
    lesions = {lesion.id: lesion for lesion in patient.lesions}

    def shown(name: str, study: int) -> bool:
        return name in lesions and lesions[name].states[study].state == truth.VISIBLE

    links = set()
    for name, lesion in lesions.items():
        if shown(name, one):
            there = lesion.states[other]
            into = there.into if there.state == truth.MERGED else name
            if shown(into, other):
                links.add((name, into))
        elif shown(name, other) and shown(lesion.split_from, one):
            links.add((lesion.split_from, name))
    return links


def _true_word(
    patient: PhantomFollowUp, links: set[tuple[str, str]], key: tuple[int, str], studies: tuple[int, int]
) -> str:
    side, name = key
    mine = [link for link in links if link[side] == name]
    if not mine:
        lesion = next(each for each in patient.lesions if each.id == name)
        outside = lesion.states[studies[1 - side]].state == truth.OUTSIDE
        return OUTSIDE if outside else (DISAPPEARED, NEW)[side]
    if len(mine) > 1:
        return (SPLIT, MERGED)[side]
    partner = mine[0][1 - side]
    return (MERGED, SPLIT)[side] if sum(link[1 - side] == partner for link in links) > 1 else SAME
