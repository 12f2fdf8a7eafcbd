"""Test `anatemb match` and `anatemb followup` with two scans of one patient, bent by a known transform."""

import csv
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest
from engine.cohort_scans import embed_waiting
from followup.dicom_series import write_ct_series

from AnatomicalEmbedding import load_model, match
from AnatomicalEmbedding.cli.main import main
from AnatomicalEmbedding.cohort.store import Store
from AnatomicalEmbedding.embedding.cache import MapCache
from AnatomicalEmbedding.errors import AnatomicalEmbeddingError
from AnatomicalEmbedding.followup.record_file import read_record
from AnatomicalEmbedding.matching.status import MATCHED
from AnatomicalEmbedding.scan.points import PointList, read_points, write_markups

LABELS = ("one", "two", "three", "four", "five", "six")


class Place(NamedTuple):
    """Two studies of one patient, a scan of another patient, points of the first study, their places in the second."""

    template: Path
    target: Path
    stranger: Path
    points: Path
    truth_ras: np.ndarray


@pytest.fixture(scope="module")
def place(bent_pair, phantom_pair, tmp_path_factory) -> Place:
    folder = tmp_path_factory.mktemp("studies")
    truth = bent_pair.points_ras
    points = bent_pair.bent.to_original(truth)
    low, high = bent_pair.volumes[1].bounds_ras
    deep = np.flatnonzero(((points > low + 40) & (points < high - 40)).all(axis=1))
    chosen = deep[np.linspace(0, len(deep) - 1, len(LABELS)).astype(int)]
    write_markups(folder / "points.mrk.json", PointList(LABELS, points[chosen]))
    write_ct_series(folder / "template", bent_pair.volumes[1], PatientID="P1", StudyDate="20240115")
    write_ct_series(folder / "target", bent_pair.volumes[0], PatientID="P1", StudyDate="20240709")
    write_ct_series(
        folder / "stranger", phantom_pair[1].volume, PatientID="P2", StudyDate="20250101"
    )
    paths = (folder / name for name in ("template", "target", "stranger", "points.mrk.json"))
    return Place(*paths, truth[chosen])


@pytest.fixture(autouse=True)
def _one_cache(place, monkeypatch):
    """Each scan is embedded once, and each pair is registered once."""
    monkeypatch.setenv("ANATEMB_CACHE", str(place.points.parent / "cache"))


def matched(
    place: Place, target: Path, out: Path, *options: str
) -> tuple[int, np.ndarray, set[str]]:
    """The exit code of `anatemb match`, the answers (n, 3) RAS mm, and how they were found."""
    words = ("match", place.template, place.points, target, "-o", out, "--no-report", *options)
    code = main([str(word) for word in words])
    if code:
        return code, np.empty((0, 3)), set()
    with (out / "matches.csv").open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    return (
        code,
        np.array([[float(row[axis]) for axis in "ras"] for row in rows]),
        {row["found_by"] for row in rows},
    )


def test_scans_of_one_patient_id_are_registered(place, tmp_path):
    code, found, found_by = matched(place, place.target, tmp_path)
    assert (code, found_by) == (0, {"registration"})
    # half of a voxel of 4 mm
    assert np.median(np.linalg.norm(found - place.truth_ras, axis=1)) < 2.0


def test_the_user_can_forbid_the_correspondence(place, tmp_path):
    code, _, found_by = matched(place, place.target, tmp_path, "--different-patients")
    assert (code, found_by) == (0, {"match"})


def test_python_gives_the_answers_of_the_command(place, tmp_path):
    _, found, _ = matched(place, place.target, tmp_path)
    model = load_model(cache=MapCache(place.points.parent / "cache"))
    points = read_points(place.points)
    answers = match(place.template, points, place.target, model=model)
    np.testing.assert_allclose(answers.points_ras, found, atol=0.01)


def test_python_registers_scans_not_maps_and_says_what_speaks_against_one_patient(place):
    model = load_model(cache=MapCache(place.points.parent / "cache"))
    points = read_points(place.points)
    with pytest.raises(AnatomicalEmbeddingError, match="give scans, not maps"):
        match(model.embed(place.template), points, place.target, same_patient=True, model=model)
    with pytest.warns(UserWarning, match="one patient"):
        answers = match(place.template, points, place.stranger, same_patient=True, model=model)
    assert MATCHED not in answers.status


def test_another_patient_is_matched_and_never_paired_silently(place, tmp_path, capsys):
    assert matched(place, place.stranger, tmp_path)[2] == {"match"}
    capsys.readouterr()
    code, _, found_by = matched(place, place.stranger, tmp_path / "forced", "--same-patient")
    assert (code, found_by) == (0, {"match"})
    with (tmp_path / "forced" / "matches.csv").open(newline="", encoding="utf-8") as file:
        assert "matched" not in {row["status"] for row in csv.DictReader(file)}
    (sentence,) = [line for line in capsys.readouterr().err.splitlines() if "one patient" in line]
    assert f"{place.template} and {place.stranger}" in sentence


def test_follow_up_reads_its_proposals_from_the_correspondence(place, tmp_path, capsys):
    words = (
        "followup",
        place.template,
        place.points,
        place.target,
        place.stranger,
        "-o",
        tmp_path,
        "--no-report",
    )
    assert main([str(word) for word in words]) == 0
    printed = capsys.readouterr()
    record = read_record(tmp_path / "patient.followup.json")
    prior, current, other = (study.key for study in record.studies)
    places = np.array([lesion.findings[current].point_ras for lesion in record.lesions])
    assert np.median(np.linalg.norm(places - place.truth_ras, axis=1)) < 2.0
    assert all(other in lesion.findings for lesion in record.lesions), "a refused pair is matched"
    assert f"{place.template} and {place.stranger}" in printed.out
    assert "Lesions are matched, and uncertain." in printed.out
    assert all(lesion.findings[other].guess.status != MATCHED for lesion in record.lesions)
    assert all(lesion.findings[prior].query for lesion in record.lesions)


def test_a_cohort_registers_the_scans_of_the_examples_patient(place, tmp_path):
    with Store(tmp_path / "store", create=True) as store:
        store.add([place.template, place.target, place.stranger])
        embed_waiting(store, "auto")
    found = []
    for point in read_points(place.points).points_ras:
        words = [
            "cohort",
            "find",
            tmp_path / "store",
            "--like",
            place.template,
            "-o",
            tmp_path / "out",
        ]
        assert main([*map(str, words), "--point=" + ",".join(map(str, point))]) == 0
        with (tmp_path / "out" / "places.csv").open(newline="", encoding="utf-8") as file:
            rows = {row["scan"]: row for row in csv.DictReader(file)}
        found.append([float(rows[str(place.target)][axis]) for axis in "ras"])
    _, registered, _ = matched(place, place.target, tmp_path / "match")
    np.testing.assert_allclose(found, registered, atol=0.05)
