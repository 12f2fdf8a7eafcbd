"""Measure points computed from label maps, such as the carina: found by matching to other patients, and by words."""

import json
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass

import numpy as np

from AnatomicalEmbedding.anatomy.terms import load_terms
from AnatomicalEmbedding.embedding.inference import Model
from AnatomicalEmbedding.errors import PointsError
from AnatomicalEmbedding.evaluation.results import Section, Tables, in_mm, summarise
from AnatomicalEmbedding.matching.match import match_all
from AnatomicalEmbedding.matching.status import INSIDE, MATCHED, OUTSIDE, UNCERTAIN
from AnatomicalEmbedding.structures.labelled_scans import Case, refuse_twins
from AnatomicalEmbedding.words.placing import PlaceFinder
from evaluations.outline_points import derive_landmarks

WAYS = {"match": "By matching, different patients", "words": "By words"}
_RIGHT_MM = 10.0
_SURE = {"match": MATCHED, "words": INSIDE}


@dataclass(frozen=True)
class PointResult:
    """One point in one target. way: "match" or "words". template: scan in which the point was given; "" for words.

    error_mm: None if no place was found. stated: for a match, its expected error in mm; for words, the probability.
    """

    way: str
    template: str
    target: str
    name: str
    error_mm: float | None
    status: str
    stated: float | None


@dataclass(frozen=True)
class PointResults(Tables):
    """Results of all points. model: name of the model that made the maps."""

    model: str
    results: tuple[PointResult, ...]

    def sections(self) -> list[Section]:
        return [_section(way, heading, self.results) for way, heading in WAYS.items()]

    def to_json(self) -> str:
        return json.dumps(
            {"model": self.model, "results": [asdict(r) for r in self.results]}, indent=1
        )


def _section(way: str, heading: str, results: Sequence[PointResult]) -> Section:
    stated = "expected mm" if way == "match" else "stated probability"
    sure = "matched" if way == "match" else "inside"
    head = (
        "mm",
        "n",
        "missing",
        "mean",
        "median",
        "90 %",
        "within 10 mm",
        stated,
        sure,
        f"{sure}: mean",
        "uncertain",
    )
    rows: list[tuple[str, ...]] = [head]
    for name in [*sorted({r.name for r in results if r.way == way}), "all"]:
        of = [r for r in results if r.way == way and name in (r.name, "all")]
        error = np.array([np.nan if r.error_mm is None else r.error_mm for r in of])
        surely = np.array([r.status == _SURE[way] for r in of], dtype=bool)
        every = summarise(error)
        surest = summarise(error[surely])
        said = [r.stated for r in of if r.stated is not None]
        rows.append(
            (
                name, str(len(of)), str(every.missing), *map(in_mm, (every.mean, every.median, every.p90)),
                f"{np.mean(error <= _RIGHT_MM):.0%}" if of else "-", f"{np.mean(said):.2g}" if said else "-",
                f"{np.mean(surely):.0%}" if of else "-", in_mm(surest.mean),
                f"{np.mean([r.status == UNCERTAIN for r in of]):.0%}" if of else "-",
            )
        )  # fmt: skip
    return Section(heading, tuple(rows))


def evaluate_points(
    cases: Sequence[Case], model: Model, progress: Callable[[float, str], None]
) -> PointResults:
    """Find points that were computed from label maps: in each scan by name, and by matching from other patients' scans.

    Raises PointsError if no such point can be computed from the label maps.
    """
    refuse_twins([case.id for case in cases])
    points = {
        case.id: derive_landmarks(case.label_map) for case in cases if case.labels is not None
    }
    cases = [case for case in cases if points.get(case.id)]
    if not cases:
        raise PointsError(
            "no landmark, such as the carina or a pole of an organ, can be derived from the label maps; "
            "add label maps that show complete organs."
        )
    results: list[PointResult] = []
    maps = {}
    for number, case in enumerate(cases):
        progress(0.8 * number / len(cases), f"{case.id}: words")
        volume = case.volume
        maps[case.id] = model.embed(volume)
        finder = PlaceFinder(maps[case.id], volume)
        named = load_terms().by_name
        results += [
            _by_words(case.id, finder, *point)
            for point in points[case.id].items()
            if point[0] in named
        ]
    for number, case in enumerate(cases):
        progress(0.8 + 0.2 * number / len(cases), f"{case.id}: matching")
        own = {name: at for name, at in points[case.id].items() if maps[case.id].contains(at)[0]}
        others = [
            other
            for other in cases
            if other.patient != case.patient and own.keys() & points[other.id].keys()
        ]
        if not own or not others:
            continue
        found = match_all(
            maps[case.id], np.array(list(own.values())), [maps[other.id] for other in others]
        )
        for other, answers in zip(others, found, strict=True):
            for n, name in enumerate(own):
                if name in points[other.id]:
                    error = float(np.linalg.norm(answers.points_ras[n] - points[other.id][name]))
                    status = "" if answers.status is None else str(answers.status[n])
                    stated = (
                        None
                        if answers.expected_error_mm is None
                        else float(answers.expected_error_mm[n])
                    )
                    results.append(
                        PointResult("match", case.id, other.id, name, error, status, stated)
                    )
    progress(1.0, "")
    return PointResults(model.name, tuple(results))


def _by_words(scan: str, finder: PlaceFinder, name: str, truth: np.ndarray) -> PointResult:
    place = finder.place(name)
    if place.point_ras is None:
        return PointResult("words", "", scan, name, None, OUTSIDE, None)
    error = float(np.linalg.norm(place.point_ras - truth))
    return PointResult("words", "", scan, name, error, place.status, place.probability)
