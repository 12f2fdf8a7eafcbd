"""The common body frame: level tables, first guesses, and the tie between scans that show the same organs."""

import json
from dataclasses import replace

import numpy as np
import pytest
import torch
from small_models import analytic_map
from training_scans import frame, linear_scan

from AnatomicalEmbedding.errors import AnatomicalEmbeddingError
from AnatomicalEmbedding.training.crops import cell_positions, cut_crop, draw_geometry
from AnatomicalEmbedding.training.frames import LevelTable, fit_heights, frame_from_map, guess_frame
from AnatomicalEmbedding.training.landmarks import tie_by_labels
from AnatomicalEmbedding.training.recipes import AugmentationSpec
from AnatomicalEmbedding.training.scans import prepare_volume

# Level table


def test_level_table_is_read(tmp_path):
    path = tmp_path / "levels.json"
    path.write_text(json.dumps({"body_height_mm": {"carina": 469}, "scans": {"a": {"carina": -120.5}}, "note": "x"}))
    table = LevelTable.read(path)
    assert table.body_height_mm == {"carina": 469}
    assert table.readings == {"a": {"carina": -120.5}}


@pytest.mark.parametrize("text", [None, "no JSON", "[1, 2]", "{}", '{"body_height_mm": {}, "scans": [3]}'])
def test_what_is_no_level_table_is_named(text, tmp_path):
    path = tmp_path / "levels.json"
    if text is not None:
        path.write_text(text)
    with pytest.raises(AnatomicalEmbeddingError, match=r"levels\.json: not a table of level readings"):
        LevelTable.read(path)


# First guess


def readings(scale, shift, heights, noise=0.0):
    errors = noise * np.random.default_rng(0).normal(size=len(heights))
    return {float(h): float((h - shift) / scale + e) for h, e in zip(heights, errors, strict=True)}


@pytest.mark.parametrize(("scale", "shift"), [(1.0, 0.0), (1.08, 750.0), (0.93, -310.0)])
def test_many_readings_fix_scale_and_shift(scale, shift):
    heights = [0, 100, 250, 380, 470, 620, 760]
    found, offset = fit_heights(readings(scale, shift, heights))
    assert found == pytest.approx(scale, abs=0.003)
    z = np.array(list(readings(scale, shift, heights).values()))
    np.testing.assert_allclose(found * z + offset, heights, atol=1.5)
    found, _ = fit_heights(readings(scale, shift, heights, noise=8.0))
    assert found == pytest.approx(scale, abs=0.04)


def test_few_readings_close_together_hardly_move_the_scale():
    scale, shift = fit_heights({400.0: 100.0, 430.0: 115.0})  # taken at their word: scale 2
    assert 1.0 < scale < 1.2
    assert scale * 107.5 + shift == pytest.approx(415.0)


def heights_of(phantom, heights=(200.0, 300.0, 400.0)):
    """World z of body heights on the phantom's mid-line."""
    points = phantom.from_body(np.array([[0.0, 0.0, h] for h in heights]))
    return dict(zip(heights, points[:, 2], strict=True))


@pytest.mark.parametrize("number", [0, 1])
def test_guess_of_a_phantom_is_right_to_a_few_centimetres(number, phantom_pair):
    phantom = phantom_pair[number]
    guess = prepare_volume(phantom.volume, heights_of(phantom), (4.0, 4.0, 4.0)).frame
    k, j, i = np.nonzero(phantom.labels)
    some = np.stack([i, j, k], axis=1)[::501]
    ras = some @ phantom.volume.ijk_to_ras[:3, :3].T + phantom.volume.ijk_to_ras[:3, 3]
    error = (guess.apply(ras) - phantom.to_body(ras)).mean(axis=0)
    assert abs(error[0]) < 25
    assert abs(error[1]) < 60
    assert abs(error[2]) < 15
    assert (np.abs(error) < 3 * guess.shift_sd_mm).all()


def test_scan_of_a_part_of_the_cross_section_gets_a_wide_prior(phantom_pair):
    scan = prepare_volume(phantom_pair[0].volume, {300.0: 0.0}, (4.0, 4.0, 4.0))
    half = scan.hu.shape[2] // 2
    hu, body = scan.hu.numpy()[:, :, half:], scan.body.numpy()[:, :, half:]
    whole = guess_frame(scan.hu.numpy(), scan.body.numpy(), scan.grid_to_ras, {300.0: 0.0})
    part = guess_frame(hu, body, scan.grid_to_ras, {300.0: 0.0})
    assert (whole.shift_sd_mm[:2] < 50).all()
    assert (part.shift_sd_mm[:2] >= 100).all()
    np.testing.assert_array_equal(part.shift_mm[:2], 0)
    assert part.shift_mm[2] == 300


# Tie by labels


BODY_POINTS = {
    "liver": (60, 20, 300),
    "spleen": (-90, -20, 320),
    "kidney_left": (-60, -40, 250),
    "kidney_right": (60, -40, 240),
    "aorta": (0, -10, 350),
    "heart": (-20, 40, 420),
}
HALF_SIZES = np.array([20.0, 25.0, 30.0])


def organ(centre, grow=1.0):
    """(7, 3) centre and six extremes of an ellipsoid."""
    signs = [(0, 0, 0), (1, 0, 0), (-1, 0, 0), (0, 1, 0), (0, -1, 0), (0, 0, 1), (0, 0, -1)]
    return np.array(centre, dtype=float) + np.array(signs) * HALF_SIZES * grow


def patients(count=4, guess_error=20.0):
    """Scans of patients who differ by an affine map per axis; their guesses are displaced. Returns maps and points."""
    rng = np.random.default_rng(3)
    scans, labelled, truth = [], {}, {}
    for n in range(count):
        scale, shift = rng.uniform(0.94, 1.06, 3), rng.uniform(-10, 10, 3) - (0, 0, 500)
        exact = frame(1 / scale, -shift / scale)
        guess = frame((1, 1, 1), -shift + rng.uniform(-guess_error, guess_error, 3), (0.08,) * 3, (30.0,) * 3)
        corner = np.array([-20, -60, 220])  # about the right kidney
        scans.append(linear_scan(f"scan{n}", origin=shift + corner, guess=guess))
        labelled[f"scan{n}"] = {name: organ(p) * scale + shift for name, p in BODY_POINTS.items()}
        truth[f"scan{n}"] = exact
    return scans, labelled, truth


def with_labels(scans, labelled):
    return [replace(scan, structures=labelled.get(scan.name, {})) for scan in scans]


def tie(scans, labelled):
    return tie_by_labels(with_labels(scans, labelled))


def spread_of_centres(scans, labelled, names=tuple(BODY_POINTS)):
    """Root mean square distance in mm of the organs' centres from their mean over scans, by the frames alone."""
    spreads = []
    for name in names:
        centres = np.stack([s.frame.apply(labelled[s.name][name][:1])[0] for s in scans])
        spreads.append(((centres - centres.mean(axis=0)) ** 2).sum(axis=1).mean())
    return float(np.sqrt(np.mean(spreads)))


def field_at(scan, points_ras):
    """Body coordinates that a crop around each point gets there."""
    found = []
    for point in points_ras:
        ijk = (point - scan.grid_to_ras[:3, 3]) / np.diag(scan.grid_to_ras)[:3]
        lattice = draw_geometry(AugmentationSpec(), (4, 4, 4), np.full(3, 0.1), np.random.default_rng(0))
        target, _ = cell_positions(scan, cut_crop(scan, ijk, lattice, (4, 4, 4)))
        found.append(target.flatten().numpy())
    return np.array(found)


def test_one_organ_has_one_place_in_all_body_fields():
    scans, labelled, _ = patients()
    tied = tie(scans, labelled)
    places = np.stack([field_at(s, labelled[s.name]["kidney_right"][:1])[0] for s in tied])
    guessed = np.stack([s.frame.apply(labelled[s.name]["kidney_right"][:1])[0] for s in scans])
    assert np.ptp(guessed, axis=0).max() > 15
    assert np.ptp(places, axis=0).max() < 3


def test_displaced_and_scaled_frames_are_recovered():
    scans, labelled, truth = patients()
    tied = tie(scans, labelled)
    # relative to the first patient: which frame is the common one is nobody's to know
    first = tied[0].frame
    for scan in tied[1:]:
        for name in BODY_POINTS:
            here = labelled[scan.name][name][0]
            body = truth[scan.name].apply(here)
            there = (body - truth["scan0"].shift_mm) / truth["scan0"].scale
            assert np.abs(scan.frame.apply(here) - first.apply(there)).max() < 8


def test_structure_drawn_in_part_is_left_out():
    scans, labelled, _ = patients()
    whole = tie(scans, labelled)
    for n, structures in enumerate(labelled.values()):
        structures["spinal_canal"] = organ((0, -60, 40 * n - 300))  # another stretch of it in each scan
    tied = tie(scans, labelled)
    for one, other in zip(whole, tied, strict=True):
        np.testing.assert_allclose(one.frame.scale, other.frame.scale, atol=1e-9)
        np.testing.assert_allclose(one.frame.shift_mm, other.frame.shift_mm, atol=1e-6)
        torch.testing.assert_close(one.body_field, other.body_field)


@pytest.mark.parametrize("case", ["no labels", "two scans", "one structure", "no common place"])
def test_too_little_in_common_changes_nothing(case):
    scans, labelled, _ = patients()
    if case == "no labels":
        labelled = {}
    elif case == "two scans":
        labelled = dict(list(labelled.items())[:2])
    elif case == "one structure":
        labelled = {scan: {"liver": points["liver"]} for scan, points in labelled.items()}
    else:
        rng = np.random.default_rng(0)
        labelled = {scan: {n: p + rng.normal(0, 80, 3) for n, p in of.items()} for scan, of in labelled.items()}
    given = with_labels(scans, labelled)
    assert all(a is b for a, b in zip(tie_by_labels(given), given, strict=True))


@pytest.mark.parametrize("noise_mm", [0.0, 15.0])
def test_frame_is_read_from_a_map(noise_mm):
    """Coordinates 0.9 * ras + shift, a tenth of the cells nonsense."""
    scale, shift = np.array([0.9, 1.1, 1.05]), np.array([12.0, -40.0, 300.0])
    made = analytic_map(lambda ras: ras * scale + shift, noise=noise_mm)
    wrong = torch.rand(made.body.shape, generator=torch.Generator().manual_seed(1)) < 0.1
    made.coordinate[:, wrong] += 150
    guess = frame_from_map(made)
    np.testing.assert_allclose(guess.scale, scale, atol=0.02)
    middle = made.cell_to_ras[:3, 3] + made.cell_mm * np.array(made.body.shape[::-1]) / 2
    np.testing.assert_allclose(guess.apply(middle[None])[0], middle * scale + shift, atol=4)


def test_frame_from_a_map_without_millimetres_is_refused():
    with pytest.raises(AnatomicalEmbeddingError, match="no common body frame"):
        frame_from_map(analytic_map(lambda ras: ras, metric=False))
