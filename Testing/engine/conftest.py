"""Fixtures of the commands' tests."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from bad_files import make_bad_files
from cli_runs import Outcome, Place, kept_maps_of
from made_outcomes import outcomes
from small_models import write_small_weights

from AnatomicalEmbedding.cli import main
from AnatomicalEmbedding.embedding.calibration import Calibration
from AnatomicalEmbedding.matching.confidence import EVIDENCE
from AnatomicalEmbedding.matching.match import match
from AnatomicalEmbedding.relations import relate
from AnatomicalEmbedding.relations.relation import MapRelation
from AnatomicalEmbedding.scan.points import PointList, write_markups
from AnatomicalEmbedding.training.calibrate import grow_forest


@pytest.fixture
def anatemb(capsys) -> Callable[..., Outcome]:
    """Run a command in this process."""

    def run(*words: object) -> Outcome:
        capsys.readouterr()
        code = main([str(word) for word in words])
        printed = capsys.readouterr()
        return Outcome(code, printed.out, printed.err)

    return run


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory, phantom_pair) -> Place:
    folder = tmp_path_factory.mktemp("cli")
    template, target = (folder / f"{name}.nii.gz" for name in ("template", "target"))
    for path, phantom in zip((template, target), phantom_pair, strict=True):
        phantom.volume.write(path)
    labels = tuple(sorted(phantom_pair[0].points_ras))[:4]
    points_ras = np.array([phantom_pair[0].points_ras[label] for label in labels])
    write_markups(folder / "points.mrk.json", PointList(labels, points_ras))
    weights = write_small_weights(folder)
    return Place(
        folder,
        template,
        target,
        folder / "points.mrk.json",
        labels,
        points_ras,
        ("--model", str(weights)),
    )


@pytest.fixture
def kept_maps(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """Maps are kept for the whole module, so that each scan is embedded once."""
    monkeypatch.setenv("ANATEMB_CACHE", str(place.folder / "cache"))


@pytest.fixture
def by_maps(monkeypatch: pytest.MonkeyPatch) -> None:
    """Scans are related by their maps alone, which is quick; Testing/registration relates them by their images."""
    monkeypatch.setattr(relate, "relate", lambda one, other, **_: MapRelation(one.map, other.map))


@pytest.fixture(scope="module")
def expected(place: Place) -> np.ndarray:
    """RAS mm (n, 3): answers of the Python interface for the points in the target, by maps of the commands' cache."""
    template_map, target_map = kept_maps_of(place.model[1], place)
    return match(template_map, place.points_ras, target_map).points_ras


@pytest.fixture(scope="session")
def forest():
    return grow_forest({"known": outcomes(6000, 0)}, {"known": 1.0})


@pytest.fixture(scope="session")
def calibration(forest):
    return Calibration("ab" * 32, EVIDENCE, {"standard": forest}, {"note": "made for a test"})


@pytest.fixture(scope="module")
def bad_files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    return make_bad_files(tmp_path_factory.mktemp("bad"))
