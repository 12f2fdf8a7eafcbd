"""Shared by the tests of the commands: the result of a command, and a folder with scans, points and weights."""

import csv
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from AnatomicalEmbedding.embedding.cache import MapCache
from AnatomicalEmbedding.embedding.inference import load_model
from AnatomicalEmbedding.embedding.map import EmbeddingMap
from AnatomicalEmbedding.scan.volume import Volume


@dataclass(frozen=True)
class Outcome:
    code: int
    out: str
    err: str


@dataclass(frozen=True)
class Place:
    """A folder with two torsos, points of the first, and small weights."""

    folder: Path
    template: Path
    target: Path
    points: Path
    labels: tuple[str, ...]
    points_ras: np.ndarray
    model: tuple[str, str]


def rows_of(path: Path) -> list[dict[str, str]]:
    """Return the rows of a .csv file."""
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def assert_refused(outcome: Outcome, *says: object) -> None:
    """Exit code 2, one sentence on stderr that says all of `says`, nothing on stdout."""
    assert outcome.code == 2
    assert outcome.out == ""
    assert outcome.err.count("\n") == 1
    assert outcome.err.startswith("anatemb: ")
    assert outcome.err.endswith((".\n", "?\n"))
    for what in says:
        assert str(what) in outcome.err


def kept_maps_of(weights: object, place: Place) -> list[EmbeddingMap]:
    """Return the maps of both scans as files keep them: in steps of coordinates, wide ones for untrained weights."""
    model = load_model(str(weights), "cpu", MapCache(place.folder / "cache"))
    volumes = [Volume.read(path) for path in (place.template, place.target)]
    for volume in volumes:
        model.embed(volume)
    return [model.embed(volume) for volume in volumes]
