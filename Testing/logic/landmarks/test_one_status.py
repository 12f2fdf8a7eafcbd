"""Test that all programs report the same status of an answer for the same points."""

import csv

import numpy as np
import pytest
import slicer.util
from cohort_scans import embed_waiting
from scans import SEEDS, finish

from AnatomicalEmbedding.cli.main import main
from AnatomicalEmbedding.cohort.search import Search, one_mention
from AnatomicalEmbedding.cohort.store import Store
from AnatomicalEmbedding.embedding.inference import load_model
from AnatomicalEmbedding.followup.lesions import Study
from AnatomicalEmbedding.followup.proposing import find_places
from AnatomicalEmbedding.followup.record import FollowUp
from AnatomicalEmbedding.matching.match import match
from AnatomicalEmbedding.matching.query import read_query
from AnatomicalEmbedding.matching.status import ABSENT, MATCHED, MATCHED_MM, UNCERTAIN, decide
from AnatomicalEmbedding.phantom import make_phantom
from AnatomicalEmbedding.scan.points import PointList, write_markups
from AnatomicalEmbedding.scan.volume import Volume
from AnatomicalEmbedding.words import PlaceFinder

SPACING_MM = (4.0, 4.0, 4.0)


def test_matched_means_shown_and_at_most_10_mm():
    present = np.array([0.99, 0.99, 0.7, 0.7, 0.2])
    expected = np.array([10.0, 10.1, 3.0, 40.0, 3.0])
    assert decide(present, expected).tolist() == [MATCHED, UNCERTAIN, UNCERTAIN, UNCERTAIN, ABSENT]


@pytest.fixture(scope="module")
def patients(tmp_path_factory):
    """Files of a torso and of a shorter one, which does not show all points of the first; points of the first."""
    folder = tmp_path_factory.mktemp("patients")
    whole = make_phantom(SEEDS[0], spacing=SPACING_MM, coverage_mm=(150.0, 480.0))
    short = make_phantom(SEEDS[1], spacing=SPACING_MM, coverage_mm=(150.0, 330.0))
    paths = (folder / "whole.nii.gz", folder / "short.nii.gz")
    for path, phantom in zip(paths, (whole, short), strict=True):
        phantom.volume.write(path)
    write_markups(
        folder / "points.mrk.json",
        PointList(tuple(whole.points_ras), np.array([*whole.points_ras.values()])),
    )
    volumes = [Volume.read(path) for path in paths]
    return paths, volumes, whole.points_ras, folder / "points.mrk.json"


@pytest.fixture(scope="module")
def maps(patients):
    model = load_model("auto", device="cpu")
    return model, [model.embed(volume) for volume in patients[1]]


@pytest.fixture(scope="module")
def by_engine(patients, maps):
    """Status and expected error in mm of each point, by its name."""
    points = patients[2]
    found = match(maps[1][0], np.array([*points.values()]), maps[1][1])
    answers = {
        name: (str(found.status[n]), float(found.expected_error_mm[n]))
        for n, name in enumerate(points)
    }
    statuses = [status for status, _ in answers.values()]
    assert {MATCHED, UNCERTAIN, ABSENT} == set(statuses)  # the points put the rule to the test
    assert all(error <= MATCHED_MM for status, error in answers.values() if status == MATCHED)
    return answers


def assert_same(answers, by_engine):
    assert {name: status for name, (status, _) in answers.items()} == {
        n: status for n, (status, _) in by_engine.items()
    }
    for name, (status, error) in answers.items():
        assert status == ABSENT or error == pytest.approx(
            by_engine[name][1], abs=1.0
        )  # a cohort keeps maps in fewer bits


def test_command_line(patients, by_engine, tmp_path):
    (template, target), _, _, points = patients
    assert (
        main(["match", str(template), str(points), str(target), "-o", str(tmp_path), "--no-report"])
        == 0
    )
    with (tmp_path / "matches.csv").open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert_same(
        {row["label"]: (row["status"], float(row["expected_error_mm"] or "nan")) for row in rows},
        by_engine,
    )


def test_landmarks_of_slicer_and_the_viewer(bench, patients, by_engine):
    """The viewer shows the answers of the same logic."""
    nodes = [slicer.util.addVolumeFromArray(each.voxels, each.ijk_to_ras) for each in patients[1]]
    bench.ready(*nodes)
    ids = {name: bench.place(name, node=place) for name, place in patients[2].items()}
    finish(bench.store)
    answers = {name: bench.answer(point, nodes[1]) for name, point in ids.items()}
    assert_same({name: (each.status, each.errorMm) for name, each in answers.items()}, by_engine)


def test_follow_up(patients, maps, by_engine):
    record = FollowUp().with_studies([Study("a", "first"), Study("b", "second")])
    for place in patients[2].values():
        record = record.mark("a", place)
    record = find_places(record, ["b"], dict(zip("ab", maps[1], strict=True)))[0]
    guesses = [record.finding(f"L{number + 1}", "b").guess for number in range(len(patients[2]))]
    found = {
        name: (each.status, each.expected_error_mm)
        for name, each in zip(patients[2], guesses, strict=True)
    }
    assert_same(found, by_engine)


def test_cohort_by_points_and_by_words(patients, maps, by_engine, tmp_path):
    with Store(tmp_path / "cohort", create=True) as store:
        store.add([patients[0][1]])
        embed_waiting(store, "auto")
        search = Search(store)
        found = {
            name: search.point(read_query(maps[1][0], place[None]))[0]
            for name, place in patients[2].items()
        }
        assert_same(
            {name: (each.status, each.expected_error_mm) for name, each in found.items()}, by_engine
        )
        finder = PlaceFinder(maps[1][1], patients[1][1])
        for words in ("liver", "left kidney", "L3", "carina", "left femoral head"):
            mention = one_mention(words)
            (hit,), place = search.words(mention), finder.place(mention.places[0])
            assert hit.status != MATCHED or (
                place.status in ("inside", "partly") and hit.expected_error_mm <= MATCHED_MM
            )
            assert (hit.status == ABSENT) == (place.status == "outside")
