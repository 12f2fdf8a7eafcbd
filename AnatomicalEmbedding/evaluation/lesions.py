"""Lesion follow-up on synthetic patients: where lesions are found, which is taken for which, and what became of them.

Everything goes the way of the product: lesions are marked in a record (not quite in their middles), `find_places`
carries them over, `assign_in_record` says which are the same.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from itertools import combinations, permutations
from time import perf_counter
from typing import TYPE_CHECKING

import numpy as np

from ..embedding.map import EmbeddingMap
from ..followup.assignment import SAME, assign_in_record
from ..followup.lesions import MERGED, OUTSIDE, Study
from ..followup.proposing import find_places
from ..followup.record import FollowUp
from ..followup.status import DISAPPEARED, NEW, SPLIT
from ..phantom import followup as truth
from ..phantom.followup import PhantomFollowUp, make_follow_up
from .lesion_results import GONE, RESHAPED, UNCHANGED, CentrePoints, FollowUpResult, Placed

if TYPE_CHECKING:
    from ..embedding.inference import Model

_MARK_SHARE = 0.15  # of the radius that a mark is off its lesion's middle, along each axis
_SIZE_SHARE = 0.1


def evaluate_follow_ups(
    model: Model,
    seeds: Iterable[int],
    studies: int = 2,
    effort: str = "standard",
    progress: Callable[[float, str], None] = lambda share, what: None,
) -> FollowUpResult:
    """Follow every synthetic patient up: every ordered pair of studies for places, every pair for what became of them.

    effort: see `matching.match_all`.
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


# -- the way of the product -------------------------------------------------------------------------------------------

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
    """A row a lesion whose place the other study shows; how many it does not show were said so, of how many."""
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
    """Links between lesions of two studies as the record has them afterwards, and the word said of each lesion."""
    keys = [_key(n) for n in studies]
    record = FollowUp().with_studies([Study(key, "") for key in keys])
    record, earlier = _mark_all(record, keys[0], first)
    record, later = _mark_all(record, keys[1], second)
    told = assign_in_record(record, *keys, maps, effort)
    same = dict(told.same)
    after = told.put_into(record)
    links = set()
    for lesion in after.lesions:
        before, then = lesion.findings.get(keys[0]), lesion.findings.get(keys[1])
        if then is not None and then.state == MERGED:
            links.add((earlier[lesion.id], later[same.get(then.into, then.into)]))
        elif before is not None and then is not None:
            links.add((earlier[lesion.id], later[same[lesion.id]]))
        elif lesion.split_from:
            links.add((earlier[lesion.split_from], later[lesion.id]))
    words = {(0, earlier[key]): word for key, word in told.earlier.items()}
    words |= {(1, later[key]): word for key, word in told.later.items()}
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
