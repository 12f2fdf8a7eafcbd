"""Prepared scans: from files and phantoms to what the sampler draws from, and back from disk."""

import json

import numpy as np
import pytest
import SimpleITK as sitk
import torch
from training_scans import SPACING_MM, frame, linear_scan, with_field

from AnatomicalEmbedding.errors import AnatomicalEmbeddingError, VolumeError
from AnatomicalEmbedding.training.frames import LevelTable
from AnatomicalEmbedding.training.scans import (
    FIELD_STEP,
    PHANTOM_SEED,
    PreparedScan,
    prepare_folder,
    prepare_phantom,
    prepare_phantoms,
    prepare_volume,
)
from AnatomicalEmbedding.volume import Volume

GRID_MM = (4.0, 4.0, 4.0)
FOLDER_MM = (8.0, 8.0, 8.0)


def same(a, b):
    assert (a.name, a.synthetic) == (b.name, b.synthetic)
    assert torch.equal(a.hu, b.hu)
    assert torch.equal(a.body, b.body)
    assert (a.body_field is None) == (b.body_field is None)
    assert a.body_field is None or torch.equal(a.body_field, b.body_field)
    np.testing.assert_array_equal(a.grid_to_ras, b.grid_to_ras)
    for name in ("scale", "shift_mm", "scale_sd", "shift_sd_mm"):
        np.testing.assert_array_equal(getattr(a.frame, name), getattr(b.frame, name))


# One scan


@pytest.mark.parametrize("field", [False, True])
def test_saved_scan_comes_back_as_it_was(field, tmp_path):
    guess = frame((1, 0.97, 1.013), (1 / 3, -2.5, 700.1), (0.08, 0.08, 0.03), (8.0, 30.0, 10.0))
    scan = linear_scan("a scan (1)", guess=guess, synthetic=field)
    if field:
        scan = with_field(scan, lambda ras: ras * 1.1 + 7)
    path = tmp_path / "scan.safetensors"
    scan.save(path)
    same(PreparedScan.load(path), scan)
    assert [p.name for p in tmp_path.iterdir()] == ["scan.safetensors"]


@pytest.mark.parametrize("content", [None, b"", b"\x10\0\0\0\0\0\0\0 damaged"])
def test_damaged_prepared_scan_is_named(content, tmp_path):
    path = tmp_path / "scan.safetensors"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(AnatomicalEmbeddingError, match=r"scan\.safetensors: .*delete it"):
        PreparedScan.load(path)


def test_field_nodes_cover_the_scan_to_its_last_voxel():
    scan = linear_scan()
    nodes = scan.field_nodes_ras()
    steps = FIELD_STEP * np.array(SPACING_MM)
    np.testing.assert_allclose(nodes[0, 0, 0], scan.grid_to_ras[:3, 3])
    np.testing.assert_allclose(nodes[1, 1, 1] - nodes[0, 0, 0], steps)
    last = scan.grid_to_ras[:3, 3] + (np.array(scan.hu.shape[::-1]) - 1) * SPACING_MM
    assert (nodes[-1, -1, -1] >= last).all()
    assert (nodes[-1, -1, -1] < last + steps).all()


def test_height_range_is_that_of_the_first_and_last_slice():
    scan = linear_scan(origin=(0, 0, -200), guess=frame((1, 1, 1.1), (0, 0, 500)))
    assert scan.height_range_mm == pytest.approx((500 - 220, 500 + 1.1 * (-200 + 39 * 3)))


def test_prepared_volume_is_the_scan_on_the_grid_without_the_couch(phantom_pair):
    phantom = phantom_pair[0]
    scan = prepare_volume(phantom.volume, {300.0: -500.0}, GRID_MM)
    assert scan.name == phantom.volume.name
    assert scan.hu.dtype == torch.int16
    assert scan.body.shape == scan.hu.shape
    assert not scan.synthetic
    assert (scan.hu[~scan.body] == -1000).all()
    np.testing.assert_array_equal(scan.grid_to_ras[:3, :3], np.diag(GRID_MM))
    k, j, i = (axis.numpy() for axis in torch.nonzero(scan.body[2:-2], as_tuple=True))
    ras = np.stack([i, j, k + 2], axis=1) * GRID_MM + scan.grid_to_ras[:3, 3]
    error = scan.hu[2:-2][scan.body[2:-2]].numpy() - phantom.volume.sample(ras)
    assert np.median(np.abs(error)) < 1  # both interpolate linearly
    body = phantom.labels > 0
    assert scan.body.sum() == pytest.approx(body.sum(), rel=0.05)
    assert scan.frame.apply(np.array([[0.0, 0.0, -500.0]]))[0, 2] == pytest.approx(300)


def test_scan_without_a_patient_is_refused():
    air = Volume(np.full((30, 40, 40), -1000, dtype=np.int16), np.diag([4.0, 4.0, 4.0, 1.0]), name="empty")
    with pytest.raises(VolumeError, match="empty: no patient is seen"):
        prepare_volume(air, {300.0: 0.0}, GRID_MM)


def test_prepared_phantom_carries_its_exact_coordinates(phantom_pair):
    phantom = phantom_pair[1]
    scan = prepare_phantom(phantom, "exact", GRID_MM)
    nodes = scan.field_nodes_ras().reshape(-1, 3)
    exact = phantom.to_body(nodes)
    np.testing.assert_allclose(scan.body_field.flatten(1).T.numpy(), exact, atol=1e-3)
    assert scan.synthetic
    np.testing.assert_array_equal(scan.frame.shift_sd_mm, 0)
    np.testing.assert_array_equal(scan.frame.scale_sd, 0)
    # its frame is the field's mean: enough to tell which stretch of the body it shows
    np.testing.assert_allclose(scan.frame.apply(nodes).mean(axis=0), exact.mean(axis=0))
    low, high = scan.height_range_mm
    assert low == pytest.approx(150, abs=25)
    assert high == pytest.approx(480, abs=25)


# A folder of scans


LEVELS = LevelTable({"kidney_centre": 257, "carina": 469, "brainstem": 700, "larynx": 600}, {"good": {"carina": -30.0}})


@pytest.fixture(scope="module")
def small_ct(phantom_pair):
    """A torso of 8 mm voxels that can be written and prepared at once."""
    volume = phantom_pair[0].volume
    return Volume(volume.voxels[::2, ::2, ::2], volume.ijk_to_ras @ np.diag([2.0, 2.0, 2.0, 1.0]), name="small")


def prepare(tmp_path, levels=LEVELS):
    lines = []
    (tmp_path / "ct").mkdir(exist_ok=True)
    return lines, lambda: prepare_folder(tmp_path / "ct", levels, FOLDER_MM, tmp_path / "prepared", lines.append)


def test_scans_that_cannot_be_used_are_named_and_skipped(small_ct, tmp_path):
    lines, run = prepare(tmp_path)
    small_ct.write(tmp_path / "ct" / "good.nii.gz")
    small_ct.write(tmp_path / "ct" / "unread.nrrd")
    (tmp_path / "ct" / "broken.nii.gz").write_bytes(b"not an image")
    (tmp_path / "ct" / "notes.txt").write_text("no scan")
    paths = run()
    assert [p.name for p in paths] == ["good.safetensors"]
    assert len(lines) == 3
    assert "broken.nii.gz" in lines[0]
    assert lines[1] == "prepared good"
    assert "unread.nrrd: has no level reading" in lines[2]
    read = Volume.read(tmp_path / "ct" / "good.nii.gz")
    same(PreparedScan.load(paths[0]), prepare_volume(read, {469: -30.0}, FOLDER_MM))


def test_prepared_scans_are_reused(small_ct, tmp_path):
    lines, run = prepare(tmp_path)
    small_ct.write(tmp_path / "ct" / "good.nii.gz")
    (path,) = run()
    written = path.stat().st_mtime_ns
    assert run() == [path]
    assert path.stat().st_mtime_ns == written
    assert lines == ["prepared good"]


def test_names_with_dots_are_different_scans(small_ct, tmp_path):
    """Files exported from DICOM are often called by their UIDs."""
    names = ("1.2.840.1", "1.2.840.2")
    _, run = prepare(tmp_path, LevelTable({"carina": 469}, {name: {"carina": 0.0} for name in names}))
    for name in names:
        small_ct.write(tmp_path / "ct" / f"{name}.nii.gz")
    assert [PreparedScan.load(path).name for path in run()] == list(names)


def test_folder_without_a_usable_scan_is_refused(tmp_path):
    lines, run = prepare(tmp_path)
    (tmp_path / "ct" / "broken.nii.gz").write_bytes(b"not an image")
    with pytest.raises(AnatomicalEmbeddingError, match="ct: no scan can be trained on"):
        run()
    assert len(lines) == 1


def test_level_without_a_height_is_named(small_ct, tmp_path):
    lines, run = prepare(tmp_path, LevelTable({"carina": 469}, {"good": {"knee": 0.0, "carina": 1.0}}))
    small_ct.write(tmp_path / "ct" / "good.nii.gz")
    with pytest.raises(AnatomicalEmbeddingError):
        run()
    assert "good.nii.gz: the level table has no body_height_mm for knee" in lines[0]


def write_labels(folder, volume, name="head", names=None):
    """A label map with a brainstem and a larynx at known heights (world z of their centres)."""
    labels = np.zeros(volume.shape, dtype=np.uint8)
    labels[30:33, 10:13, 10:13] = 3
    labels[10:15, 10:13, 10:13] = 5
    image = sitk.GetImageFromArray(labels)
    image.CopyInformation(volume.to_sitk())
    sitk.WriteImage(image, str(folder / f"{name}.seg.nii.gz"))
    (folder / f"{name}.labels.json").write_text(json.dumps(names or {"3": "brainstem", "5": "larynx", "7": "liver"}))
    z0, step = volume.ijk_to_ras[2, 3], volume.ijk_to_ras[2, 2]
    return z0 + 31 * step, z0 + 12 * step


def test_labels_stand_in_for_a_reading(small_ct, tmp_path):
    _, run = prepare(tmp_path)
    small_ct.write(tmp_path / "ct" / "head.nii.gz")
    brainstem, larynx = write_labels(tmp_path / "ct", small_ct)
    scan = PreparedScan.load(run()[0])
    assert scan.frame.scale[2] == 1
    assert scan.frame.shift_mm[2] == pytest.approx((700 + 600) / 2 - (brainstem + larynx) / 2, abs=1e-3)


def test_reading_goes_before_labels(small_ct, tmp_path):
    _, run = prepare(tmp_path)
    small_ct.write(tmp_path / "ct" / "good.nii.gz")
    write_labels(tmp_path / "ct", small_ct, "good")
    assert PreparedScan.load(run()[0]).frame.shift_mm[2] == pytest.approx(469 + 30)


@pytest.mark.parametrize("damage", ["no mask", "no names", "other labels"])
def test_labels_that_give_no_reading_skip_the_scan(damage, small_ct, tmp_path):
    lines, run = prepare(tmp_path)
    small_ct.write(tmp_path / "ct" / "head.nii.gz")
    write_labels(tmp_path / "ct", small_ct, names={"7": "liver"} if damage == "other labels" else None)
    if damage == "no mask":
        (tmp_path / "ct" / "head.seg.nii.gz").unlink()
    elif damage == "no names":
        (tmp_path / "ct" / "head.labels.json").write_text("[1, 2]")
    with pytest.raises(AnatomicalEmbeddingError):
        run()
    assert len(lines) == 1
    assert lines[0].startswith("skipped: ")
    assert "head" in lines[0]


def test_prepared_phantoms_are_reused(tmp_path):
    paths = [tmp_path / f"phantom{PHANTOM_SEED + n}.safetensors" for n in range(2)]
    for path in paths:
        linear_scan(path.stem, synthetic=True).save(path)
    lines = []
    assert prepare_phantoms(2, GRID_MM, tmp_path, lines.append) == paths
    assert lines == []
