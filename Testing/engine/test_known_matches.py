"""Test that the stated truth of matches with known truth is right."""

from dataclasses import replace

import numpy as np
import pytest
from ellipsoid_cases import ORGANS, write_case
from small_models import Averaging

from AnatomicalEmbedding.embedding.inference import Model
from AnatomicalEmbedding.errors import VolumeError
from AnatomicalEmbedding.phantom import make_phantom
from AnatomicalEmbedding.structures.label_names import CENTRE, EXTREME, INNER, LANDMARK
from AnatomicalEmbedding.structures.labelled_scans import load_cases
from AnatomicalEmbedding.training.known_matches import (
    CLICKED,
    bent_trials,
    cut_scan,
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


@pytest.mark.parametrize("axes", [(0, 1, 2), (2, 0, 1), (1, 2, 0)])
def test_a_cut_keeps_its_slices_where_they_were(torso, axes):
    """Whatever voxel axis runs along the body, and to whichever side."""
    from AnatomicalEmbedding.scan.volume import Volume

    order = [2 - a for a in axes[::-1]]
    matrix = torso.ijk_to_ras.copy()
    matrix[:, :3] = torso.ijk_to_ras[:, list(axes)]
    turned = Volume(np.ascontiguousarray(torso.voxels.transpose(order)), matrix)
    low, high = torso.bounds_ras[:, 2]
    cut = cut_scan(turned, low + 50, high - 60)
    assert cut.bounds_ras[:, 2] == pytest.approx((low + 50, high - 60), abs=4.1)
    np.testing.assert_allclose(cut.bounds_ras[:, :2], torso.bounds_ras[:, :2])
    inside = np.random.default_rng(0).uniform(
        cut.bounds_ras[0] + 5, cut.bounds_ras[1] - 5, (200, 3)
    )
    np.testing.assert_allclose(cut.sample(inside), torso.sample(inside), atol=1e-3)


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


def test_a_part_that_shows_only_air_is_skipped_with_the_reason(tmp_path, torso, embed):
    """Labelled or bent: what shows the body is tried all the same."""
    for name in ("anna", "bert"):
        write_case(
            tmp_path,
            name,
            (0, 0, 135.0),
            organs={"spleen": ((40.0, 10.0, 335.0), (12.0, 12.0, 12.0))},
        )
    reasons = []
    trials = list(labelled_trials(load_cases(tmp_path), embed, CLICKED, reasons.append))
    assert [trial.whole for trial in trials] == [True, False, True, False]
    assert len(reasons) == 2
    assert "anna" in reasons[0]
    hu = torso.voxels.copy()
    hu[: int(0.85 * len(hu))] = -1000
    trials = list(bent_trials([replace(torso, voxels=hu)], embed, reasons.append))
    assert [trial.whole for trial in trials] == [True]
    assert len(reasons) == 3


def test_clicked_points_are_centres_inner_points_and_named_landmarks(tmp_path, embed):
    """The second body is the first one, moved. Its spleen is drawn only in part."""
    shift = np.array((8.0, 6.0, 10.0))
    marks = {"carina": (3.0, 4.0, 410.0), "F-1": (-30.0, 10.0, 440.0)}
    moved = {name: (np.array(point) + shift).tolist() for name, point in marks.items()}
    whole = (40.0, 10.0, 345.0)
    part = (12.0, 12.0, 7.0)
    write_case(
        tmp_path, "anna", organs=ORGANS | {"spleen": (whole, (12.0, 12.0, 12.0))}, landmarks=marks
    )
    write_case(tmp_path, "bert", shift, organs=ORGANS | {"spleen": (whole, part)}, landmarks=moved)
    trials = [
        trial for trial in labelled_trials(load_cases(tmp_path), embed, CLICKED) if trial.whole
    ]
    assert len(trials) == 2
    for trial, direction in zip(trials, (-1, 1), strict=True):
        np.testing.assert_allclose(
            trial.target_ras - trial.template_ras, [direction * shift] * 22, atol=1.5
        )
        counts = {group: trial.groups.count(group) for group in set(trial.groups)}
        assert counts == {CENTRE: len(ORGANS), INNER: 6 * len(ORGANS), LANDMARK: 1}


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


def test_a_bent_scan_that_cannot_be_embedded_is_skipped_with_the_reason(torso, embed):
    def refuses_copies(volume):
        if volume.name.endswith("bent"):
            raise VolumeError("shows no patient")
        return embed(volume)

    reasons = []
    assert list(bent_trials([torso], refuses_copies, reasons.append)) == []
    assert reasons == ["shows no patient"]
