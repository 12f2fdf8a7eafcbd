"""Test the alignment of two volumes of a scene: a patient, and the same patient deformed by a known transform."""

import numpy as np
import slicer.util
from align_bench import bent_pair
from scans import add_transform, turned

from AnatomicalEmbeddingLib.alignment.AlignmentNodes import alignmentOf
from AnatomicalEmbeddingLib.shared.VolumeNodes import ijkToRas, scans, toWorld


def body_points(bench, fixed) -> np.ndarray:
    """(n, 3) RAS mm all over the fixed scan's body, of which the moving scan shows all."""
    found = bench.store.map(fixed)
    points = found.body_index.numpy()[::11] * found.cell_mm + found.cell_to_ras[:3, 3]
    patient, bent = bent_pair()
    return points[patient.volume.contains(bent.to_original(points))]


def test_the_moving_scan_and_its_copy_lie_on_the_fixed_one(bench, scene, pair):
    """The default, deformable, below a transform; its progress goes from preparing to comparing."""
    seen = []
    fixed, moving = pair
    fixed.SetAndObserveTransformNodeID(add_transform(scene, turned(20, (30, -40, 50))).GetID())
    assert bench.logic.align(fixed, moving, resample=True)
    bench.poll_until(lambda: seen.append(bench.logic.progress) or not bench.logic.busy)
    points = body_points(bench, fixed)
    places = toWorld(moving, bent_pair()[1].to_original(points))
    apart = np.linalg.norm(places - toWorld(fixed, points), axis=1)
    assert np.median(apart) < 1.0
    assert np.quantile(apart, 0.95) < 2.5
    shares = [share for share, _what in seen]
    assert shares == sorted(shares)
    assert {"matching", "comparing the images"} <= {what for _share, what in seen}
    made = slicer.util.getNode("Patient on Bent")
    assert np.allclose(ijkToRas(made), ijkToRas(fixed))
    assert made.GetImageData().GetDimensions() == fixed.GetImageData().GetDimensions()
    assert made.GetParentTransformNode() is fixed.GetParentTransformNode()
    assert made not in scans(scene)
    own, other = (slicer.util.arrayFromVolume(node).astype(float) for node in (fixed, made))
    assert np.corrcoef(own.ravel(), other.ravel())[0, 1] > 0.95


def test_cancelling_leaves_nothing_behind(bench, scene, pair):
    before = scene.GetNumberOfNodes()
    assert bench.logic.align(*pair, resample=True)
    bench.poll_until(lambda: bench.logic.progress[1] == "comparing the images")
    bench.logic.cancel()
    assert not bench.logic.busy
    bench.poll_until(lambda: not bench.store.busy)
    bench.logic.poll()
    assert scene.GetNumberOfNodes() == before
    assert alignmentOf(pair[1]) is None
    assert bench.reported == []
    assert bench.run(*pair, kind="rigid") is not None


def test_a_scan_that_goes_or_changes_meanwhile_ends_it_with_a_sentence(bench, scene, pair):
    bench.logic.align(*pair)
    bench.poll_until(lambda: bench.logic.progress[1] == "matching")
    slicer.util.arrayFromVolume(pair[0])[:2] = -1000
    slicer.util.arrayFromVolumeModified(pair[0])
    bench.poll_until(lambda: not bench.logic.busy)
    assert bench.reported == ["Bent: was changed during the work; align again."]
    bench.logic.align(*pair)
    scene.RemoveNode(pair[1])
    bench.poll_until(lambda: not bench.logic.busy)
    assert bench.reported[1:] == ["Patient: was removed from the scene; align again."]


def test_what_cannot_be_aligned_is_refused_with_a_sentence(bench, scene, pair):
    fixed = pair[0]
    assert not bench.logic.align(fixed, fixed)
    assert not bench.logic.align(fixed, None)
    assert "Bent: is chosen as fixed and as moving" in bench.reported[0]
    assert bench.reported[1].startswith("The fixed or the moving scan is missing; load two CTs")
    assert not bench.store.busy
    echo = slicer.util.addVolumeFromArray(
        np.full((40, 40, 40), 90, np.int16), np.diag([3.0, 3.0, 3.0, 1.0]), "Echo"
    )
    assert bench.run(fixed, echo, "rigid") is None
    assert bench.reported[2].startswith("Echo:")
