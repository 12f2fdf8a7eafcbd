"""A search for boxes: what ends it midway, what it goes on without, and what it refuses with a sentence."""

from pathlib import Path

import numpy as np
import pytest
import slicer
import slicer.util
from box_bench import rois
from scans import add_patient, finish

from AnatomicalEmbedding.resources import resource
from AnatomicalEmbeddingLib.boxes.StructureNames import readable
from AnatomicalEmbeddingLib.shared.maps.Engine import Choice

ORGANS = ("liver", "spleen", "kidney_left", "stomach")


# -- in mid-search


def start(bench, *volumes) -> None:
    assert bench.logic.find(volumes, ORGANS, 0.99)
    while not any(bench.store.state(each).status == "working" for each in volumes):
        bench.step()


def test_cancelling_ends_the_search(bench, volume):
    start(bench, volume)
    bench.logic.cancel()
    assert not bench.logic.busy
    finish(bench.store)
    bench.step()
    assert rois(bench.scene) == []


def test_a_deleted_volume_is_left_out_and_the_others_are_found(bench, volume):
    other = add_patient(1)
    start(bench, volume, other)
    bench.scene.RemoveNode(volume)
    bench.finish()
    assert {node.GetName() for node in rois(bench.scene)} == {f"{readable(name)} in CT-2" for name in ORGANS}


def test_closing_the_scene_ends_the_search(bench, volume):
    start(bench, volume)
    bench.scene.Clear(0)
    assert not bench.logic.busy
    for _ in range(5):
        bench.step()
    assert rois(bench.scene) == []


def test_other_weights_end_the_search_with_a_sentence(bench, volume, map_folder, other_weights):
    start(bench, volume)
    bench.store.choose(Choice(str(other_weights), "cpu", str(map_folder)))
    bench.finish()
    assert rois(bench.scene) == []
    assert bench.reported == ["Other weights were chosen during the search; find boxes again."]


def test_voxels_changed_during_the_search_give_no_box(bench, volume):
    start(bench, volume)
    slicer.util.arrayFromVolume(volume)[:] = -1000
    slicer.util.arrayFromVolumeModified(volume)
    bench.finish()
    assert rois(bench.scene) == []
    assert "CT-1: was changed" in bench.reported[0]


def test_preparation_that_was_stopped_ends_the_search(bench, volume):
    start(bench, volume)
    bench.store.cancel()
    bench.finish()
    assert "CT-1" in bench.reported[0]
    assert rois(bench.scene) == []


# -- what cannot be done


def test_a_scan_that_is_no_ct_is_named_and_the_next_follows(bench, volume):
    bad = slicer.util.addVolumeFromArray(np.zeros((30, 30, 30), np.int16), np.diag([5.0, 5.0, 5.0, 1.0]), name="Empty")
    bench.find([bad, volume], ["liver"])
    assert [node.GetName() for node in rois(bench.scene)] == ["liver in CT-1"]
    assert len(bench.reported) == 1
    assert bench.reported[0].startswith("Empty")


@pytest.mark.parametrize(
    ("volumes", "structures", "sentence"),
    [(0, ["liver"], "No scan was chosen"), (1, [], "No structure was chosen")],
)
def test_nothing_to_look_for_is_reported(bench, volume, volumes, structures, sentence):
    assert not bench.logic.find([volume][:volumes], structures, 0.99)
    assert sentence in bench.reported[0]


def test_a_recall_that_cannot_be_promised_is_refused_before_long_work(bench, volume):
    assert bench.logic.find([volume], ["liver"], 0.9999)
    bench.finish()
    assert "cannot be guaranteed" in bench.reported[0]
    assert bench.store.state(volume).status == "empty"


def test_weights_without_a_library_say_so(bench, volume, map_folder, other_weights):
    bench.store.choose(Choice(str(other_weights), "cpu", str(map_folder)))
    assert bench.logic.libraryStructures() == []
    assert bench.logic.find([volume], ["liver"], 0.9)
    bench.finish()
    assert "no structure library ships for these weights" in bench.reported[0]


def test_a_library_of_other_weights_and_a_damaged_one_are_refused(bench, volume, map_folder, other_weights, tmp_path):
    bench.logic.libraryPath = str(tmp_path / "mine.structures.safetensors")
    Path(bench.logic.libraryPath).write_bytes(b"\xff" * 40)
    assert bench.logic.libraryStructures() == []
    assert bench.logic.find([volume], ["liver"], 0.9)
    bench.finish()
    assert "not a structure library, or damaged" in bench.reported[-1]
    bench.logic.libraryPath = str(resource("Structures") / "hybrid-ct-v3.structures.safetensors")
    bench.store.choose(Choice(str(other_weights), "cpu", str(map_folder)))
    assert bench.logic.find([volume], ["liver"], 0.9)
    bench.finish()
    assert "built with other weights" in bench.reported[-1]


def test_an_unknown_structure_is_named(bench, volume):
    assert bench.logic.find([volume], ["third_lung"], 0.9)
    bench.finish()
    assert "third_lung: the structure library has no structure of this name" in bench.reported[0]
