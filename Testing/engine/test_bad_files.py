"""Each kind of bad file is refused in one readable line that names it."""

from __future__ import annotations

from pathlib import Path

import pytest
from bad_files import make_bad_files

from AnatomicalEmbedding.errors import VolumeError
from AnatomicalEmbedding.scan.volume import Volume

# What the message must say besides the name of the file.
SAYS = {
    "missing_file": "no such file",
    "unknown_extension": "neither DICOM nor one of .nii.gz",
    "empty_file": "empty",
    "garbage_nifti": "not a NIfTI file",
    "garbage_nrrd": "cannot be read as .nrrd",
    "truncated_gzip": "truncated",
    "truncated_inside_gzip": "truncated",
    "truncated_nifti": "truncated",
    "truncated_nrrd": "truncated",
    "truncated_mha": "truncated",
    "header_without_data": "data file header_without_data.raw is not next to it",
    "picture_2d": "2-D",
    "series_4d": "4 dimensions (28 x 26 x 24 x 2)",
    "colour": "3 values per voxel",
    "few_slices": "10 axial slices",
    "small_extent": "84 x 78 x 24 mm",
    "zero_spacing": "spacing is 3 x 3.2 x 0 mm",
    "absurd_spacing": "spacing is 3 x 3 x 3000 mm",
    "nan_voxels": "1 voxels are NaN",
    "constant": "all voxels are -1000",
    "label_map": "label map",
    "picture_values": "values 0 to 255",
    "normalised": "values 0 to 1",
    "magnetic_resonance": "not a CT in Hounsfield units",
    "no_rescale_intercept": "without its rescale intercept",
    "folder_without_image": "no DICOM image",
    "dicom_mr": "20 MR images",
    "dicom_missing_block": "missing between z = 34.0 and 50.0 mm",
    "dicom_truncated_slice": "damaged or truncated",
}


@pytest.fixture(scope="module")
def bad_files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    return make_bad_files(tmp_path_factory.mktemp("bad"))


def test_every_kind_is_expected(bad_files):
    assert bad_files.keys() == SAYS.keys()


@pytest.mark.parametrize("kind", SAYS)
def test_bad_file_is_refused_in_one_line(bad_files, kind, capfd):
    path = bad_files[kind]
    with pytest.raises(VolumeError) as refusal:
        Volume.read(path)
    message = str(refusal.value)
    assert str(path) in message
    assert SAYS[kind] in message
    assert "\n" not in message
    assert message.endswith(".")
    printed = capfd.readouterr()
    # SimpleITK's libraries must not add lines of their own.
    assert (printed.out, printed.err) == ("", "")
