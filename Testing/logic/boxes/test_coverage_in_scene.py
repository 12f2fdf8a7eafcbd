"""Coverage of scans in a real scene: reported in words, with what seems wrong, never stale."""

import numpy as np
import pytest
import slicer.util
from scans import add_patient, finish, make_store, patient

from AnatomicalEmbedding.embedding.coverage import find_coverage
from AnatomicalEmbedding.embedding.orientation import FAULTS
from AnatomicalEmbeddingLib.boxes.CoverageLogic import CoverageLogic


class CoverageBench:
    def __init__(self, scene, folder) -> None:
        self.scene = scene
        self.store = make_store(scene, folder)
        self.logic = CoverageLogic(self.store)

    def ready(self, *volumes) -> None:
        self.store.request(volumes)
        finish(self.store)


@pytest.fixture
def bench(scene, map_folder):
    made = CoverageBench(scene, map_folder)
    yield made
    made.store.close()


def upside_down(number: int, name: str):
    """A patient's scan whose header calls the feet the head."""
    volume = patient(number).volume
    return slicer.util.addVolumeFromArray(volume.voxels[::-1].copy(), volume.ijk_to_ras, name=name)


def test_what_a_scan_holds_is_reported_in_words(bench):
    """The phantom's scan goes from body height 150 to 480 mm: from the iliac crests (152) to the carina (469)."""
    volume = add_patient(0)
    bench.ready(volume)
    row = bench.logic.row(volume)
    assert (row.name, row.known, row.faults) == ("CT-1", True, ())
    assert row.holds == find_coverage(bench.store.map(volume)).text
    assert row.holds.startswith("from ")
    low, high = (find_coverage(bench.store.map(volume)).low_mm, find_coverage(bench.store.map(volume)).high_mm)
    assert low == pytest.approx(150.0, abs=25.0)
    assert high == pytest.approx(480.0, abs=25.0)


def test_scans_that_are_not_ready_say_so(bench):
    volume = add_patient(0)
    assert bench.logic.row(volume).holds == "not prepared yet"
    bad = slicer.util.addVolumeFromArray(np.zeros((30, 30, 30), np.int16), np.diag([5.0, 5.0, 5.0, 1.0]), name="Empty")
    bench.ready(bad)
    row = bench.logic.row(bad)
    assert not row.known
    assert "Empty" in row.holds


def test_a_scan_stored_upside_down_is_found_out(bench):
    right, wrong = add_patient(0), upside_down(1, "Wrong")
    bench.ready(right, wrong)
    assert bench.logic.row(right).faults == ()
    assert FAULTS[2] in bench.logic.row(wrong).faults


def test_other_voxels_are_other_coverage(bench):
    volume = add_patient(0)
    bench.ready(volume)
    assert bench.logic.row(volume).faults == ()
    slicer.util.updateVolumeFromArray(volume, slicer.util.arrayFromVolume(volume)[::-1].copy())
    assert bench.logic.row(volume).holds == "not prepared yet"
    bench.ready(volume)
    assert FAULTS[2] in bench.logic.row(volume).faults
