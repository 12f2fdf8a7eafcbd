"""Test films as Slicer loads them: which nodes are films, pixels and world, and landmarks against known truth."""

import numpy as np
import pytest
import slicer
import slicer.util
from film_nodes import add_film, add_picture, filmed, places_in
from scans import add_patient, finish, relate

from AnatomicalEmbedding.errors import VolumeError
from AnatomicalEmbedding.matching.status import UNCERTAIN
from AnatomicalEmbedding.scan.geometry import transform_points
from AnatomicalEmbedding.scan.volume import Film, Volume
from AnatomicalEmbeddingLib.shared import VolumeNodes
from AnatomicalEmbeddingLib.shared.maps.MapStore import FAILED

RNG = np.random.default_rng(0)
GREY = RNG.integers(0, 255, (120, 90), dtype=np.uint8)


def test_volumes_with_one_slice_are_films_and_no_cts(scene):
    grey, coloured = add_picture(GREY, "grey"), add_picture(GREY, "coloured", colours=3)
    label = scene.AddNewNodeByClass("vtkMRMLLabelMapVolumeNode", "labels")
    slicer.util.updateVolumeFromArray(label, GREY[None])
    ct = add_patient(0)
    assert VolumeNodes.films(scene) == [grey, coloured]
    assert VolumeNodes.scans(scene) == [ct]
    for node in (grey, coloured):
        film = VolumeNodes.snapshot(node).volume()
        assert isinstance(film, Film)
        np.testing.assert_array_equal(film.voxels[0], GREY)
        np.testing.assert_allclose(film.spacing[:2], 350 / 90)
        assert "350 mm wide" in film.notes[0]
    slicer.util.arrayFromVolume(coloured)[..., 0] += 1
    with pytest.raises(VolumeError, match="coloured: is a picture in colour"):
        VolumeNodes.snapshot(coloured).volume()


def test_pictures_that_were_loaded_as_one_volume_are_named_as_such(scene, tmp_path):
    """Slicer takes film1.png and film2.png for slices of one volume."""
    node = slicer.util.addVolumeFromArray(
        np.stack([GREY, GREY]).astype(np.int16), np.eye(4), "film1"
    )
    storage = scene.AddNewNodeByClass("vtkMRMLVolumeArchetypeStorageNode")
    storage.SetFileName(str(tmp_path / "film1.PNG"))
    node.SetAndObserveStorageNodeID(storage.GetID())
    with pytest.raises(VolumeError, match=r'film1: pictures whose names differ .* "Single File"'):
        VolumeNodes.snapshot(node)


@pytest.mark.parametrize("mm", [(1.0, 1.0), (2.5, 3.0)])
@pytest.mark.parametrize("signs", [(-1, -1), (1, -1), (-1, 1), (1, 1)])
@pytest.mark.parametrize("plane", ["axial", "coronal"])
def test_pixels_and_world_are_exact(scene, mm, signs, plane):
    """Each pixel has its place in the node, and the film has right and head where the node has them."""
    matrix = np.diag([signs[0] * mm[0], signs[1] * mm[1], 1.0, 1.0])
    if plane == "coronal":
        matrix = matrix[[0, 2, 1, 3]]
    matrix[:3, 3] = 31, -72, 153
    node = add_picture(GREY, "film", matrix)
    film = VolumeNodes.snapshot(node).volume()
    assert isinstance(film, Film)
    pixels = np.column_stack([RNG.uniform(0, 89, 20), RNG.uniform(0, 119, 20), np.zeros(20)])
    world = transform_points(matrix, pixels)
    engine = transform_points(film.ijk_to_ras, pixels)
    np.testing.assert_allclose(VolumeNodes.toEngine(node, world), engine, atol=1e-9)
    np.testing.assert_allclose(VolumeNodes.fromEngine(node, engine), world, atol=1e-9)
    up = 1 if plane == "axial" else 2
    for axis, own in ((0, 0), (2, up)):
        assert (np.sign(np.diff(engine[:, axis])) == np.sign(np.diff(world[:, own]))).all()
    assert film.spacing[0] == pytest.approx(350 / 90 if plane == "axial" and mm[0] == 1 else mm[0])


def test_slicer_and_the_engine_read_a_dicom_film_alike(scene, tmp_path):
    from test_films import picture, save_dicom

    values = picture().astype(np.uint16) * 16
    path = save_dicom(tmp_path / "a.dcm", 4095 - values, PhotometricInterpretation="MONOCHROME1",
                      ImagerPixelSpacing=[1.5, 1.1])  # fmt: skip
    node = scene.AddNewNodeByClass("vtkMRMLScalarVolumeNode", "film")
    storage = scene.AddNewNodeByClass("vtkMRMLVolumeArchetypeStorageNode")
    storage.SetFileName(str(path))
    storage.SetSingleFile(True)
    assert storage.ReadData(node)
    shown, read = VolumeNodes.snapshot(node).volume(), Volume.read(path)
    np.testing.assert_array_equal(shown.voxels, read.voxels)
    np.testing.assert_allclose(shown.ijk_to_ras, read.ijk_to_ras)


def errors_mm(bench, target, ids) -> np.ndarray:
    return np.linalg.norm(
        [bench.found(point, target) for point in ids] - places_in(target, 1), axis=1
    )


@pytest.mark.parametrize("colours", [1, 3])
def test_a_click_in_a_film_is_answered_in_the_other_film(bench, colours):
    template, target = add_film(0, "Prior"), add_film(1, "Current", colours)
    bench.ready(template, target)
    assert bench.store.map(template).provenance.model == "film-open"
    ids = [bench.place("P", node=place) for place in places_in(template, 0)]
    relate(bench.relations, 300.0)
    assert errors_mm(bench, target, ids).mean() < 8.0
    answer = bench.answer(ids[0], target)
    assert answer.status == UNCERTAIN
    assert 0 < answer.errorMm < 60
    assert [bench.found(point, target)[2] for point in ids] == [0.0] * len(ids)  # in the slice


def test_a_click_in_a_ct_is_answered_in_the_film_but_not_the_other_way(bench, scene):
    ct = slicer.util.addVolumeFromArray(filmed().ct.voxels, filmed().ct.ijk_to_ras, name="CT")
    film = add_film(1, "Film")
    bench.ready(ct, film)
    ids = [bench.place("P", node=point) for point in filmed().points_ras]
    relate(bench.relations, 300.0)
    assert errors_mm(bench, film, ids).mean() < 8.0
    assert bench.reported == []
    bench.logic.setPoints(None)
    bench.ready(film, ct)
    bench.place("P", node=places_in(film, 1)[0])
    assert bench.logic.answersIn(ct) is None
    assert bench.reported == [
        "CT: points of a film are not found in a CT; make the CT the template."
    ]


def test_what_is_no_chest_film_is_refused(bench):
    upside_down = slicer.util.arrayFromVolume(add_film(0, "Film"))[0, ::-1]
    node = add_picture(upside_down, "Upside down", np.diag([-1.5, -1.5, 1, 1]))
    bench.store.request([node])
    finish(bench.store)
    state = bench.store.state(node)
    assert state.status == FAILED
    assert "does not look like a chest film" in state.sentence
