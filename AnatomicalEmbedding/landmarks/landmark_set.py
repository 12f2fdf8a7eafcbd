"""Landmark sets: named points with examples, in one file NAME.landmarks.json.

An example is one marked point of one scan: its place, and the query by which it is found in other scans. It holds no
picture of the patient, no name, and not who marked it. The format:

{"format": "anatomical-embedding landmark set", "version": 1, "model": name of the weights, "weights_hash", "terms",
 "landmarks": [{"name", "unit_mm", "examples": [{"scan", "point_ras", "query", "errors_mm": {scan: mm}, "exchanged":
 {scan: names of landmarks}, "left_out_mm", "edges"}]}], "markups": [{"kind", "name", "labels": names of landmarks}]}
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from ..embedding.map import EmbeddingMap
from ..embedding.tensor_files import DAMAGED
from ..errors import MapError, PointsError
from ..files import parse_json, write_text
from ..matching.local_affine import vectors_from_body, vectors_to_body
from ..matching.match import Matches, join_matches, match_query
from ..matching.query import join_queries, query_to_text, read_query
from ..resources import resource
from ..scan.points import PointList
from .combination import combine
from .drawing import Drawing
from .landmark import Landmark, LandmarkExample
from .markups import Markup, check_count

SUFFIX = ".landmarks.json"
FORMAT, VERSION = "anatomical-embedding landmark set", 1
# The names of two landmarks are exchanged in a scan if the answers of most others go at least this share of the way
# between them in the opposite direction. Chosen on 16 chests: with 0, right examples were named too.
_OPPOSITE = 0.25
_DISTINCT_MM = 10.0  # the error of an answer: nearer landmarks cannot be told apart


@dataclass(frozen=True)
class LandmarkSet:
    """Landmarks that were made with the same weights.

    Args:
        weights_hash: SHA-256 of the weights. model: their name.
        landmarks: landmarks with at least one example each.
        terms: under which the set may be shared; "" if nothing is said.
        markups: markups through landmarks of the set.
    """

    weights_hash: str = ""
    model: str = ""
    landmarks: tuple[Landmark, ...] = ()
    terms: str = ""
    markups: tuple[Markup, ...] = ()

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the landmarks."""
        return tuple(landmark.name for landmark in self.landmarks)

    def with_examples(self, embedding: EmbeddingMap, drawing: Drawing) -> LandmarkSet:
        """Add the points and markups of one scan. Points that the scan gave before are replaced.

        Args:
            embedding: the map of the scan.
            drawing: one point for each label.

        Raises:
            PointsError: two points have one label, a point lies outside the scan, or a markup of the set has another
                kind or number of points.
            MapError: the map was made with other weights than the set.
        """
        points = drawing.points
        provenance = embedding.provenance
        double = {label for label in points.labels if points.labels.count(label) > 1}
        if double:
            raise PointsError(
                f"{provenance.scan}: two points are called {min(double)!r}; rename one of them."
            )
        if self.landmarks:
            self.check(provenance.weights_hash, provenance.model)
        landmarks = {landmark.name: landmark for landmark in self.landmarks}
        for label, point in zip(points.labels, points.points_ras, strict=True):
            example = _example(embedding, point, drawing.edges_ras.get(label))
            earlier = landmarks.get(label, Landmark(label, ())).forgetting(example.scan)
            landmarks[label] = Landmark(label, (*earlier, example), embedding.unit_mm)
        markups = {markup.name: markup for markup in self.markups}
        for markup in drawing.markups:
            first = markups.setdefault(markup.name, markup)
            if first != markup:
                raise PointsError(
                    f"{provenance.scan}: {markup.name!r} has the kind {markup.kind} and {len(markup.labels)} "
                    f"points, in other scans {first.kind} and {len(first.labels)}; draw it alike in all scans."
                )
        return replace(
            self,
            weights_hash=provenance.weights_hash,
            model=provenance.model,
            landmarks=tuple(landmarks.values()),
            markups=tuple(markups.values()),
        )

    def measured(self, embedding: EmbeddingMap) -> LandmarkSet:
        """Measure the other examples in a scan that gave examples. Returns the set with their errors.

        embedding: the map of the scan. The errors decide which examples contradict the others, and what is stated.
        """
        scan = embedding.provenance.scan_hash
        marks = {
            landmark.name: np.array(example.point_ras)
            for landmark in self.landmarks
            for example in landmark.examples
            if example.scan == scan and len(landmark.examples) > 1
        }
        others = [landmark.without(scan) for landmark in self.landmarks if landmark.name in marks]
        answers = self._match(others, embedding)
        places = {}
        for landmark in others:
            points = answers[landmark.name].points_ras
            places[landmark.name] = dict(zip(landmark.scans, points, strict=True))
        landmarks = []
        for landmark in self.landmarks:
            if landmark.name in marks:
                exchanged = _exchanged_names(landmark, marks, places)
                landmark = landmark.measured(scan, answers[landmark.name], exchanged)
            landmarks.append(landmark)
        return replace(self, landmarks=tuple(landmarks))

    def find(self, embedding: EmbeddingMap) -> Matches:
        """Find the landmarks in a scan. Returns one answer for each landmark, in the order of `names`.

        embedding: the map of the scan. Raises MapError if it was made with other weights than the set.
        """
        answers = self.examples_in(embedding, self.names)
        rows = []
        for landmark in self.landmarks:
            examples, weights = answers[landmark.name]
            rows.append(combine(examples, weights, landmark.error_factor, landmark.unit_mm))
        return join_matches(rows)

    def examples_in(
        self, embedding: EmbeddingMap, names: Iterable[str]
    ) -> dict[str, tuple[Matches, np.ndarray]]:
        """Find the place of a landmark in a scan by each of its examples alone.

        Args:
            embedding: the map of the scan.
            names: names of landmarks; others than those of the set are left out.

        Returns:
            By name: the k answers, one of each example, and their weights (k,), see `combination.combine`.

        Raises:
            MapError: the map was made with other weights than the set.
        """
        self.check(embedding.provenance.weights_hash, embedding.provenance.model)
        selected = set(names)
        landmarks = [landmark for landmark in self.landmarks if landmark.name in selected]
        answers = self._match(landmarks, embedding)
        return {landmark.name: (answers[landmark.name], landmark.weights) for landmark in landmarks}

    def draw(self, embedding: EmbeddingMap, matches: Matches) -> Drawing:
        """Return the landmarks and markups in a scan. Planes and boxes follow the local change of shape.

        Args:
            embedding: the map of the scan.
            matches: answers of `find`.
        """
        edges_ras = {}
        for landmark, point in zip(self.landmarks, matches.points_ras, strict=True):
            rows = zip(landmark.examples, landmark.weights, strict=True)
            edges = [example.edges for example, weight in rows if weight and example.edges]
            if edges:
                edges_body = np.mean(edges, axis=0).reshape(3, 3)
                edges_ras[landmark.name] = vectors_from_body(embedding, point, edges_body)
        return Drawing(PointList(self.names, matches.points_ras), self.markups, edges_ras)

    def _match(self, landmarks: Sequence[Landmark], embedding: EmbeddingMap) -> dict[str, Matches]:
        """Match all examples of landmarks in one call. Returns, by name, one answer for each example."""
        if not landmarks:
            return {}
        try:
            query = join_queries([landmark.query for landmark in landmarks])
        except DAMAGED as error:
            raise PointsError(
                "a query of the landmark set is damaged; make the set again from its scans."
            ) from error
        (matches,) = match_query(query, [embedding])
        answers = {}
        first = 0
        for landmark in landmarks:
            last = first + len(landmark.examples)
            answers[landmark.name] = matches[first:last]
            first = last
        return answers

    def check(self, weights_hash: str, model: str) -> None:
        """Raise MapError if the set was made with other weights, PointsError if it has no landmark."""
        if not self.landmarks:
            raise PointsError("the landmark set has no landmark; add scans with points to it.")
        if weights_hash != self.weights_hash:
            raise MapError(
                f"the landmark set was made with other weights ({self.model}) than {model}; choose these weights, or "
                "make the set again from its scans."
            )

    def write(self, path: str | Path) -> None:
        """Write the set to one file NAME.landmarks.json, complete or not at all."""
        document = {"format": FORMAT, "version": VERSION, **asdict(self)}
        write_text(path, json.dumps(document, indent=1, ensure_ascii=False) + "\n", PointsError)


def read_landmark_set(path: str | Path) -> LandmarkSet:
    """Read a file that `LandmarkSet.write` wrote, or a set that is shipped, by its name: "pelvis" or "trunk".

    Raises PointsError if the file is missing or damaged, is no landmark set, or was written by a newer version.
    """
    shipped = resource(f"Landmarks/{path}{SUFFIX}")
    if shipped.is_file() and not Path(path).exists():
        path = shipped
    try:
        document = parse_json(Path(path).read_text(encoding="utf-8-sig"))
    except FileNotFoundError as error:
        raise PointsError(f"{path}: no such file; check the path.") from error
    except (OSError, ValueError) as error:
        raise PointsError(
            f"{path}: is not JSON; give a {SUFFIX} file that this program wrote."
        ) from error
    if not isinstance(document, dict) or document.get("format") != FORMAT:
        raise PointsError(
            f"{path}: is not a landmark set; give a {SUFFIX} file that this program wrote."
        )
    if document.get("version") != VERSION:
        raise PointsError(
            f"{path}: was written by a newer version of this program; update the program."
        )
    try:
        landmarks = tuple(map(_read_landmark, document["landmarks"]))
        markups = tuple(_read_markup(entry, landmarks) for entry in document["markups"])
        texts = [str(document[name]) for name in ("weights_hash", "model", "terms")]
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise PointsError(
            f"{path}: is damaged ({error}); make the set again from its scans."
        ) from error
    weights_hash, model, terms = texts
    return LandmarkSet(weights_hash, model, landmarks, terms, markups)


def _example(
    embedding: EmbeddingMap, point_ras: np.ndarray, edges_ras: np.ndarray | None
) -> LandmarkExample:
    """Make an example of a landmark.

    Args:
        embedding: map of the scan.
        point_ras: (3,) RAS mm.
        edges_ras: (3, 3) edges of a plane or box, see `Drawing`; None for a point.
    """
    query = query_to_text(read_query(embedding, point_ras[None]))
    edges: tuple[float, ...] = ()
    if edges_ras is not None:
        edges_body = vectors_to_body(embedding, point_ras, edges_ras)
        edges = tuple(edges_body.round(3).ravel().tolist())
    scan = embedding.provenance.scan_hash
    return LandmarkExample(scan, tuple(point_ras.tolist()), query, edges=edges)


def _exchanged_names(
    landmark: Landmark, marks: dict[str, np.ndarray], places: dict[str, dict[str, np.ndarray]]
) -> dict[str, tuple[str, ...]]:
    """Return the landmarks whose names seem to be exchanged with this one, by the scan of each other example.

    Args:
        landmark: a landmark of a scan.
        marks: name of each landmark -> its point (3,) in the scan.
        places: name of each landmark -> scan of each other example -> its answer (3,) in the scan.
    """
    exchanged = {}
    for scan, place in places[landmark.name].items():
        names = []
        for name, answers in places.items():
            way_mm = marks[landmark.name] - marks[name]
            if scan in answers and is_opposite(place - answers[scan], way_mm, landmark.unit_mm):
                names.append(name)
        exchanged[scan] = tuple(names)
    return exchanged


def is_opposite(answers_mm: np.ndarray, marks_mm: np.ndarray, unit_mm: float) -> bool:
    """Return whether the names of two landmarks seem to be exchanged in a scan.

    Only the way from one landmark to the other is compared, so errors that their answers share do not count.

    Args:
        answers_mm: (3,) way between the answers of the examples of one other scan.
        marks_mm: (3,) way between the marked points.
        unit_mm: unit of the maps.
    """
    square = marks_mm @ marks_mm
    is_distinct = square >= (_DISTINCT_MM * unit_mm) ** 2
    return bool(is_distinct and answers_mm @ marks_mm < -_OPPOSITE * square)


def _read_landmark(document: dict[str, Any]) -> Landmark:
    examples = []
    for entry in document["examples"]:
        r, a, s = map(float, entry["point_ras"])
        errors_mm = {str(scan): float(mm) for scan, mm in entry["errors_mm"].items()}
        exchanged = {
            str(scan): tuple(map(str, names)) for scan, names in entry["exchanged"].items()
        }
        left_out_mm = tuple(map(float, entry["left_out_mm"]))
        edges = tuple(map(float, entry["edges"]))
        if len(edges) not in (0, 9):
            raise ValueError(f"edges of {document['name']!r}")
        scan, query = str(entry["scan"]), str(entry["query"])
        examples.append(
            LandmarkExample(scan, (r, a, s), query, errors_mm, exchanged, left_out_mm, edges)
        )
    if not examples:
        raise ValueError(f"landmark {document['name']!r} has no example")
    return Landmark(str(document["name"]), tuple(examples), float(document["unit_mm"]))


def _read_markup(document: dict[str, Any], landmarks: Sequence[Landmark]) -> Markup:
    markup = Markup(document["kind"], str(document["name"]), tuple(document["labels"]))
    check_count(markup)
    missing = set(markup.labels) - {landmark.name for landmark in landmarks}
    if missing:
        raise ValueError(f"{markup.name!r} has the unknown points {missing}")
    return markup


def make_landmark_set(
    scans: Iterable[tuple[EmbeddingMap, PointList | Drawing]],
    landmark_set: LandmarkSet | None = None,
    folder: Path | None = None,
) -> LandmarkSet:
    """Make a landmark set from scans with marked points, or add scans to a set.

    Args:
        scans: the map of each scan and its points, see `drawing.read_drawing`.
        landmark_set: a set to which the scans are added; default: a new set.
        folder: an empty folder in which the maps wait until all examples are known, if they do not fit into memory.

    Example:
        scans = [(model.embed(f"{name}.nii.gz"), read_points(f"{name}.mrk.json")) for name in names]
        make_landmark_set(scans).write("pelvis.landmarks.json")
    """
    result = landmark_set or LandmarkSet()
    maps: list[EmbeddingMap | Path] = []
    for embedding, points in scans:
        calibration = embedding.calibration  # of the weights; a map on the disk does not have it
        drawing = Drawing(points) if isinstance(points, PointList) else points
        result = result.with_examples(embedding, drawing)
        if folder is None:
            maps.append(embedding)
        else:
            path = folder / f"{len(maps)}.safetensors"
            embedding.save(path)
            maps.append(path)
    for stored in maps:
        if isinstance(stored, Path):
            stored = replace(EmbeddingMap.load(stored), calibration=calibration)
        result = result.measured(stored)
    return result
