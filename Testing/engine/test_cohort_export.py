"""What a cohort is exported as: crops, boxes, coverage, population, pictures; and which scans are odd."""

from __future__ import annotations

import csv
import json
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest
from cohort_scans import embed_waiting, torso, write_torsos

from AnatomicalEmbedding.cohort.gallery import thumbnail
from AnatomicalEmbedding.cohort.store import Store
from AnatomicalEmbedding.cohort.summary import in_frame, oddities, population
from AnatomicalEmbedding.reports.pictures import CORONAL

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

    picture = ElementTree.parse(tmp_path / "coverage.svg").getroot()
    words = " ".join(picture.itertext())
    assert "store: 3 scans" in words
    assert "the kidneys: " in words

    coco = json.loads((tmp_path / "boxes.coco.json").read_text())
    assert [each["name"] for each in coco["categories"]] == [_ORGAN]
    paths = {each["id"]: each["file_name"] for each in coco["images"]}
    for each in coco["annotations"]:
        if paths[each["image_id"]] in torsos[1]:
            middle = np.array(each["bbox"][:3]) + np.array(each["bbox"][3:]) / 2
            assert np.linalg.norm(middle - _true_box(torsos[1][paths[each["image_id"]]]).mean(axis=0)) < 15
    (row,) = _table(tmp_path / "population.csv")
    whole = [row for row in _table(tmp_path / "boxes.csv") if row["status"] == "whole"]
    assert (row["structure"], int(row["scans"])) == (_ORGAN, len(whole))
    assert whole

    page = (tmp_path / "gallery.html").read_text()
    assert page.count("data:image/jpeg;base64,") == sum(row["r"] != "" for row in _table(tmp_path / "places.csv"))


def test_population_is_the_mean_over_scans():
    boxes = np.array([[[0, 0, 0], [10, 20, 30]], [[2, 2, 2], [16, 22, 32]]], dtype=float)
    (found,) = population({"organ": boxes, "nowhere": []})
    assert (found.name, found.scans) == ("organ", 2)
    np.testing.assert_allclose(found.middle_mm, [7, 11, 16])
    np.testing.assert_allclose(found.size_mm, [12, 20, 30])
    np.testing.assert_allclose(found.middle_sd_mm, np.std([[5, 10, 15], [9, 12, 17]], axis=0, ddof=1))


def test_a_box_in_the_frame_of_a_scan():
    frame = [[0.5, 0, 0], [0, -2, 0], [0, 0, 1], [10, 20, 30]]  # body = ras @ frame[:3] + frame[3]
    box = in_frame(frame, np.array([[0, 0, 0], [4, 6, 8]], dtype=float))
    np.testing.assert_allclose(box, [[10, 8, 30], [12, 20, 38]])


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


def test_no_scans_no_oddities():
    assert oddities([]) == []
