"""Coverage of scans in a real scene: told in words, orientation checked in the background, never stale."""

import time

import numpy as np
import pytest
import slicer.util
from scans import add_patient, finish, make_store, patient

from AnatomicalEmbedding.embedding.coverage import find_coverage
from AnatomicalEmbedding.embedding.orientation import FAULTS
from AnatomicalEmbeddingLib.scene.boxes.CoverageLogic import CoverageLogic
from AnatomicalEmbeddingLib.scene.maps.Engine import Choice


class CoverageBench:
    def __init__(self, scene, folder) -> None:
        self.scene = scene
        self.store = make_store(scene, folder)
        self.logic = CoverageLogic(scene, self.store)
        self.reported: list[str] = []
        self.logic.reported.connect(self.reported.append)

    def ready(self, *volumes) -> None:
        self.store.request(volumes)
        finish(self.store)

    def finish(self, seconds: float = 120.0) -> None:
        end = time.monotonic() + seconds
        while self.logic.busy:
            assert time.monotonic() < end, "the check did not end"
            self.logic.poll()
            time.sleep(0.005)


@pytest.fixture
def bench(scene, map_folder):
    made = CoverageBench(scene, map_folder)
    yield made
    made.logic.close()
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
    assert (row.name, row.known, row.orientation) == ("CT-1", True, "")
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
    assert not bench.logic.check([volume])
    assert bench.reported == ["CT-1: is not prepared yet; press Prepare scans, then check it."]


def test_a_scan_stored_upside_down_is_found_out(bench):
    right, wrong = add_patient(0), upside_down(1, "Wrong")
    bench.ready(right, wrong)
    shares = []
    bench.logic.changed.connect(lambda: shares.append(bench.logic.progress))
    assert bench.logic.check([right, wrong])
    assert bench.logic.row(wrong).orientation == "waiting"
    bench.finish()
    rows = [bench.logic.row(each) for each in (right, wrong)]
    assert [(row.orientation, row.fault) for row in rows] == [("no fault found", False), (FAULTS[2], True)]
    assert shares == sorted(shares)
    assert shares[-1] == 1.0


def test_cancelling_stops_the_check(bench):
    volume = add_patient(0)
    bench.ready(volume)
    bench.logic.check([volume])
    assert bench.logic.row(volume).orientation.startswith("checking")
    bench.logic.cancel()
    assert not bench.logic.busy
    for _ in range(5):
        bench.logic.poll()
    assert bench.logic.row(volume).orientation == ""


def test_voxels_changed_during_the_check_give_no_answer(bench):
    volume, other = add_patient(0), add_patient(1)
    bench.ready(volume, other)
    bench.logic.check([volume, other])
    slicer.util.updateVolumeFromArray(volume, slicer.util.arrayFromVolume(volume)[::-1].copy())
    bench.finish()
    bench.ready(volume)
    assert bench.logic.row(volume).orientation == ""
    assert bench.logic.row(other).orientation == "no fault found"


def test_deleted_volumes_are_left_out(bench):
    volume, other = add_patient(0), add_patient(1)
    bench.ready(volume, other)
    bench.logic.check([volume, other])
    bench.scene.RemoveNode(volume)
    bench.finish()
    assert bench.logic.row(other).orientation == "no fault found"


def test_closing_the_scene_stops_the_check(bench):
    volume = add_patient(0)
    bench.ready(volume)
    bench.logic.check([volume])
    bench.scene.Clear(0)
    assert not bench.logic.busy
    bench.logic.poll()


def test_other_weights_end_the_check(bench, map_folder):
    volume = add_patient(0)
    bench.ready(volume)
    bench.logic.check([volume])
    bench.store.choose(Choice("ape-ct-v3", "cpu", str(map_folder)))
    bench.logic.poll()
    assert not bench.logic.busy
    assert bench.logic.row(volume).holds == "not prepared yet"
