"""Test the search for places in all scans of a cohort, against the known places of synthetic patients."""

import json
from pathlib import Path

import numpy as np
import pytest
from cli_runs import assert_refused, rows_of
from cohort_scans import (
    embed_waiting,
    make_store,
    true_box,
    voxels_ras,
    write_torsos,
)

from AnatomicalEmbedding.cohort.search import Search, one_mention
from AnatomicalEmbedding.cohort.store import Store
from AnatomicalEmbedding.matching.status import MATCHED_MM
from AnatomicalEmbedding.phantom import make_phantom

_HEAD = "head.nii.gz"
_CLOSE_MM = 15.0


@pytest.fixture(scope="module")
def torsos(tmp_path_factory):
    folder = tmp_path_factory.mktemp("in")
    made = write_torsos(folder, range(3))
    make_phantom(5, spacing=(4, 4, 5), coverage_mm=(640, 810)).volume.write(folder / _HEAD)
    return made


@pytest.fixture(scope="module")
def folder(torsos, tmp_path_factory):
    return make_store(_folder_of(torsos), tmp_path_factory.mktemp("cohort") / "store")


def _folder_of(torsos):
    return Path(next(iter(torsos))).parent


def test_like_a_point_of_a_scan(anatemb, torsos, folder, tmp_path):
    first = next(iter(torsos))
    shared = set.intersection(*(set(phantom.points_ras) for phantom in torsos.values()))
    errors = []
    for name in sorted(shared)[:3]:
        point = ",".join(str(x) for x in torsos[first].points_ras[name])
        outcome = anatemb(
            "cohort", "find", folder, "--like", first, "--point", point, "-o", tmp_path
        )
        assert outcome.code == 0
        rows = rows_of(tmp_path / "places.csv")
        assert list(rows[0]) == [
            "scan",
            "status",
            "probability",
            "expected_error_mm",
            "r",
            "a",
            "s",
        ]
        assert len(rows) == 4
        assert rows[-1] == rows[-1] | {
            "scan": str(_folder_of(torsos) / _HEAD),
            "status": "absent",
            "r": "",
        }
        for row in rows[:-1]:
            assert row["status"] in ("matched", "uncertain")
            place = [float(row[axis]) for axis in "ras"]
            errors.append(np.linalg.norm(torsos[row["scan"]].points_ras[name] - place))
        chances = [float(row["probability"]) for row in rows]
        assert chances == sorted(chances, reverse=True)
    assert np.median(errors) < 6
    assert max(errors) < 40


@pytest.mark.parametrize("words", ["left kidney", "T10"])
def test_words_have_the_answer_that_each_scan_has_alone(anatemb, torsos, folder, tmp_path, words):
    scans = [next(iter(torsos)), _folder_of(torsos) / _HEAD]
    alone = json.loads(
        anatemb("find", words, *scans, "-o", tmp_path / "alone", "--no-report", "--json").out
    )["places"]
    together = json.loads(
        anatemb("cohort", "find", folder, words, "-o", tmp_path / "all", "--json").out
    )["places"]
    by_scan = {row["scan"]: row for row in together}
    for row in alone:
        other = by_scan[row["scan"]]
        if row["r"] is None:
            assert (row["status"], other["status"], other["r"]) == ("outside", "absent", None)
            continue
        # numbers of stored maps have fewer bits, so a place may move by a step of its grid, 2 mm
        np.testing.assert_allclose(
            [other[axis] for axis in "ras"], [row[axis] for axis in "ras"], atol=2.1
        )
        assert other["probability"] == pytest.approx(row["probability"], abs=0.01)
        sure = row["status"] == "inside" and other["expected_error_mm"] <= MATCHED_MM
        assert other["status"] == ("matched" if sure else "uncertain")


def test_a_scan_that_has_gone_is_found_by_its_coordinates_alone(torsos, tmp_path):
    path = Path(next(iter(torsos)))
    gone = tmp_path / "in" / path.name
    gone.parent.mkdir()
    gone.write_bytes(path.read_bytes())
    with Store(tmp_path / "store", create=True) as store:
        store.add([gone])
        embed_waiting(store, "auto")
        gone.unlink()
        (found,) = Search(store).words(one_mention("left kidney"))
    assert (found.status, found.probability, found.text) == ("uncertain", None, "uncertain")
    away = voxels_ras(torsos[str(path)], "kidney_left") - found.point_ras
    assert np.linalg.norm(away, axis=1).min() < _CLOSE_MM


def test_like_a_box(anatemb, torsos, folder, tmp_path):
    first, other, *_ = torsos
    boxes = {path: true_box(torsos[path], "kidney_left") for path in (first, other)}
    corners = ",".join(f"{x:.1f}" for x in boxes[first].ravel())
    outcome = anatemb("cohort", "find", folder, "--like", first, "--box", corners, "-o", tmp_path)
    assert outcome.code == 0
    row = next(row for row in rows_of(tmp_path / "places.csv") if row["scan"] == other)
    middle = [float(row[axis]) for axis in "ras"]
    assert np.linalg.norm(boxes[other].mean(axis=0) - middle) < _CLOSE_MM


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ([], "no place or several places are given"),
        (["left adrenal", "--point", "1,2,3"], "cannot be used with words"),
        (["--like", "nowhere.nii", "--point", "1,2,3"], "neither a scan of this cohort nor a file"),
        (["--like", _HEAD, "--point", "1,2"], "neither"),
        (["zzz"], "names no place that is known"),
        (["adrenal glands"], "names 2 places"),
    ],
)
def test_what_cannot_be_found_is_reported(anatemb, folder, tmp_path, options, says):
    assert_refused(anatemb("cohort", "find", folder, *options, "-o", tmp_path / "out"), says)
    assert not (tmp_path / "out").exists()
