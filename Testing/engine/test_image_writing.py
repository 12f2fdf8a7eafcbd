"""Test that an image is written completely; if this fails, the old file of the same name stays unchanged."""

from pathlib import Path

import numpy as np
import pytest
import SimpleITK as sitk

from AnatomicalEmbedding.errors import VolumeError
from AnatomicalEmbedding.scan.image_files import WRITABLE_SUFFIXES, write_image

SHAPE = (40, 50, 60)


def image(kind: str) -> sitk.Image:
    voxels = np.random.default_rng(0).normal(size=(*SHAPE, 3)).astype(np.float32)
    return sitk.GetImageFromArray(
        voxels if kind == "field" else voxels[..., 0], isVector=kind == "field"
    )


@pytest.mark.parametrize("kind", ["scan", "field"])
@pytest.mark.parametrize("suffix", WRITABLE_SUFFIXES)
def test_an_image_is_read_back(suffix, kind, tmp_path):
    write_image(image(kind), tmp_path / f"a{suffix}")
    read = sitk.ReadImage(str(tmp_path / f"a{suffix}"))
    np.testing.assert_array_equal(sitk.GetArrayFromImage(read), sitk.GetArrayFromImage(image(kind)))


@pytest.mark.parametrize("share", [0.0, 0.0001, 0.5, 0.9999])
@pytest.mark.parametrize("suffix", WRITABLE_SUFFIXES)
def test_where_the_disk_is_full_the_old_file_stays(suffix, share, tmp_path, monkeypatch):
    whole = sitk.WriteImage

    def full(written, path, **options):
        whole(written, path, **options)
        with Path(path).open("r+b") as file:
            file.truncate(int(share * file.seek(0, 2)))

    path = tmp_path / f"a{suffix}"
    monkeypatch.setattr(sitk, "WriteImage", full)
    for before in ((), (path,)):
        with pytest.raises(
            VolumeError, match=r"a\..*: cannot be written; .* writable and not full\.$"
        ):
            write_image(image("scan"), path)
        assert tuple(tmp_path.iterdir()) == before
        if before:
            assert path.read_bytes() == b"old"
        path.write_bytes(b"old")


def test_bytes_that_another_file_left_on_the_disk_are_seen(tmp_path, monkeypatch):
    whole = sitk.WriteImage

    def changed(written, path, **options):
        whole(written, path, **options)
        with Path(path).open("r+b") as file:
            file.seek(20_000)
            file.write(bytes(4096))

    monkeypatch.setattr(sitk, "WriteImage", changed)
    with pytest.raises(VolumeError, match="cannot be written"):
        write_image(image("scan"), tmp_path / "a.nii.gz")


def test_another_kind_of_file_is_refused(tmp_path):
    with pytest.raises(VolumeError, match="files of this kind cannot be written"):
        write_image(image("scan"), tmp_path / "a.png")
