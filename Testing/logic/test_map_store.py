"""Test the maps of a scene's volumes: made in the background, and removed when volume or weights change."""

import gc
import os
import subprocess
import sys
import threading
import time
import weakref

import pytest
import slicer.util
from scans import add_patient, finish, make_store

from AnatomicalEmbedding.errors import CancelledError
from AnatomicalEmbeddingLib.shared.maps.Engine import Choice, Engine
from AnatomicalEmbeddingLib.shared.maps.MapStore import EMPTY, FAILED, READY, MapStore


class SlowEngine(Engine):
    """Takes its time, so that things can happen meanwhile; answers with the name of its weights."""

    def __init__(self, choice: Choice | None = None) -> None:
        super().__init__(choice)
        self.started, self.go, self.ended = threading.Event(), threading.Event(), threading.Event()

    def problem(self) -> str | None:
        return None

    def embed(self, volume, progress, cancelled):
        self.started.set()
        try:
            while not self.go.is_set():
                progress(0.5, "embedding")
                if cancelled():
                    raise CancelledError("cancelled")
                time.sleep(0.002)
            return f"map by {self.choice.weights}"
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


def test_a_volume_that_leaves_the_scene_takes_its_map_along(scene, store):
    node = add_patient(0)
    store.request([node])
    finish(store)
    gone = weakref.ref(store.map(node))
    scene.RemoveNode(node)
    gc.collect()
    assert gone() is None


def test_deleting_a_volume_stops_its_work(scene, slow):
    node = add_patient(0)
    slow.request([node])
    assert slow.engine.started.wait(5)
    scene.RemoveNode(node)
    assert slow.engine.ended.wait(5)
    assert not slow.busy
    slow.poll()
    assert slow.state(node).status == EMPTY


def test_other_weights_in_mid_computation_leave_no_stale_map(scene, slow):
    node, old = add_patient(0), slow.engine
    slow.request([node])
    assert old.started.wait(5)
    slow.choose(Choice(weights="other"))
    assert old.ended.wait(5)
    slow.poll()
    assert slow.state(node).status == EMPTY
    slow.engine.go.set()
    slow.request([node])
    finish(slow)
    assert slow.map(node) == "map by other"


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
    real, devices = type(model).embed, []

    def embed(self, volume, progress, cancelled):
        devices.append(self.device.type)
        if self.device.type != "cpu":
            raise torch.cuda.OutOfMemoryError("out of memory")
        return real(self, volume, progress, cancelled)

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


def test_a_closed_store_has_no_thread_and_no_observers(scene, map_folder):
    before = threading.active_count()
    store = make_store(scene, map_folder)
    store.request([add_patient(0)])
    finish(store)
    store.close()
    assert threading.active_count() == before
    told = []
    store.changed.connect(told.append)
    scene.Clear(0)
    assert told == []


@pytest.mark.skipif(sys.platform != "linux", reason="on other systems torch loads its library itself")
def test_the_library_of_torch_is_loaded_before_torch_is_imported():
    code = (
        "import sys; from pathlib import Path; from AnatomicalEmbeddingLib.shared.maps.Engine import loadTorchLibrary\n"
        "loadTorchLibrary(); maps = Path('/proc/self/maps').read_text()\n"
        "print('libtorch_python' in maps, 'torch' in sys.modules); import torch; print(torch.ones(2).sum().item())"
    )
    done = subprocess.run([sys.executable, "-c", code], env=_paths(), capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["True", "False", "2.0"]


def _paths() -> dict[str, str]:
    return os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
