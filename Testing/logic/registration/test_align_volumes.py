"""Aligning volumes of the scene: a patient and the same bent by a known transform come together."""

import numpy as np
import pytest
import slicer.util
from align_bench import bent_pair, through
from scans import add_transform, turned

from AnatomicalEmbeddingLib.alignment.AlignmentNodes import alignmentOf
from AnatomicalEmbeddingLib.shared.VolumeNodes import ijkToRas, scans, toWorld


def body_points(bench, fixed) -> np.ndarray:
    """(n, 3) RAS mm all over the fixed scan's body, of which the moving scan shows all."""
    found = bench.store.map(fixed)
    points = found.body_index.numpy()[::11] * found.cell_mm + found.cell_to_ras[:3, 3]
    patient, bent = bent_pair()
    return points[patient.volume.contains(bent.to_original(points))]


def apart_mm(bench, fixed, moving) -> np.ndarray:
    """(n,) how far points of the moving scan lie from those of the fixed one that they are."""
    points = body_points(bench, fixed)
    return np.linalg.norm(toWorld(moving, bent_pair()[1].to_original(points)) - points, axis=1)


@pytest.mark.parametrize(
    ("kind", "median_mm", "most_mm"), [("rigid", 8.0, 12.0), ("affine", 4.0, 8.0), ("coarse", 2.0, 4.0)]
)
def test_points_of_the_moving_scan_lie_on_the_fixed_one(bench, pair, kind, median_mm, most_mm):
    node = bench.run(*pair, kind)
    assert bench.reported == []
    apart = apart_mm(bench, *pair)
    assert np.median(apart) < median_mm
    assert np.quantile(apart, 0.95) < most_mm
    assert node.GetName() == "Patient to Bent"


def test_the_node_is_the_engines_registration_both_ways(bench, pair):
    """The default, deformable; its progress goes from preparing to comparing."""
    from AnatomicalEmbedding.registration.register import register

    seen = []
    bench.logic.changed.connect(lambda: seen.append(bench.logic.progress))
    fixed, moving = pair
    node = bench.run(fixed, moving)
    apart = apart_mm(bench, fixed, moving)
    assert np.median(apart) < 1.0
    assert np.quantile(apart, 0.95) < 2.5
    shares = [share for share, _what in seen]
    assert shares == sorted(shares)
    assert {"matching", "comparing the images"} <= {what for _share, what in seen}
    patient, bent = bent_pair()
    found = register(tuple(bench.store.map(each) for each in pair), (bent.volume, patient.volume))
    points = body_points(bench, fixed)
    moved = found.transform_points(points)
    assert np.abs(through(node.GetTransformFromParent(), points) - moved).max() < 0.05
    assert np.abs(through(node.GetTransformToParent(), moved) - points).max() < 0.05


def test_volumes_below_transforms_come_together(bench, scene, pair):
    fixed, moving = pair
    fixed.SetAndObserveTransformNodeID(add_transform(scene, turned(20, (30, -40, 50)), "of fixed").GetID())
    moving.SetAndObserveTransformNodeID(add_transform(scene, turned(-35, (0, 80, 10)), "of moving").GetID())
    bench.run(fixed, moving, "affine")
    points = body_points(bench, fixed)
    apart = toWorld(moving, bent_pair()[1].to_original(points)) - toWorld(fixed, points)
    assert np.median(np.linalg.norm(apart, axis=1)) < 4.0


def test_a_resampled_volume_lies_on_the_fixed_ones_voxels_and_looks_like_it(bench, scene, pair):
    fixed, moving = pair
    fixed.SetAndObserveTransformNodeID(add_transform(scene, turned(20, (30, -40, 50))).GetID())
    bench.run(fixed, moving, "coarse", resample=True)
    made = slicer.util.getNode("Patient on Bent")
    assert np.allclose(ijkToRas(made), ijkToRas(fixed))
    assert made.GetImageData().GetDimensions() == fixed.GetImageData().GetDimensions()
    assert made.GetParentTransformNode() is fixed.GetParentTransformNode()
    assert made not in scans(scene)
    own, other = (slicer.util.arrayFromVolume(node).astype(float) for node in (fixed, made))
    assert np.corrcoef(own.ravel(), other.ravel())[0, 1] > 0.95


def test_the_result_is_reported_in_words_and_stays_with_the_transform(bench, pair):
    text = bench.run(*pair, kind="coarse").GetDescription()
    assert text.startswith("Patient lies on Bent (coarse).")
    for words in ("places of Bent were found in Patient", "times as large", "turned inside out", "It took"):
        assert words in text


def test_undo_puts_the_volume_back(bench, scene, pair):
    before = add_transform(scene, turned(10, (1, 2, 3)))
    pair[1].SetAndObserveTransformNodeID(before.GetID())
    bench.run(*pair, kind="rigid")
    bench.logic.undo(pair[1])
    assert pair[1].GetParentTransformNode() is before
    bench.logic.undo(pair[1])
    assert pair[1].GetParentTransformNode() is before


@pytest.mark.parametrize("stage", ["preparing the scans", "comparing the images"])
def test_cancelling_leaves_nothing_behind(bench, scene, pair, stage):
    before = scene.GetNumberOfNodes()
    assert bench.logic.start(*pair, resample=True)
    if stage != "preparing the scans":
        bench.poll_until(lambda: bench.logic.progress[1] == stage)
    bench.logic.cancel()
    assert not bench.logic.busy
    bench.poll_until(lambda: not bench.store.busy)
    for _ in range(20):
        bench.logic.poll()
    assert scene.GetNumberOfNodes() == before
    assert alignmentOf(pair[1]) is None
    assert bench.reported == []
    assert bench.run(*pair, kind="rigid") is not None


def test_cancelling_stops_preparing_only_what_was_begun_for_it(bench, scene, pair):
    bench.store.request([pair[0]])
    bench.logic.start(*pair)
    bench.logic.cancel()
    assert bench.store.busy
    bench.poll_until(lambda: not bench.store.busy)
    assert [bench.store.map(node) is not None for node in pair] == [True, False]


def test_a_scan_that_goes_or_changes_meanwhile_ends_it_with_a_sentence(bench, scene, pair):
    bench.logic.start(*pair)
    bench.poll_until(lambda: bench.logic.progress[1] == "matching")
    slicer.util.arrayFromVolume(pair[0])[:2] = -1000
    slicer.util.arrayFromVolumeModified(pair[0])
    bench.poll_until(lambda: not bench.logic.busy)
    assert bench.reported == ["Bent: was changed, or its preparation stopped; align again."]
    bench.logic.start(*pair)
    scene.RemoveNode(pair[1])
    bench.poll_until(lambda: not bench.logic.busy)
    assert bench.reported[1:] == ["Patient: was removed; choose another scan."]


def test_what_cannot_be_aligned_is_refused_with_a_sentence(bench, scene, pair):
    fixed, moving = pair
    assert not bench.logic.start(fixed, fixed)
    assert not bench.logic.start(fixed, None)
    assert not bench.logic.start(fixed, moving, "affine", transformNode=_above(scene, fixed))
    assert "Bent: is chosen as fixed and as moving" in bench.reported[0]
    assert bench.reported[1].startswith("Load two CTs")
    assert "moves Bent, the fixed scan" in bench.reported[2]
    assert not bench.logic.busy
    assert not bench.store.busy


def _above(scene, volume):
    node = add_transform(scene, np.eye(4), "Above")
    volume.SetAndObserveTransformNodeID(node.GetID())
    return node


def test_a_volume_that_is_no_ct_is_named(bench, scene, pair):
    echo = slicer.util.addVolumeFromArray(np.full((40, 40, 40), 90, np.int16), np.diag([3.0, 3.0, 3.0, 1.0]), "Echo")
    before = scene.GetNumberOfNodes()
    assert bench.run(pair[0], echo) is None
    assert bench.reported[0].startswith("Echo:")
    assert scene.GetNumberOfNodes() == before


def test_scans_that_show_too_little_of_the_same_say_so(bench, scene, pair, monkeypatch):
    """The engine's own sentence reaches the user; legs and a head would do, and take longer to draw."""
    from AnatomicalEmbedding.registration import affine

    monkeypatch.setattr(affine, "_FEWEST", {"rigid": 10**6, "affine": 10**6})
    before = scene.GetNumberOfNodes()
    assert bench.run(*pair) is None
    assert "they share too little" in bench.reported[0]
    assert scene.GetNumberOfNodes() == before


def test_a_gpu_without_enough_memory_is_replaced_by_the_cpu(bench, pair, monkeypatch):
    import torch

    from AnatomicalEmbedding.registration import register as engine

    true, devices = engine.register, []

    def full_gpu(maps, volumes, kind, device, step):
        devices.append(str(device))
        if len(devices) == 1:
            raise torch.cuda.OutOfMemoryError("full")
        return true(maps, volumes, kind, device, step)

    monkeypatch.setattr(engine, "register", full_gpu)
    node = bench.run(*pair, kind="rigid")
    assert len(devices) == 2
    assert devices[1] == "cpu"
    assert "did not suffice; it was done on the CPU" in node.GetDescription()
