"""Test the landmark sets that ship: their terms and size, and that they find known points of a synthetic patient."""

from __future__ import annotations

import numpy as np
import pytest

from AnatomicalEmbedding import load_model
from AnatomicalEmbedding.embedding.cache import MapCache
from AnatomicalEmbedding.landmarks.landmark_set import SUFFIX, read_landmark_set
from AnatomicalEmbedding.landmarks.markups import measurements
from AnatomicalEmbedding.phantom import make_phantom
from AnatomicalEmbedding.resources import resource

NAMES = ("pelvis", "trunk")
KNOWN = {
    "femoral head left": "femoral_head_left",
    "femoral head right": "femoral_head_right",
    "symphysis": "symphysis",
    "sacral promontory": "sacral_promontory",
    "kidney upper pole left": "kidney_left_upper_pole",
    "kidney lower pole right": "kidney_right_lower_pole",
    "aortic bifurcation": "aortic_bifurcation",
    "lung apex right": "lung_apex_right",
}
CLOSE_MM = (
    20.0  # the anatomy of synthetic patients is simple: poles and apices lie a little elsewhere
)


@pytest.fixture(scope="module")
def patient():
    return make_phantom(5510, spacing=(4.0, 4.0, 4.0), coverage_mm=(-110.0, 620.0))


@pytest.fixture(scope="module")
def embedding(patient, map_folder):
    return load_model("ct-open", cache=MapCache(map_folder)).embed(patient.volume)


@pytest.mark.parametrize("name", NAMES)
def test_the_points_and_lengths_of_a_patient_are_found(name, patient, embedding):
    landmark_set = read_landmark_set(name)
    matches = landmark_set.find(embedding)
    for label, place in zip(landmark_set.names, matches.points_ras, strict=True):
        if label in KNOWN:
            assert np.linalg.norm(place - patient.points_ras[KNOWN[label]]) < CLOSE_MM, label
    values = measurements(landmark_set.markups, landmark_set.names, matches)
    assert all(measured.value is not None for measured in values)
    if name == "pelvis":
        heads = [patient.points_ras[f"femoral_head_{side}"] for side in ("left", "right")]
        (stated,) = (value for value in values if value.name == "femoral head distance")
        assert abs(stated.value - np.linalg.norm(heads[0] - heads[1])) <= stated.margin


def test_the_sets_are_small_and_state_their_terms_and_sources():
    paths = [resource(f"Landmarks/{name}{SUFFIX}") for name in NAMES]
    assert sum(path.stat().st_size for path in paths) < 1_000_000
    weights_hash = load_model("ct-open", "cpu").weights_hash
    for name in NAMES:
        landmark_set = read_landmark_set(name)
        assert landmark_set.weights_hash == weights_hash
        assert "CC BY 4.0" in landmark_set.terms
        assert "TotalSegmentator" in landmark_set.terms
        assert all(len(landmark.examples) >= 2 for landmark in landmark_set.landmarks)


def test_a_set_that_ships_is_not_changed(patient, anatemb, tmp_path):
    patient.volume.write(tmp_path / "a.nii.gz")
    changed = anatemb("landmarks", "add", "pelvis", tmp_path / "a.nii.gz")
    assert changed.code == 2
    assert "a landmark set of your own is a file" in changed.err
