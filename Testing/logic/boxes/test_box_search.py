"""Test the search for boxes: how it is cancelled, and what is refused with a sentence."""

import time
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
SHIPPED = resource("Structures") / "ct-open.structures.safetensors"


@pytest.fixture
def other_weights(tmp_path):
    """A choice of weights for which no library ships."""
    path = tmp_path / "other.safetensors"
    path.write_bytes(b"other")
    return Choice(str(path), "cpu", None)


def start(bench, *volumes) -> None:
    assert bench.logic.find(volumes, ORGANS, 0.99)
    while not any(bench.store.state(each).status == "working" for each in volumes):
        bench.step()
        time.sleep(0.005)  # the worker needs the interpreter too


def test_boxes_are_shown_a_few_at_a_time(bench, volume):
    """Slicer handles no events while boxes are added."""
    structures = bench.logic.libraryStructures()
    assert bench.logic.find([volume], structures, 0.95)
    counts = [0]
    while bench.logic.busy:
        bench.step()
        counts.append(len(rois(bench.scene)))
        time.sleep(0.005)
    assert counts[-1] > 10
    assert max(np.diff(counts)) <= 5


# -- during the search


@pytest.mark.parametrize("end", ["cancel", "close"])
def test_cancelling_or_closing_the_scene_ends_the_search(bench, volume, end):
    start(bench, volume)
    if end == "cancel":
        bench.logic.cancel()
    else:
        bench.scene.Clear(0)
    assert not bench.logic.busy
    finish(bench.store)
    for _ in range(5):
        bench.step()
    assert rois(bench.scene) == []


def test_a_deleted_volume_is_left_out_and_the_others_are_found(bench, volume):
    other = add_patient(1)
    start(bench, volume, other)
    bench.scene.RemoveNode(volume)
    bench.finish()
    assert {node.GetName() for node in rois(bench.scene)} == {
        f"{readable(name)} in CT-2" for name in ORGANS
    }
    assert bench.reported == []


def change_voxels(bench, volume, _other):
    slicer.util.arrayFromVolume(volume)[:] = -1000
    slicer.util.arrayFromVolumeModified(volume)


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (change_voxels, "CT-1: was changed, or its preparation stopped; find boxes again."),
        (
            lambda bench, *_: bench.store.cancel(),
            "CT-1: was changed, or its preparation stopped; find boxes again.",
        ),
        (
            lambda bench, _, other: bench.store.choose(other),
            "The work was stopped, because other weights were chosen; find boxes again.",
        ),
    ],
)
def test_a_change_during_the_search_gives_a_sentence_and_no_box(
    bench, volume, other_weights, change, sentence
):
    start(bench, volume)
    change(bench, volume, other_weights)
    bench.finish()
    assert rois(bench.scene) == []
    assert bench.reported == [sentence]


# -- refused


def test_a_search_that_cannot_start_is_refused(bench, volume, monkeypatch):
    assert not bench.logic.find([], ["liver"], 0.99)
    assert not bench.logic.find([volume], [], 0.99)
    monkeypatch.setattr(
        type(bench.store.engine), "missingPackages", staticmethod(lambda: ["torch"])
    )
    assert not bench.logic.find([volume], ["liver"], 0.99)
    for said, sentence in zip(
        bench.reported, ("No scan", "No structure", "torch is not installed"), strict=True
    ):
        assert sentence in said


def test_a_request_that_the_library_cannot_serve_is_refused_before_long_work(
    bench, volume, other_weights, tmp_path
):
    def refusal(structure="liver", recall=0.9) -> str:
        assert bench.logic.find([volume], [structure], recall)
        bench.finish()
        assert bench.store.state(volume).status == "empty"
        return bench.reported[-1]

    assert "cannot be guaranteed" in refusal(recall=0.9999)
    assert "third_lung: the structure library has no structure of this name" in refusal(
        "third_lung"
    )
    bench.logic.libraryPath = str(tmp_path / "mine.structures.safetensors")
    Path(bench.logic.libraryPath).write_bytes(b"\xff" * 40)
    assert bench.logic.libraryStructures() == []
    assert "damaged or is not a structure library" in refusal()
    bench.logic.libraryPath = ""
    bench.store.choose(other_weights)
    assert bench.logic.libraryStructures() == []
    assert "other: no structure library ships for these weights" in refusal()
    bench.logic.libraryPath = str(SHIPPED)
    assert "built with other weights" in refusal()
