"""Test "Segment the rest like these" in a scene, with the real engine or, to test timing, with a made-up one."""

import time

import numpy as np
import pytest
import slicer
import slicer.util
from box_bench import add_segmentation, add_turned
from polling import poll_until
from scans import add_patient, add_transform, patient, turned
from training_runs import fake_engine

from AnatomicalEmbedding.errors import AnatomicalEmbeddingError, PointsError
from AnatomicalEmbedding.scan.label_map import LabelMap
from AnatomicalEmbedding.structures.segments import write_segments
from AnatomicalEmbeddingLib.boxes.Segments import addSegment, maskIn, segmentIds, segmentName
from AnatomicalEmbeddingLib.outlines.OutlineFolder import OutlineFolder
from AnatomicalEmbeddingLib.outlines.OutlineNodes import labelsOf, outlinedScans
from AnatomicalEmbeddingLib.shared.maps.Engine import Choice
from AnatomicalEmbeddingLib.shared.VolumeNodes import snapshot

QUICK = Choice(device="cpu")
WAITS = """
import AnatomicalEmbedding
while not asked:
    obey_signals()
    say("anatemb: 40 % training: step 4, loss 0.5, 2 min to go")
    time.sleep(0.05)
sys.exit(2)
"""


def mask_of(number, structure):
    label = next(label for label, name in patient(number).label_names.items() if name == structure)
    return patient(number).labels == label


def until(logic, condition, seconds=400.0):
    poll_until(
        condition, logic.poll, seconds=seconds, problem=lambda: f"{logic.progress}, {logic.said}"
    )


# -- segments on the voxels of scans


def test_a_segment_is_read_on_the_scans_voxels_wherever_both_were_moved(scene):
    askew = turned(25.0, (9.0, 8.0, 7.0))
    volume = add_turned(0, askew)
    for parent in (None, add_transform(scene, turned(40.0, (0, 0, 50.0)))):
        node = add_segmentation(scene, 0, volume, {"liver": "Liver"})
        for each in (node, volume):
            each.SetAndObserveTransformNodeID(None if parent is None else parent.GetID())
        assert np.array_equal(maskIn(volume, node, segmentIds(node)[0]), mask_of(0, "liver"))


# -- what is an example


def test_the_scan_of_an_example_must_be_known_and_its_own(scene, patients, examples):
    assert [volume for volume, _segmentation in outlinedScans(examples)] == patients[:2]
    labels = labelsOf(patients[0], examples[0])
    assert list(labels.values) == ["Liver", "Left kidney"]  # as the user typed them
    assert np.array_equal(labels.mask("Left kidney"), mask_of(0, "kidney_left"))
    lost = add_segmentation(scene, 2, patients[2], {"liver": "Liver"})
    with pytest.raises(PointsError, match="choose the scan as source volume"):
        outlinedScans([lost])
    again = add_segmentation(scene, 0, patients[0], {"liver": "Liver"})
    again.SetReferenceImageGeometryParameterFromVolumeNode(patients[0])
    with pytest.raises(PointsError, match="same scan"):
        outlinedScans([examples[0], again])


# -- files


def test_a_folder_of_others_is_refused_and_one_of_ours_keeps_what_has_not_changed(
    tmp_path, patients
):
    (tmp_path / "mine").mkdir()
    for name in ("letter.txt", "outlines.json"):  # the latter as a full disk leaves a file
        (tmp_path / "mine" / name).write_text("")
        with pytest.raises(AnatomicalEmbeddingError, match="holds other files"):
            OutlineFolder(tmp_path / "mine").prepare(["a"])
    folder = OutlineFolder(tmp_path / "new")
    liver = mask_of(0, "liver").astype(np.uint8)
    labels = LabelMap(liver, patient(0).volume.ijk_to_ras, {"Liver": 1})

    def write():
        folder.prepare(["a", "b"])
        folder.write("a", snapshot(patients[0]), labels)
        folder.write("b", snapshot(patients[1]))
        files = [
            path for path in folder.path.rglob("*") if path.name.endswith((".nii.gz", ".seg.nrrd"))
        ]
        return {path: path.stat().st_mtime_ns for path in files}, folder.run()

    before = write()
    assert len(before[0]) == 3
    time.sleep(0.02)
    assert write() == before
    run = folder.run()
    run.mkdir()
    for path in (run / "segmenter.safetensors", folder.labels("b")):
        path.write_text("")
    (folder.results / "volumes.csv").write_text("scan\nb.nii.gz\n")
    assert folder.outlined(run) == ["b"]
    folder.write("b", snapshot(patients[2]))
    assert folder.outlined(run) == [], "the scan is another one now"
    liver[0] = 1
    assert write()[1] != before[1]
    folder.prepare(["b"])
    assert not list(folder.examples.iterdir())
    assert [path.name for path in folder.scans.iterdir()] == ["b.nii.gz"]


def test_nested_segments_are_whole_in_the_file_and_slicer_reads_its_layers(
    scene, patients, tmp_path
):
    liver = mask_of(0, "liver")
    half = liver & (np.indices(liver.shape)[2] > np.argwhere(liver)[:, 2].mean())
    masks = {
        "Half of my liver": half,
        "parotid_right": liver,
        "Left kidney": mask_of(0, "kidney_left"),
    }
    node = scene.AddNewNodeByClass("vtkMRMLSegmentationNode")
    for name, mask in masks.items():
        addSegment(node, mask, patient(0).volume.ijk_to_ras, name, (1, 0, 0))
    labels = labelsOf(patients[0], node).renumbered(
        {"Half of my liver": 3, "parotid_right": 300, "Left kidney": 7}
    )
    write_segments(tmp_path / "a.seg.nrrd", labels)
    storage = slicer.vtkMRMLSegmentationStorageNode()
    storage.SetFileName(str(tmp_path / "a.seg.nrrd"))
    again = scene.AddNewNodeByClass("vtkMRMLSegmentationNode")
    assert storage.ReadData(again)
    assert [segmentName(again, each) for each in segmentIds(again)] == list(masks)
    for segment, mask in zip(segmentIds(again), masks.values(), strict=True):
        assert np.array_equal(maskIn(patients[0], again, segment), mask)


# -- from end to end


def test_stopping_and_closing_the_scene_end_the_process(scene, patients, examples, logic, tmp_path):
    logic.process.engineParent = fake_engine(tmp_path / "engine", WAITS)
    for end in (logic.stop, lambda: scene.Clear(0)):
        assert logic.segmentRest(examples, patients, str(tmp_path / "out"), QUICK)
        until(logic, lambda: "2 min to go" in logic.progress[1], 60)
        end()
        assert logic.busy, "the process saves first"
        until(logic, lambda: not logic.busy, 60)
        # once: a closed scene needs no sentence
        assert logic.said == ["Stopped; press Segment to continue the run."]


def test_nothing_to_outline_and_bad_folders_are_said(patients, examples, logic, tmp_path):
    assert not logic.segmentRest(examples, patients[:2], str(tmp_path / "out"), QUICK)
    assert "are all examples" in logic.said[-1]
    assert not logic.segmentRest([], patients, str(tmp_path / "out"), QUICK)
    assert "Tick" in logic.said[-1]
    assert not logic.segmentRest(examples, patients, "relative", QUICK)
    assert "full path" in logic.said[-1]
    extra = add_patient(2, "Extra")
    empty = slicer.mrmlScene.AddNewNodeByClass("vtkMRMLSegmentationNode", "Empty")
    empty.SetReferenceImageGeometryParameterFromVolumeNode(extra)
    assert logic.segmentRest([empty], patients, str(tmp_path / "out"), QUICK)
    until(logic, lambda: not logic.busy, 60)
    assert "has no voxels in Extra" in logic.said[-1]
