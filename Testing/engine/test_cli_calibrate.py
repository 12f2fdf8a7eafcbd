"""Test the commands calibrate and evaluate confidence, with untrained weights on labelled bodies."""

import json

import pytest
from cli_runs import assert_refused, rows_of
from ellipsoid_cases import write_case
from small_models import write_described_weights

from AnatomicalEmbedding.embedding.calibration import Calibration, calibration_file


@pytest.fixture(scope="module")
def labelled(tmp_path_factory):
    folder = tmp_path_factory.mktemp("labelled")
    for name, shift in (("anna", (0, 0, 0)), ("bert", (8.0, 6.0, 10.0))):
        write_case(folder, name, shift)
    return folder


def test_weights_get_their_calibration_and_use_it(anatemb, labelled, place, tmp_path):
    weights = write_described_weights(tmp_path)
    used = ("--model", weights, "--no-cache")
    refused = anatemb("evaluate", "confidence", labelled, *used)
    assert_refused(refused, "described: these weights have no calibration", "anatemb calibrate")
    made = anatemb("calibrate", labelled, "--phantoms", 0, *used)
    assert made.code == 0
    assert f"wrote {tmp_path / 'described.calibration.safetensors'}" in made.out
    assert set(Calibration.load(calibration_file(weights)).forests) == {"fast", "standard"}
    outcome = anatemb("evaluate", "confidence", labelled, "--effort", "fast", *used, "--json")
    rows = {row["name"].strip(): row for row in json.loads(outcome.out)["groups"]}
    assert rows["centre"]["present"] == 6
    out = tmp_path / "out"
    words = ("match", place.template, place.points, place.target, "-o", out, *used)
    assert anatemb(*words).code == 0
    rows = rows_of(out / "matches.csv")
    points = json.loads((out / "target.mrk.json").read_text())["markups"][0]["controlPoints"]
    for row, point in zip(rows, points, strict=True):
        assert row["status"] in {"matched", "uncertain", "absent"}
        assert 0 <= float(row["probability"]) <= 1
        assert float(row["expected_error_mm"]) > 0
        assert point["description"].startswith(row["status"] + ": ")
        assert point["positionStatus"] == ("missing" if row["status"] == "absent" else "defined")


def test_wrong_data_and_names_are_refused(anatemb, labelled, tmp_path):
    assert_refused(anatemb("calibrate", labelled), "of shipped weights cannot be overwritten")
    wrong = anatemb("calibrate", labelled, "-o", tmp_path / "x.json")
    assert_refused(wrong, "this name must end in .calibration")
    output = tmp_path / "x.calibration.safetensors"
    single = anatemb("calibrate", labelled, "-o", output, "--phantoms", 1)
    assert_refused(single, "compared in pairs; give 0 or at least 2")
    assert not output.exists()
