"""Test the maps of a scene's volumes: made in the background, and removed when volume or weights change."""

import gc
import os
import subprocess
import sys
import threading
import time
import weakref

import numpy as np
import pytest
import slicer.util
from scans import add_patient, finish, make_store

from AnatomicalEmbedding.errors import CancelledError
from AnatomicalEmbeddingLib.shared.maps.Engine import Choice, Engine
from AnatomicalEmbeddingLib.shared.maps.MapStore import EMPTY, FAILED, READY, MapStore
from slicer_kit.scene import read_mrb, write_mrb


class SlowEngine(Engine):
    """Takes its time, so that things can happen meanwhile; answers with the name of its weights."""

    def __init__(self, choice: Choice | None = None) -> None:
        super().__init__(choice)
        self.started = threading.Event()
        self.go = threading.Event()
        self.ended = threading.Event()

    def problem(self) -> str | None:
        return None

    def embed(self, volume, progress, cancelled, only_kept=False):
        if only_kept:
            raise CancelledError("no map is kept")
        self.started.set()
        try:
            while not self.go.is_set():
                progress(0.5, "embedding")
                if cancelled():
                    raise CancelledError("cancelled")
                time.sleep(0.002)
            return f"map by {self.choice.weights}, {volume.voxels.min()}"
        finally:
            self.ended.set()


@pytest.fixture
def slow(scene):
    made = MapStore(scene, SlowEngine())
    yield made
    made.close()


@pytest.fixture
def store(scene, map_folder):
    made = make_store(scene, map_folder)
    yield made
    made.close()


def test_a_map_of_other_voxels_counts_as_none(scene, store):
    node = add_patient(0)
    store.request([node])
    finish(store)
    slicer.util.arrayFromVolume(node)[:5] = -1000
    slicer.util.arrayFromVolumeModified(node)
    assert store.map(node) is None
    assert store.state(node).status == EMPTY
    assert store.request([node]) == [node]


def add_unknown(seed: int):
    """A scan with voxels that no other test has, so that no map of it is on the disk."""
    node = add_patient(0, f"Unknown {seed}")
    voxels = slicer.util.arrayFromVolume(node)
    voxels[:] = voxels + np.random.default_rng(time.time_ns() + seed).integers(0, 3, voxels.shape)
    slicer.util.arrayFromVolumeModified(node)
    return node


def test_after_a_scene_is_loaded_its_maps_are_read_from_the_disk_and_no_others_are_made(
    scene, store, tmp_path
):
    store.request([add_patient(number, f"CT {number}") for number in range(2)])
    finish(store)
    add_unknown(0)
    write_mrb(scene, tmp_path / "scene.mrb")
    scene.Clear(0)
    read_mrb(scene, tmp_path / "scene.mrb")
    store.poll()
    assert store.busy
    finish(store)
    states = [
        store.state(scene.GetFirstNodeByName(name)).status for name in ("CT 0", "CT 1", "Unknown 0")
    ]
    assert states == [READY, READY, EMPTY]
    store.request([scene.GetFirstNodeByName("Unknown 0")])
    finish(store)
    assert store.state(scene.GetFirstNodeByName("Unknown 0")).status == READY


def test_a_map_that_the_user_asks_for_while_the_disk_is_searched_is_made(scene, store):
    first = add_unknown(1)
    second = add_unknown(2)
    store.request([first, second], onlyKept=True)  # the first is being read, the second waits
    store.request([first, second])
    finish(store)
    assert [store.state(node).status for node in (first, second)] == [READY, READY]


@pytest.mark.long
def test_the_first_answer_loads_no_modules_on_the_main_thread(map_folder):
    """Loading modules takes up to half a second, in which Slicer handles no events."""
    code = f"""
import sys
from pathlib import Path
from slicer_kit.scene import shared_core
scene = shared_core().scene
from scans import add_patient, finish, make_store, patient
from view_nodes import add_view
from AnatomicalEmbeddingLib.shared.LevelTexts import levelText
from AnatomicalEmbeddingLib.shared.maps.SceneRelations import SceneRelations
store = make_store(scene, Path({str(map_folder)!r}))
nodes = [add_patient(0), add_patient(1)]
view = add_view(scene, "Red", nodes[0])
store.request(nodes)
finish(store)
before = set(sys.modules)
SceneRelations(scene, store).match(nodes[0], patient(0).points_ras["liver_dome"][None], nodes[1:])
levelText(nodes[0], view, store)
print("loaded:", [name for name in set(sys.modules) - before if name.startswith("AnatomicalEmbedding.")])
store.close()
"""
    done = subprocess.run(
        [sys.executable, "-c", code], env=_paths(), capture_output=True, text=True, check=True
    )
    assert "loaded: []" in done.stdout


def test_a_volume_that_leaves_the_scene_takes_its_map_along(scene, store):
    node = add_patient(0)
    store.request([node])
    finish(store)
    gone = weakref.ref(store.map(node))
    scene.RemoveNode(node)
    gc.collect()
    assert gone() is None


def test_a_volume_that_changes_meanwhile_never_gets_the_map_of_its_earlier_voxels(scene, slow):
    node = add_patient(0)
    slow.request([node])
    assert slow.engine.started.wait(5)
    slicer.util.arrayFromVolume(node)[:] = -7
    slicer.util.arrayFromVolumeModified(node)
    slow.request([node])
    slow.engine.go.set()
    finish(slow)
    assert slow.map(node).endswith(", -7")


def test_deleting_a_volume_stops_its_work(scene, slow):
    node = add_patient(0)
    slow.request([node])
    assert slow.engine.started.wait(5)
    scene.RemoveNode(node)
    assert slow.engine.ended.wait(5)
    assert not slow.busy
    slow.poll()
    assert slow.state(node).status == EMPTY


def test_missing_packages_and_weights_are_reported_and_tried_again(scene, slow):
    node = add_patient(0)
    slow.engine.problem = lambda: "torch is not installed; press Install."
    slow.request([node])
    assert slow.state(node).status == FAILED
    assert slow.state(node).sentence == "torch is not installed; press Install."
    slow.engine.problem = lambda: None
    slow.engine.go.set()
    assert slow.request([node], retry=False) == []
    assert slow.state(node).status == FAILED
    slow.request([node])
    finish(slow)
    assert slow.state(node).status == READY


def test_a_gpu_that_runs_out_of_memory_gives_way_to_the_cpu(scene, map_folder, monkeypatch):
    import torch

    store = make_store(scene, map_folder)
    model = store.engine.load()
    real = type(model).embed
    devices = []

    def embed(self, volume, progress, cancelled, only_kept=False):
        devices.append(self.device.type)
        if self.device.type != "cpu":
            raise torch.cuda.OutOfMemoryError("out of memory")
        return real(self, volume, progress, cancelled, only_kept)

    monkeypatch.setattr(type(model), "embed", embed)
    model.device = torch.device("cuda")  # as if; only the name is asked
    try:
        node = add_patient(0)
        store.request([node])
        finish(store)
        assert devices == ["cuda", "cpu"]
        assert store.state(node).status == READY
        assert "embedded on the CPU" in store.map(node).notes[-1]
    finally:
        store.close()


@pytest.mark.skipif(
    sys.platform != "linux", reason="on other systems torch loads its library itself"
)
def test_the_library_of_torch_is_loaded_before_torch_is_imported():
    code = (
        "import sys; from pathlib import Path; from AnatomicalEmbeddingLib.shared.maps.Engine import loadTorchLibrary\n"
        "loadTorchLibrary(); maps = Path('/proc/self/maps').read_text()\n"
        "print('libtorch_python' in maps, 'torch' in sys.modules); import torch; print(torch.ones(2).sum().item())"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], env=_paths(), capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == ["True", "False", "2.0"]


def _paths() -> dict[str, str]:
    return os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
