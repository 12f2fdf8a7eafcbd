"""Maps of a scene's volumes: made in the background, dropped with what they were made from, nothing stale."""

import gc
import importlib
import sys
import threading
import time
import weakref

import numpy as np
import pytest
import slicer.util
from scans import add_patient, finish, make_store

from AnatomicalEmbedding.errors import CancelledError
from AnatomicalEmbeddingLib.shared.maps.Engine import Choice, Engine, isImported
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


def test_a_scan_is_embedded_in_the_background_with_progress(scene, store, tmp_path):
    store.choose(Choice(device="cpu", cacheFolder=None))
    node, seen = add_patient(0), []
    store.changed.connect(lambda volume_id: seen.append((volume_id, store.state(node).share, store.state(node).what)))
    assert store.request([node]) == [node]
    assert store.map(node) is None
    finish(store)
    assert store.state(node).status == READY
    assert {volume_id for volume_id, _, _ in seen} == {node.GetID()}
    shares = [share for _, share, _ in seen]
    assert shares == sorted(shares)
    assert "embedding" in {what for _, _, what in seen}


def test_the_map_knows_the_scan_and_its_place(scene, store):
    node = add_patient(0)
    store.request([node])
    finish(store)
    assert store.map(node).provenance.scan == node.GetName()
    assert np.allclose(store.map(node).scan_to_ras, slicer.util.arrayFromVTKMatrix(_matrix(node)))


def test_a_scan_that_is_ready_or_under_way_is_not_started_again(scene, slow):
    node = add_patient(0)
    slow.request([node])
    assert slow.request([node]) == []
    slow.engine.go.set()
    finish(slow)
    assert slow.request([node]) == []


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


def test_closing_the_scene_stops_everything(scene, slow):
    nodes = [add_patient(0), add_patient(1)]
    slow.request(nodes)
    assert slow.engine.started.wait(5)
    scene.Clear(0)
    assert slow.engine.ended.wait(5)
    assert not slow.busy
    slow.poll()
    assert slow._states == {}


def test_cancel_keeps_what_is_ready(scene, slow):
    first, second = add_patient(0), add_patient(1)
    slow.engine.go.set()
    slow.request([first])
    finish(slow)
    slow.engine.go.clear()
    slow.engine.ended.clear()
    slow.request([second])
    slow.cancel()
    slow.poll()
    assert slow.state(first).status == READY
    assert slow.state(second).status == EMPTY
    assert not slow.busy


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


def test_another_device_keeps_the_maps(scene, store):
    node = add_patient(0)
    store.request([node])
    finish(store)
    kept = store.map(node)
    store.choose(store.engine.choice._replace(device="auto"))
    assert store.map(node) is kept


def test_another_device_in_mid_computation_begins_anew(scene, slow):
    nodes, old = [add_patient(0), add_patient(1)], slow.engine
    slow.request(nodes)
    assert old.started.wait(5)
    slow.choose(Choice(device="cpu"))
    assert old.ended.wait(5)
    assert slow.engine is not old
    assert slow.engine.started.wait(5)
    slow.engine.go.set()
    finish(slow)
    assert [slow.state(node).status for node in nodes] == [READY, READY]


def test_some_scans_are_cancelled_and_others_go_on(scene, slow):
    first, second = add_patient(0), add_patient(1)
    slow.request([first, second])
    slow.cancel([first])
    slow.engine.go.set()
    finish(slow)
    assert slow.state(first).status == EMPTY
    assert slow.state(second).status == READY


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


def test_a_volume_that_is_no_ct_fails_with_a_sentence(scene, store):
    node = slicer.util.addVolumeFromArray(np.full((40, 40, 40), 90, np.int16), np.diag([3.0, 3.0, 3.0, 1.0]), "Echo")
    store.request([node])
    finish(store)
    assert store.state(node).status == FAILED
    assert store.state(node).sentence.startswith("Echo:")


def test_weights_that_are_not_there_are_named(scene, map_folder):
    store = make_store(scene, map_folder, weights="nowhere.safetensors")
    try:
        node = add_patient(0)
        store.request([node])
        assert "nowhere.safetensors" in store.state(node).sentence
    finally:
        store.close()


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
        assert "done on the CPU" in store.map(node).notes[-1]
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


def _matrix(node):
    import vtk

    matrix = vtk.vtkMatrix4x4()
    node.GetIJKToRASMatrix(matrix)
    return matrix


def test_scans_that_wait_are_not_copied_yet(scene, slow, monkeypatch):
    from AnatomicalEmbeddingLib.shared.maps import MapStore as module

    copied, real = [], module.snapshot
    monkeypatch.setattr(module, "snapshot", lambda node: copied.append(node) or real(node))
    nodes = [add_patient(n) for n in range(3)]
    slow.request(nodes)
    assert slow.engine.started.wait(5)
    assert copied == nodes[:1]
    slicer.util.arrayFromVolume(nodes[2])[:5] = -1000
    slicer.util.arrayFromVolumeModified(nodes[2])
    scene.RemoveNode(nodes[1])
    slow.engine.go.set()
    finish(slow)
    assert copied == [nodes[0], nodes[2]]
    assert slow.state(nodes[2]).status == READY  # as it is now, not as it was when it was asked for


def test_a_package_counts_as_imported_only_at_the_end_of_its_import(tmp_path, monkeypatch):
    """It is in sys.modules from the first instant on."""
    name = "asks_while_it_is_imported"
    (tmp_path / f"{name}.py").write_text(
        f"import sys\nfrom AnatomicalEmbeddingLib.shared.maps.Engine import isImported\n"
        f"seen = '{name}' in sys.modules, isImported('{name}')\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    assert importlib.import_module(name).seen == (True, False)
    assert isImported(name)
    del sys.modules[name]
