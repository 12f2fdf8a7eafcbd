"""Test the common body frame: tables of levels, and first guesses from readings or from a map."""

import json

import numpy as np
import pytest
import torch
from small_models import analytic_map

from AnatomicalEmbedding.errors import AnatomicalEmbeddingError
from AnatomicalEmbedding.training.frames import LevelTable, fit_heights, frame_from_map

# Level table


def test_level_table_is_read(tmp_path):
    path = tmp_path / "levels.json"
    path.write_text(
        json.dumps(
            {"body_height_mm": {"carina": 469}, "scans": {"a": {"carina": -120.5}}, "note": "x"}
        )
    )
    table = LevelTable.read(path)
    assert table.body_height_mm == {"carina": 469}
    assert table.readings == {"a": {"carina": -120.5}}


@pytest.mark.parametrize(
    "text", [None, "no JSON", "[1, 2]", "{}", '{"body_height_mm": {}, "scans": [3]}']
)
def test_what_is_no_level_table_is_named(text, tmp_path):
    path = tmp_path / "levels.json"
    if text is not None:
        path.write_text(text)
    with pytest.raises(
        AnatomicalEmbeddingError, match=r"levels\.json: is not a table of level readings"
    ):
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


@pytest.mark.parametrize("noise_mm", [0.0, 15.0])
def test_frame_is_read_from_a_map(noise_mm):
    """Coordinates 0.9 * ras + shift, a tenth of the cells nonsense."""
    scale = np.array([0.9, 1.1, 1.05])
    shift = np.array([12.0, -40.0, 300.0])
    made = analytic_map(lambda ras: ras * scale + shift, noise=noise_mm)
    wrong = torch.rand(made.body.shape, generator=torch.Generator().manual_seed(1)) < 0.1
    made.coordinate[:, wrong] += 150
    guess = frame_from_map(made)
    np.testing.assert_allclose(guess.scale, scale, atol=0.02)
    middle = made.cell_to_ras[:3, 3] + made.cell_mm * np.array(made.body.shape[::-1]) / 2
    np.testing.assert_allclose(guess.apply(middle[None])[0], middle * scale + shift, atol=4)


def test_frame_from_a_map_without_millimetres_is_refused():
    with pytest.raises(AnatomicalEmbeddingError, match="no body coordinates in mm"):
        frame_from_map(analytic_map(lambda ras: ras, metric=False))
