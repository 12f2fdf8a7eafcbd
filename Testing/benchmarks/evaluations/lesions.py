"""Evaluate lesion follow-up on synthetic patients: proposed places, pairs of lesions, and status of lesions.

The evaluation uses the same functions as the product. Lesions are marked in a record, near their middles. Then
`find_places` proposes their places in the other studies, and `assign_in_record` pairs the lesions.
"""

import json
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import synthetic_follow_up as truth
from synthetic_follow_up import PhantomFollowUp, make_follow_up

from AnatomicalEmbedding.embedding.inference import Model
from AnatomicalEmbedding.embedding.map import EmbeddingMap
from AnatomicalEmbedding.evaluation.results import Section, Tables, summarise
from AnatomicalEmbedding.followup.assignment import assign_in_record
from AnatomicalEmbedding.followup.lesions import OUTSIDE, Study
from AnatomicalEmbedding.followup.proposing import find_places
from AnatomicalEmbedding.followup.record import FollowUp
from AnatomicalEmbedding.followup.status import DISAPPEARED, NEW
from AnatomicalEmbedding.relations.one_patient import MappedScan, correspondence_of
from AnatomicalEmbedding.relations.relation import MapRelation, Relation

_CLOSE_MM = 10.0
SAME = "same"
_STATES = (SAME, DISAPPEARED, NEW, OUTSIDE)
_KEYS = ("study 1", "study 2")
UNCHANGED, RESHAPED, GONE = "same lesion", "split or merged", "gone (its tissue)"
# of the radius: standard deviation of a mark's place, and of its size
_MARK_SHARE, _SIZE_SHARE = 0.15, 0.1


@dataclass(frozen=True, eq=False)
class FollowUpResult(Tables):
    """error_mm: (n,) of places in the other study, infinite without a place. close: (n,) bool, within the lesion's
    radius or 10 mm. group: (n,) UNCHANGED, RESHAPED or GONE. links: counts of "right", "wrong" and "missing" pairs of
    lesions; a lesion that split or merged lacks nothing if one pair of it is right. states: (true, reported) status of
    lesions that neither split nor merged -> count.
    """

    model: str
    error_mm: np.ndarray
    close: np.ndarray
    group: np.ndarray
    links: Mapping[str, int]
    states: Mapping[tuple[str, str], int]

    @property
    def f1(self) -> float:
        return 2 * self.links["right"] / max(sum(self.links.values()) + self.links["right"], 1)

    @property
    def states_right(self) -> float:
        return sum(n for (true, found), n in self.states.items() if true == found) / max(
            sum(self.states.values()), 1
        )

    @property
    def share_close(self) -> float:
        """Share of the lesions that both studies show that is found within the radius or 10 mm."""
        return float(self.close[self.group != GONE].mean())

    def sections(self) -> list[Section]:
        rows = [("mm", "lesions", "within radius or 10", "within 10", "mean", "median", "90 %")]
        groups = {"shown by both": self.group != GONE} | {
            g: self.group == g for g in (UNCHANGED, RESHAPED, GONE)
        }
        for name, chosen in groups.items():
            known = summarise(self.error_mm[chosen])
            if known.n:
                figures = (f"{figure:.1f}" for figure in (known.mean, known.median, known.p90))
                shares = (
                    f"{each[chosen].mean():.1%}"
                    for each in (self.close, self.error_mm <= _CLOSE_MM)
                )
                rows.append((name, str(known.n), *shares, *figures))
        words = [("true", "right", *_STATES)]
        for true in _STATES:
            counts = [self.states.get((true, word), 0) for word in _STATES]
            share = self.states.get((true, true), 0) / max(sum(counts), 1)
            words.append((true, f"{share:.1%}", *(str(n) if n else "" for n in counts)))
        note = f"links between lesions: F1 {self.f1:.3f}; states right: {self.states_right:.1%}"
        places = Section(f"Places of lesions in the other study ({self.model})", tuple(rows))
        return [places, Section("Status of the lesions", tuple(words), (note,))]

    def to_json(self) -> str:
        return json.dumps(
            {"close": self.share_close, "f1": self.f1, "states_right": self.states_right}, indent=1
        )


def evaluate_follow_ups(
    model: Model,
    seeds: Iterable[int],
    effort: str = "standard",
    progress: Callable[[float, str], None] = lambda share, step: None,
    same_patient: bool = False,
) -> FollowUpResult:
    """Follow synthetic patients up from the first to the second study, and back for the places.

    same_patient: whether the places come from the correspondence of the two studies, as in `anatemb followup`.
    """
    seeds = list(seeds)
    rows: list[tuple[float, float, str]] = []
    links = Counter(right=0, wrong=0, missing=0)
    states: Counter[tuple[str, str]] = Counter()
    for number, seed in enumerate(seeds):
        progress(number / len(seeds), f"patient {seed}")
        patient = make_follow_up(seed, 2)
        maps = {
            key: model.embed(volume) for key, volume in zip(_KEYS, patient.volumes, strict=True)
        }
        rng = np.random.default_rng([seed, 9])
        marked = [_marked(patient, n, rng) for n in range(2)]
        there = _relation(patient, maps, model, effort, same_patient)
        relations = {_KEYS[0]: there, _KEYS[1]: there.inverse()}
        for one in range(2):
            rows += _places(marked[one], patient, one, maps, relations[_KEYS[one]])
        found, words = _assigned(marked, maps, effort)
        true = _true_links(patient)
        known = [{link[side] for link in found & true} for side in range(2)]
        missing = sum(one not in known[0] and other not in known[1] for one, other in true)
        links.update(right=len(found & true), wrong=len(found - true), missing=missing)
        reshaped = _reshaped(true)
        states.update(
            (_true_word(patient, true, side, name), word)
            for (side, name), word in words.items()
            if name not in reshaped
        )
    error, radius, group = (np.array(values) for values in zip(*rows, strict=True))
    close = error <= np.maximum(radius, _CLOSE_MM)
    found_by = "registered" if same_patient else effort
    return FollowUpResult(f"{model.name}, {found_by}", error, close, group, links, states)


# of a study: lesion -> the place that a person marks, its radius
_Marks = Mapping[str, tuple[np.ndarray, float]]


def _relation(
    patient: PhantomFollowUp,
    maps: Mapping[str, EmbeddingMap],
    model: Model,
    effort: str,
    same_patient: bool,
) -> Relation:
    """Return the relation of the first study to the second."""
    if not same_patient:
        return MapRelation(*(maps[key] for key in _KEYS), effort)
    scans = (
        MappedScan(volume, maps[key]) for key, volume in zip(_KEYS, patient.volumes, strict=True)
    )
    return correspondence_of(*scans, model.cache)


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
        record = record.mark(study, place).measure(
            lesion_id, study, (place - half, place + half), None
        )
        names[lesion_id] = name
    return record, names


def _places(
    marks: _Marks,
    patient: PhantomFollowUp,
    one: int,
    maps: Mapping[str, EmbeddingMap],
    relation: Relation,
) -> list[tuple[float, float, str]]:
    """Return error, radius and group of each lesion of study `one` whose place the other study shows."""
    other = 1 - one
    record = FollowUp().with_studies([Study(_KEYS[one], ""), Study(_KEYS[other], "")])
    record, names = _mark_all(record, _KEYS[one], marks)
    proposed, _reasons = find_places(record, [_KEYS[other]], maps, relation_of=lambda *_: relation)
    found = {
        each.id: each.findings[_KEYS[other]]
        for each in proposed.lesions
        if _KEYS[other] in each.findings
    }
    lesions = {lesion.id: lesion for lesion in patient.lesions}
    reshaped = _reshaped(_true_links(patient))
    rows = []
    for lesion_id, name in names.items():
        state = lesions[name].states[other]
        here = lesions[name].states[one]
        if state.state == truth.OUTSIDE:
            continue
        if state.state == truth.VISIBLE:
            place = state.point_ras
            radius = state.radius_mm
            group = RESHAPED if name in reshaped else UNCHANGED
        else:
            place = patient.to_study(here.point_ras[None], one, other)[0]
            radius = here.radius_mm
            group = GONE
        guess = found.get(lesion_id)
        error = (
            np.inf if guess is None else float(np.linalg.norm(np.array(guess.point_ras) - place))
        )
        rows.append((error, radius, group))
    return rows


def _assigned(
    marked: Sequence[_Marks], maps: Mapping[str, EmbeddingMap], effort: str
) -> tuple[set[tuple[str, str]], dict[tuple[int, str], str]]:
    """Return the pairs of lesions of the two studies, and the status of each lesion."""
    record = FollowUp().with_studies([Study(key, "") for key in _KEYS])
    record, earlier = _mark_all(record, _KEYS[0], marked[0])
    record, later = _mark_all(record, _KEYS[1], marked[1])
    assigned = assign_in_record(record, *_KEYS, maps, effort)
    words = {}
    for side, (names, alone) in enumerate(((earlier, assigned.earlier), (later, assigned.later))):
        for lesion_id in names.keys() - assigned.unread.keys():
            words[side, names[lesion_id]] = alone.get(lesion_id, SAME)
    return {(earlier[one], later[other]) for one, other in assigned.same}, words


def _true_links(patient: PhantomFollowUp) -> set[tuple[str, str]]:
    lesions = {lesion.id: lesion for lesion in patient.lesions}

    def shown(name: str, study: int) -> bool:
        return name in lesions and lesions[name].states[study].state == truth.VISIBLE

    links = set()
    for name, lesion in lesions.items():
        after = lesion.states[1]
        into = after.into if after.state == truth.MERGED else name
        if shown(name, 0) and shown(into, 1):
            links.add((name, into))
        elif not shown(name, 0) and shown(name, 1) and shown(lesion.split_from, 0):
            links.add((lesion.split_from, name))
    return links


def _reshaped(links: set[tuple[str, str]]) -> set[str]:
    """Return the names of the lesions that split or merged."""
    counts = Counter(name for link in links for name in set(link))
    return {name for link in links if max(counts[end] for end in link) > 1 for name in link}


def _true_word(patient: PhantomFollowUp, links: set[tuple[str, str]], side: int, name: str) -> str:
    """Return the status of a lesion. side: 0 in the earlier study, 1 in the later study."""
    if any(link[side] == name for link in links):
        return SAME
    lesion = next(each for each in patient.lesions if each.id == name)
    is_outside = lesion.states[1 - side].state == truth.OUTSIDE
    return OUTSIDE if is_outside else (DISAPPEARED, NEW)[side]
