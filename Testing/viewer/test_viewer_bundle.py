"""Test the export of the scene for 3D Slicer: it is written in two parts; the second part does not read the scene."""

import shutil
from types import SimpleNamespace

import numpy as np
import pytest

pytest.importorskip(
    "trame_slicer",
    reason="runs in an environment with trame-slicer[standalone]; `make test` makes it",
)

import slicer.util
import vtk
from AnatomicalEmbeddingViewer.logic.exports import Exports
from browsing import read_bundle
from trame_slicer.core import SlicerApp

from AnatomicalEmbedding.errors import AnatomicalEmbeddingError
from AnatomicalEmbeddingLib.shared.SceneNodes import nodesOf

PLACES = {"Rib": (12.5, -30.25, 140.0), "Größe / 1": (-3.0, 4.0, 5.0)}
MATRIX = np.array([[-2.0, 0, 0, 30], [0, -3.0, 0, 40], [0, 0, 4.0, -50], [0, 0, 0, 1]])


@pytest.fixture
def scene(monkeypatch):
    made = SlicerApp().scene  # with the logics that know of points and how they are stored
    monkeypatch.setattr(slicer, "mrmlScene", made, raising=False)
    return made


def exports_of(scene, folder):
    return Exports(SimpleNamespace(scene=scene, folder=folder), SimpleNamespace(logic=None))


def begin(scene, folder):
    return exports_of(scene, folder).scene()


def test_a_scene_that_is_emptied_before_the_second_part_is_written_as_it_was(scene, tmp_path):
    voxels = np.random.default_rng(5).integers(-1000, 1000, (5, 6, 7)).astype(np.int16)
    for name in ("CT", "CT"):  # of the same name, as two files
        slicer.util.addVolumeFromArray(voxels, MATRIX, name=name)
    points = scene.AddNewNodeByClass("vtkMRMLMarkupsFiducialNode", "Points / of CT")
    for label, place in PLACES.items():
        points.AddControlPoint(vtk.vtkVector3d(*place), label)
    hidden = scene.AddNewNodeByClass("vtkMRMLMarkupsFiducialNode", "Helper")
    hidden.SetSaveWithScene(False)

    finish = begin(scene, tmp_path)
    assert scene.GetURL() == ""
    scene.Clear(True)
    with finish() as packed:
        (tmp_path / "scene.mrb").write_bytes(packed.read())

    assert sorted(path.name for path in tmp_path.iterdir()) == ["scene.mrb"]
    found = read_bundle(tmp_path / "scene.mrb", tmp_path)
    volumes = nodesOf(found, "vtkMRMLScalarVolumeNode")
    assert len(volumes) == 2
    for volume in volumes:
        np.testing.assert_array_equal(slicer.util.arrayFromVolume(volume), voxels)
        matrix = vtk.vtkMatrix4x4()
        volume.GetIJKToRASMatrix(matrix)
        np.testing.assert_allclose(slicer.util.arrayFromVTKMatrix(matrix), MATRIX, atol=1e-6)
    again = found.GetFirstNodeByName("Points / of CT")
    places = {
        again.GetNthControlPointLabel(n): again.GetNthControlPointPosition(n) for n in range(2)
    }
    assert places.keys() == PLACES.keys()
    for label, place in PLACES.items():
        np.testing.assert_allclose(places[label], place, atol=1e-6)
    assert found.GetFirstNodeByName("Helper") is None


def test_a_full_disk_is_a_sentence_and_leaves_nothing(scene, tmp_path):
    resource = pytest.importorskip("resource")
    voxels = np.random.default_rng(5).integers(-1000, 1000, (40, 40, 40)).astype(np.int16)
    slicer.util.addVolumeFromArray(voxels, MATRIX, name="CT")
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    for written in (False, True):
        pack = begin(scene, tmp_path) if written else lambda: begin(scene, tmp_path)
        resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, hard))
        try:
            with pytest.raises(AnatomicalEmbeddingError, match="could not be written") as caught:
                pack()
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        assert str(tmp_path) not in str(caught.value)
        assert not list(tmp_path.iterdir())


def test_a_bundle_that_cannot_be_begun_is_a_sentence_and_ends_the_export(scene, tmp_path):
    slicer.util.addVolumeFromArray(np.zeros((5, 6, 7), np.int16), MATRIX, name="CT")
    folder = tmp_path / "session"
    folder.mkdir()
    exports = exports_of(scene, folder)
    pack = exports.scene()
    shutil.rmtree(folder)  # no temporary file can be made
    with pytest.raises(AnatomicalEmbeddingError, match="could not be written"):
        pack()
    state = SimpleNamespace()
    exports.publish(state)
    assert not state.exporting
