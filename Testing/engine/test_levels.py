"""Test levels of the spine: where they can be counted from, and that other answers are called uncertain."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from small_models import analytic_map

from AnatomicalEmbedding import Volume, load_model, match
from AnatomicalEmbedding.embedding.map import EmbeddingMap
from AnatomicalEmbedding.embedding.map_file import Provenance
from AnatomicalEmbedding.embedding.spine_reading import spine_ends
from AnatomicalEmbedding.matching.status import MATCHED, UNCERTAIN
from AnatomicalEmbedding.structures.library import shipped_library
from AnatomicalEmbedding.structures.locating import locate
from AnatomicalEmbedding.training.known_matches import cut_scan
from AnatomicalEmbedding.words import PlaceFinder

LUMBAR = [f"vertebrae_L{n}" for n in range(1, 6)]


@pytest.fixture(scope="module")
def model():
    return load_model(device="cpu")


@pytest.fixture(scope="module")
def lumbar(real_data):
    """20 cm of a real abdomen, from above the sacrum to below the lung apices."""
    whole = Volume.read(real_data / "train" / "aapm_L067.nii.gz")
    return cut_scan(whole, -276.0, -76.0)


def scan_with(**boxes):
    """An analytic scan, 300 to 492 mm, with organs from low to high."""
    sides = {
        name: np.array([[-40.0, -60.0, low], [40.0, 20.0, high]])
        for name, (low, high) in boxes.items()
    }
    return replace(analytic_map(lambda p: p + (0, 0, 100)), organ_boxes=sides)


def test_an_organ_that_ends_in_the_scan_is_an_end_to_count_from():
    assert spine_ends(scan_with(sacrum=(310, 400))) == {"sacrum": 400.0}
    # a last lumbar vertebra may look like so much of it
    assert spine_ends(scan_with(sacrum=(305, 320))) == {}
    assert spine_ends(scan_with(sacrum=(310, 490))) == {}
    assert spine_ends(scan_with(lung_left=(310, 470), lung_right=(310, 460))) == {
        "lung apices": 465.0
    }
    assert spine_ends(scan_with(lung_left=(310, 491))) == {}
    assert spine_ends(scan_with(brain=(400, 490))) == {"skull base": 400.0}
    assert spine_ends(scan_with(brain=(310, 490))) == {}
    low = replace(scan_with(lung_left=(310, 470)), coordinate=scan_with().coordinate - 200)
    assert spine_ends(low) == {}  # lungs that end so low in the body are not seen to their tops


def test_lungs_below_air_are_no_end_to_count_from():
    """The body is cut through the lungs, and the scan is filled up with air above."""
    body = torch.zeros(40, 20, 20, dtype=torch.bool)
    body[:20, 5:15, 5:15] = True
    coordinate = torch.zeros(3, 40, 20, 20)
    # 500 mm of body height at the cut
    coordinate[2] = (torch.arange(40) * 12.0 + 266)[:, None, None]
    cell_to_ras = np.diag([12.0, 12, 12, 1])
    cell_to_ras[:3, 3] = 6
    lungs = {"lung_left": np.array([[60.0, 60, 20], [120, 120, 238]])}
    provenance = Provenance("model", "weights", "scan", "hash", True)
    scan = EmbeddingMap(
        coordinate,
        body,
        cell_to_ras,
        np.diag([1.0, 1, 3, 1]),
        (160, 240, 240),
        provenance,
        organ_boxes=lungs,
    )
    assert spine_ends(scan) == {}


def test_in_a_lumbar_scan_without_sacrum_no_level_is_sure_by_points_boxes_or_words(
    model, real_data, lumbar
):
    """Such scans were called one vertebra too low: matched, whole and inside."""
    target = model.embed(lumbar)
    assert spine_ends(target) == {}
    template = Volume.read(real_data / "dev" / "ts_example.nii.gz")
    finder = PlaceFinder(model.embed(template), template)
    named = [finder.place(name) for name in ("vertebrae_L1", "vertebrae_L3", "disc_L2_L3")]
    points = np.array([place.point_ras for place in named])
    found = match(model.embed(template), points, target)
    assert MATCHED not in found.status
    assert all(" or " in levels for levels in found.levels)
    liver = np.array([finder.place("liver").point_ras])
    assert match(model.embed(template), liver, target).levels.tolist() == [""]
    library = shipped_library(model.weights_hash)
    boxes = locate(
        {name: library.examples[name] for name in (*LUMBAR, "rib_left_12")}, target, library.effort
    )
    assert {located.status for located in boxes.values()} <= {"uncertain", "absent"}
    assert any("L3 or" in remark for remark in boxes["vertebrae_L3"].remarks)
    places = PlaceFinder(target, lumbar)
    for name in ("vertebrae_L2", "disc_L2_L3", "rib_left_12"):
        place = places.place(name)
        assert place.status in (UNCERTAIN, "outside")
        assert (place.status == UNCERTAIN) == (" or " in place.levels)
    assert places.place("kidney_left").status != UNCERTAIN
