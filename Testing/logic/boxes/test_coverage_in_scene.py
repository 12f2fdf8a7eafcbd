"""Test the coverage of scans in a real scene: as words, with orientation faults, and after voxels changed."""

import numpy as np
import pytest
import slicer.util
from scans import add_patient, finish, make_store

from AnatomicalEmbedding.embedding.coverage import find_coverage
from AnatomicalEmbedding.embedding.orientation import FAULTS
from AnatomicalEmbeddingLib.boxes.CoverageLogic import CoverageLogic


@pytest.fixture
def logic(scene, map_folder):
    store = make_store(scene, map_folder)
    yield CoverageLogic(store)
    store.close()


def prepare(logic, *volumes) -> None:
    logic.store.request(volumes)
    finish(logic.store)


def test_the_part_of_the_body_is_stated_in_words(logic):
    """The phantom's scan goes from body height 150 to 480 mm: from the iliac crests (152) to the carina (469)."""
    volume = add_patient(0)
    assert logic.row(volume).holds == "not prepared yet"
    prepare(logic, volume)
    row = logic.row(volume)
    found = find_coverage(logic.store.map(volume))
    assert (row.name, row.holds, row.isKnown, row.faults) == ("CT-1", found.text, True, ())
    assert (found.low_mm, found.high_mm) == pytest.approx((150.0, 480.0), abs=25.0)
    bad = slicer.util.addVolumeFromArray(
        np.zeros((30, 30, 30), np.int16), np.diag([5.0, 5.0, 5.0, 1.0]), name="Empty"
    )
    prepare(logic, bad)
    assert not logic.row(bad).isKnown
    assert "Empty" in logic.row(bad).holds


def test_voxels_turned_upside_down_are_found_out(logic):
    volume = add_patient(0)
    prepare(logic, volume)
    assert logic.row(volume).faults == ()
    slicer.util.updateVolumeFromArray(volume, slicer.util.arrayFromVolume(volume)[::-1].copy())
    assert logic.row(volume).holds == "not prepared yet"
    prepare(logic, volume)
    assert FAULTS[2] in logic.row(volume).faults
