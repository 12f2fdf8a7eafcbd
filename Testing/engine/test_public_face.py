"""Test the public names of the package: they accept scans of other programs and return tables in mm."""

from types import SimpleNamespace

import numpy as np
import pytest
import torch
from small_models import small_network

import AnatomicalEmbedding
from AnatomicalEmbedding import (
    EmbeddingMap,
    Model,
    Volume,
    crop,
    errors,
    find,
    load_model,
    locate,
    match,
    match_all,
    read_points,
    register,
    segment,
    write_points,
)

LPS = np.diag([-1.0, -1.0, 1.0, 1.0])
NAMES = (
    "Volume", "load_model", "match", "match_all", "locate", "crop", "find", "register", "segment", "read_points",
    "write_points", "errors",
)  # fmt: skip


@pytest.fixture(scope="module")
def model() -> Model:
    return Model(small_network(local_channels=8, spacing_mm=(3.0, 3.0, 4.0)), "small", "ab" * 32)


@pytest.fixture(scope="module")
def maps(model, phantom_pair) -> list[EmbeddingMap]:
    return [model.embed(phantom.volume) for phantom in phantom_pair]


@pytest.fixture(scope="module")
def points(phantom_pair) -> np.ndarray:
    return np.array(
        [phantom_pair[0].points_ras[name] for name in sorted(phantom_pair[0].points_ras)[:4]]
    )


def test_every_name_is_public_and_has_help():
    assert set(NAMES) <= set(AnatomicalEmbedding.__all__)
    for name in NAMES:
        text = getattr(AnatomicalEmbedding, name).__doc__
        assert text
        assert not text.startswith("See")
    assert all(word in load_model.__doc__ for word in ("Args:", "device", "cache", "WeightsError"))


def _same_scan(volume: Volume, path, kind: str) -> tuple[object, dict]:
    """The scan as another program holds it, and the arguments that `Volume.of` needs."""
    ijk = np.ascontiguousarray(volume.voxels.T)
    return {
        "volume": lambda: (volume, {}),
        "path": lambda: (path, {}),
        "text": lambda: (str(path), {}),
        "SimpleITK": lambda: (volume.to_sitk(), {}),
        "array": lambda: (volume.voxels, {"affine": volume.ijk_to_ras}),
        "LPS": lambda: (volume.voxels, {"affine": LPS @ volume.ijk_to_ras, "frame": "LPS"}),
        "channel": lambda: (volume.voxels[None], {"affine": volume.ijk_to_ras}),
        "torch": lambda: (
            torch.from_numpy(volume.voxels)[None],
            {"affine": torch.from_numpy(volume.ijk_to_ras)},
        ),
        "nibabel": lambda: (SimpleNamespace(dataobj=ijk[..., None], affine=volume.ijk_to_ras), {}),
        "TorchIO": lambda: (
            SimpleNamespace(data=torch.from_numpy(ijk)[None], affine=volume.ijk_to_ras),
            {},
        ),
    }[kind]()


@pytest.mark.parametrize(
    "kind",
    [
        "volume",
        "path",
        "text",
        "SimpleITK",
        "array",
        "LPS",
        "channel",
        "torch",
        "nibabel",
        "TorchIO",
    ],
)
def test_scans_of_other_programs_are_the_same_scan(phantom_pair, tmp_path, kind):
    known = phantom_pair[0].volume
    path = tmp_path / "scan.nii.gz"
    known.write(path)
    source, arguments = _same_scan(known, path, kind)
    found = Volume.of(source, **arguments)
    np.testing.assert_array_equal(found.voxels, known.voxels)
    np.testing.assert_allclose(found.ijk_to_ras, known.ijk_to_ras, atol=1e-4)


@pytest.mark.parametrize(
    ("source", "arguments", "says"),
    [
        ([1, 2], {}, "list is not a scan; give a path"),
        (None, {}, "NoneType is not a scan"),
        (np.zeros((20, 40, 40)), {}, "has no geometry"),
        (np.zeros((20, 40, 40)), {"affine": np.eye(4), "frame": "XYZ"}, 'choose "RAS" or "LPS"'),
    ],
)
def test_whatever_is_no_scan_is_refused_with_a_remedy(source, arguments, says):
    with pytest.raises(TypeError, match=says):
        Volume.of(source, **arguments)


def test_scans_and_maps_give_the_same_answers(model, maps, points, phantom_pair):
    volumes = [phantom.volume for phantom in phantom_pair]
    by_maps = match(maps[0], points, maps[1])
    by_scans = match_all(volumes[0], points, volumes[1:], model=model)[0]
    by_lps = match(maps[0], points @ LPS[:3, :3], maps[1], frame="LPS")
    for found in (by_scans, by_lps):
        np.testing.assert_allclose(found.points_ras, by_maps.points_ras, atol=1e-6)
    np.testing.assert_allclose(by_maps.points_lps @ LPS[:3, :3], by_maps.points_ras)
    with pytest.raises(TypeError, match="call match"):
        match_all(maps[0], points, maps[1])
    with pytest.raises(TypeError, match="is not a scan"):
        match(maps[0], points, [maps[1]], model=model)
    with pytest.raises(errors.PointsError, match="frame"):
        match(maps[0], points, maps[1], frame="IJK")


def test_matches_are_counted_indexed_and_tabulated(maps, points):
    found = match(maps[0], points, maps[1])
    assert len(found) == len(list(found)) == 4
    rows = found.table()
    np.testing.assert_allclose([[row[axis] for axis in "ras"] for row in rows], found.points_ras)
    assert rows[0]["status"] is None  # weights without calibration
    assert found[-1] == rows[3]
    assert found[1:3].table() == rows[1:3]
    assert len(repr(found)) < 80
    with pytest.raises(IndexError):
        _ = found[4]


@pytest.mark.parametrize("suffix", [".mrk.json", ".csv"])
def test_points_of_either_frame_are_written_and_read(tmp_path, points, suffix):
    path = tmp_path / f"points{suffix}"
    write_points(path, points @ LPS[:3, :3], ["a", "b", "c", "d"], frame="LPS")
    found = read_points(path)
    assert found.labels == ("a", "b", "c", "d")
    np.testing.assert_allclose(found.points_ras, points, atol=1e-3)
    np.testing.assert_allclose(found.points_lps, points @ LPS[:3, :3], atol=1e-3)
    with pytest.raises(errors.PointsError, match=r"points have (type|shape)"):
        write_points(path, "1,2,3")


def test_boxes_crops_and_places_are_those_of_the_command_line(anatemb, phantom_pair, tmp_path):
    """With the shipped weights, on a scan given by its path."""
    path = tmp_path / "scan.nii.gz"
    phantom_pair[1].volume.write(path)
    words = (path, "--structures", "liver", "--recall", 0.9, "-o", tmp_path)
    assert anatemb("locate", *words, "--no-report").code == 0
    assert anatemb("crop", *words).code == 0
    model = load_model(device="cpu")
    embedding = model.embed(path)
    found = locate(embedding, "Liver", recall=0.9)
    from AnatomicalEmbedding.scan.boxes import read_rois

    # the command reads the map from the cache, whose numbers have fewer bits
    np.testing.assert_allclose(
        found["liver"].box_ras, read_rois(tmp_path / "scan.boxes.mrk.json")["liver"], atol=0.3
    )
    assert (
        locate(embedding, ["liver"], recall=0.5)["liver"].box_ras[1, 0]
        <= found["liver"].box_ras[1, 0]
    )
    part = crop(path, ["liver"], recall=0.9, model=model)
    np.testing.assert_array_equal(part.voxels, Volume.read(tmp_path / "scan_crop.nii.gz").voxels)
    (place,) = find("liver", path, embedding=embedding)
    low, high = found["liver"].box_ras
    assert ((place.point_ras > low) & (place.point_ras < high)).all()
    with pytest.raises(errors.AnatomicalEmbeddingError, match="names no place"):
        find("qwerty", path, embedding=embedding)


def test_registration_and_outlines_take_scans(phantom_pair, maps, model, tmp_path):
    scans = [phantom.volume for phantom in phantom_pair]
    found = register(*scans, "affine", maps=tuple(maps), model=model)
    assert np.isfinite(found.transform_points(np.zeros((1, 3)))).all()
    with pytest.raises(errors.AnatomicalEmbeddingError, match="no trained segmenter"):
        segment(scans[0], tmp_path)
