"""Test that the stated truth of matches with known truth is right."""

import numpy as np
import pytest
from ellipsoid_cases import ORGANS, write_case
from small_models import Averaging

from AnatomicalEmbedding.embedding.inference import Model
from AnatomicalEmbedding.phantom import make_phantom
from AnatomicalEmbedding.structures.label_names import CENTRE, EXTREME
from AnatomicalEmbedding.structures.labelled_scans import load_cases
from AnatomicalEmbedding.training.known_matches import (
    bent_trials,
    labelled_trials,
)
from AnatomicalEmbedding.training.warped_scans import warp_scan


@pytest.fixture(scope="module")
def torso():
    return make_phantom(4, spacing=(3.0, 3.0, 4.0), coverage_mm=(250.0, 420.0), noise_hu=0.0).volume


@pytest.fixture(scope="module")
def embed():
    return Model(Averaging(), "averaging", "0" * 64).embed


def test_a_bent_scan_shows_what_the_original_shows_there(torso):
    copy = warp_scan(torso, 7)
    low, high = copy.volume.bounds_ras
    points = np.random.default_rng(0).uniform(low + 10, high - 10, (4000, 3))
    there = copy.to_original(points)
    seen = torso.contains(there)
    one = copy.volume.sample(points[seen])
    other = torso.sample(there[seen])
    assert np.corrcoef(one, other)[0, 1] > 0.97
    moved = np.linalg.norm(there - points, axis=1)
    assert 5 < np.median(moved) < 60
    # it would show if it were not bent
    assert np.corrcoef(one, torso.sample(points[seen]))[0, 1] < 0.85


def test_labelled_scans_are_tried_whole_and_cut(tmp_path, embed):
    """The organs of the phantom lie at other heights: a cut removes some, runs through some, and leaves some."""
    organs = ORGANS | {"spleen": ((40.0, 10.0, 345.0), (12.0, 12.0, 12.0))}
    for name, shift in (("anna", (0, 0, 0)), ("bert", (8.0, 6.0, 10.0))):
        write_case(tmp_path, name, shift, organs=organs)
    cases = load_cases(tmp_path)
    truth = {case.id: case.structures for case in cases}
    trials = list(labelled_trials(cases, embed, (CENTRE, EXTREME)))
    assert [t.whole for t in trials].count(True) == 2
    assert len(trials) == 6
    absent = 0
    for trial in trials:
        gone = np.isnan(trial.target_ras).any(axis=1)
        absent += gone.sum()
        assert trial.target.contains(trial.target_ras[~gone]).all()
        assert len(trial.groups) == len(gone) == len(trial.template_ras)
        if trial.whole:
            assert not gone.any()
            assert len(gone) == 7 * len(organs)
    assert absent >= 14
    assert truth["anna"].keys() == truth["bert"].keys()


def test_points_of_bent_scans_are_where_their_truth_puts_them(torso, embed):
    whole, cut = bent_trials([torso], embed)
    copy = warp_scan(torso, 0)
    np.testing.assert_allclose(copy.to_original(whole.target_ras), whole.template_ras)
    assert whole.template.contains(whole.template_ras).all()
    gone = np.isnan(cut.target_ras).any(axis=1)
    assert 0.1 < gone.mean() < 0.9
    assert cut.target.contains(cut.target_ras[~gone]).all()
    lost = {tuple(p) for p in cut.template_ras[gone]}
    there = np.array(
        [t for t, p in zip(whole.target_ras, whole.template_ras, strict=True) if tuple(p) in lost]
    )
    low = cut.target.scan_to_ras[2, 3]
    high = cut.target.scan_to_ras[2, 3] + cut.target.scan_to_ras[2, 2] * cut.target.scan_shape[0]
    assert (np.maximum(low - there[:, 2], there[:, 2] - high) > 4).all()
