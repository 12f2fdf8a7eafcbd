"""Test the exports of a cohort: crops, pictures, and tables of scans, boxes and places; and faults of scans."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from cli_runs import rows_of
from cohort_scans import make_store, torso, true_box, write_torsos

from AnatomicalEmbedding.cli.locate import BOX_COLUMNS

_ORGAN = "kidney_left"


@pytest.fixture(scope="module")
def torsos(tmp_path_factory):
    folder = tmp_path_factory.mktemp("in")
    made = write_torsos(folder, range(2))
    volume = torso(1).volume
    flipped = np.ascontiguousarray(np.flip(volume.voxels, 0))
    replace(volume, voxels=flipped).write(folder / "upside_down.nii.gz")
    (folder / "empty.nii.gz").touch()
    return folder, made


@pytest.fixture(scope="module")
def folder(torsos, tmp_path_factory):
    return make_store(torsos[0], tmp_path_factory.mktemp("cohort") / "store")


def test_export(anatemb, torsos, folder, tmp_path):
    outcome = anatemb(
        "cohort", "export", folder, "left kidney", "--structures", _ORGAN, "-o", tmp_path, "--json"
    )
    assert outcome.code == 0
    names = {Path(path).name for path in json.loads(outcome.out)["files"]}
    assert names == {path.name for path in tmp_path.iterdir()}
    scans = {Path(row["scan"]).name: row for row in rows_of(tmp_path / "scans.csv")}
    assert scans["empty.nii.gz"]["state"] == "unusable"
    assert {name for name, row in scans.items() if row["odd"]} == {"upside_down.nii.gz"}
    low = float(scans["torso_0.nii.gz"]["low_mm"])
    high = float(scans["torso_0.nii.gz"]["high_mm"])
    np.testing.assert_allclose([low, high], [190.0, 330.0], atol=20)

    boxes = {row["scan"]: row for row in rows_of(tmp_path / "boxes.csv")}
    assert all(tuple(row) == BOX_COLUMNS for row in boxes.values())  # as of `anatemb locate`
    for path, phantom in torsos[1].items():
        sides = np.array([float(boxes[path][column]) for column in BOX_COLUMNS[3:9]]).reshape(2, 3)
        assert boxes[path]["structure"] == _ORGAN
        assert np.linalg.norm(sides.mean(axis=0) - true_box(phantom, _ORGAN).mean(axis=0)) < 15

    page = (tmp_path / "gallery.html").read_text()
    assert page.count("data:image/jpeg;base64,") == sum(
        row["r"] != "" for row in rows_of(tmp_path / "places.csv")
    )
