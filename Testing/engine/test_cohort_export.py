"""Exports of a cohort: crops, tables of scans, boxes and places, pictures; and faults of scans."""

from __future__ import annotations

import csv
import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from cohort_scans import embed_waiting, torso, write_torsos

from AnatomicalEmbedding.cohort.gallery import thumbnail
from AnatomicalEmbedding.cohort.store import Store
from AnatomicalEmbedding.reports.pictures import CORONAL
from AnatomicalEmbedding.scan.boxes import SIDES
from AnatomicalEmbedding.scan.volume import Volume

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
    folder = tmp_path_factory.mktemp("cohort") / "store"
    with Store(folder, create=True) as store:
        store.add([torsos[0]])
        embed_waiting(store, "auto")
    return folder


def _table(path: Path) -> list[dict[str, str]]:
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def _true_box(phantom) -> np.ndarray:
    number = next(number for number, name in phantom.label_names.items() if name == _ORGAN)
    k, j, i = np.nonzero(phantom.labels == number)
    to_ras = phantom.volume.ijk_to_ras
    voxels = np.stack([i, j, k], axis=1) @ to_ras[:3, :3].T + to_ras[:3, 3]
    return np.stack([voxels.min(axis=0), voxels.max(axis=0)])


def test_crops_hold_the_organ(anatemb, torsos, folder, tmp_path):
    assert anatemb("cohort", "crop", folder, _ORGAN, "--margin-mm", "5", "-o", tmp_path).code == 0
    rows = {row["scan"]: row for row in _table(tmp_path / "crops.csv")}
    for path, phantom in torsos[1].items():
        crop, box = Volume.read(rows[path]["crop"]), _true_box(phantom)
        inside = np.clip(box, *crop.bounds_ras)
        assert np.prod(inside[1] - inside[0]) > 0.9 * np.prod(box[1] - box[0])
        assert crop.voxels.size < 0.5 * phantom.volume.voxels.size


def test_export(anatemb, torsos, folder, tmp_path):
    outcome = anatemb("cohort", "export", folder, "left kidney", "--structures", _ORGAN, "-o", tmp_path, "--json")
    assert outcome.code == 0
    names = {Path(path).name for path in json.loads(outcome.out)["files"]}
    assert names == {path.name for path in tmp_path.iterdir()}
    scans = {Path(row["scan"]).name: row for row in _table(tmp_path / "scans.csv")}
    assert scans["empty.nii.gz"]["state"] == "unusable"
    assert {name for name, row in scans.items() if row["odd"]} == {"upside_down.nii.gz"}
    low, high = float(scans["torso_0.nii.gz"]["low_mm"]), float(scans["torso_0.nii.gz"]["high_mm"])
    np.testing.assert_allclose([low, high], [190.0, 330.0], atol=20)

    boxes = {row["scan"]: row for row in _table(tmp_path / "boxes.csv")}
    for path, phantom in torsos[1].items():
        sides = np.array([float(boxes[path][side]) for side in SIDES]).reshape(2, 3)
        assert boxes[path]["structure"] == _ORGAN
        assert np.linalg.norm(sides.mean(axis=0) - _true_box(phantom).mean(axis=0)) < 15

    page = (tmp_path / "gallery.html").read_text()
    assert page.count("data:image/jpeg;base64,") == sum(row["r"] != "" for row in _table(tmp_path / "places.csv"))


def test_tables_as_parquet_have_numbers_and_no_empty_texts(anatemb, folder, tmp_path):
    parquet = pytest.importorskip("pyarrow.parquet", reason="needs pyarrow; `make test` installs it")
    assert anatemb("cohort", "export", folder, "left kidney", "--parquet", "-o", tmp_path).code == 0
    for name in ("scans", "places"):
        rows, table = _table(tmp_path / f"{name}.csv"), parquet.read_table(tmp_path / f"{name}.parquet").to_pylist()
        assert [row["scan"] for row in table] == [row["scan"] for row in rows]
        for column in ("low_mm", "r"):
            if column in rows[0]:
                assert [row[column] for row in table] == [float(row[column]) if row[column] else None for row in rows]


def test_pictures_are_cut_along_the_axes_of_the_body():
    """A scan that is turned in its frame looks as if it were not, once the frame says so."""
    volume = torso(0).volume
    middle = volume.bounds_ras.mean(axis=0)
    angle = np.radians(20)
    turn = np.eye(4)
    turn[:2, :2] = [(np.cos(angle), -np.sin(angle)), (np.sin(angle), np.cos(angle))]
    turned = replace(volume, ijk_to_ras=turn @ volume.ijk_to_ras)
    upright = {"frame": np.vstack([np.eye(3), np.zeros(3)])}
    back = {"frame": np.vstack([turn[:3, :3], np.zeros(3)])}  # row vectors: ras @ turn undoes it
    plain = thumbnail(volume, middle, upright, CORONAL)
    same = thumbnail(turned, turn[:3, :3] @ middle, back, CORONAL)
    assert np.abs(plain.astype(int) - same).max() <= 1
    assert np.abs(plain.astype(int) - thumbnail(turned, turn[:3, :3] @ middle, upright, CORONAL)).max() > 50
