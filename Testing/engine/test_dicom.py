"""Test DICOM series: each place has the right HU, for any file names, slice order or gantry tilt."""

import numpy as np
import pydicom
import pytest
from scan_files import stack_positions, true_hu, write_linear_series

from AnatomicalEmbedding.dicom.source import source_of
from AnatomicalEmbedding.errors import VolumeError
from AnatomicalEmbedding.scan.dicom import list_series
from AnatomicalEmbedding.scan.sources import find_scans, read_scan
from AnatomicalEmbedding.scan.volume import Volume

ORIGIN = (-40.0, -42.0, -35.0)
STEP = (0.0, 0.0, 3.5)
POSITIONS = stack_positions(ORIGIN, STEP, range(20))


def assert_true_everywhere(volume: Volume, tolerance: float = 0.51, margin: float = 0.0) -> None:
    """The scan is a linear function of the world, so every inner point has a known HU."""
    low, high = volume.bounds_ras
    margin = max(volume.spacing) / 2 + margin
    points = np.random.default_rng(0).uniform(low + margin, high - margin, (2000, 3))
    np.testing.assert_allclose(volume.sample(points), true_hu(points), atol=tolerance)


@pytest.mark.parametrize("compress", [False, True], ids=["plain", "rle"])
def test_series_with_shuffled_names(tmp_path, compress):
    write_linear_series(tmp_path / "scan", POSITIONS, compress=compress)
    volume = Volume.read(tmp_path / "scan")
    assert volume.shape == (20, 26, 28)
    assert volume.notes == ()
    assert volume.name == "scan"
    assert volume.voxels.dtype == np.int16
    np.testing.assert_allclose(volume.spacing, (3.0, 3.2, 3.5), atol=1e-6)
    # LPS (-40, -42, -35) is RAS (40, 42, -35); columns run to the patient's left, rows to the back.
    np.testing.assert_allclose(volume.ijk_to_ras[:3, 3], (40, 42, -35), atol=1e-6)
    np.testing.assert_allclose(volume.ijk_to_ras[:3, :3], np.diag((-3.0, -3.2, 3.5)), atol=1e-6)
    assert_true_everywhere(volume)


def test_names_without_suffix_in_subfolders(tmp_path):
    files = write_linear_series(tmp_path / "scan", POSITIONS)
    (tmp_path / "scan" / "part").mkdir()
    for n, file in enumerate(files):
        file.rename(tmp_path / "scan" / ("part" if n % 2 else ".") / f"IM{n:04d}")
    (tmp_path / "scan" / "notes.txt").write_text("not DICOM")
    assert_true_everywhere(Volume.read(tmp_path / "scan"))


@pytest.mark.parametrize(
    ("orientation", "normal"),
    [
        ((1, 0, 0, 0, 0, -1), (0, 1, 0)),
        ((-1, 0, 0, 0, 1, 0), (0, 0, -1)),
    ],
    ids=["coronal", "mirrored"],
)
def test_other_planes(tmp_path, orientation, normal):
    origin = -45 * (np.array(orientation[:3]) + orientation[3:] + normal)
    write_linear_series(
        tmp_path,
        stack_positions(origin, 3.5 * np.array(normal), range(20)),
        orientation,
        size=(28, 28),
    )
    assert_true_everywhere(Volume.read(tmp_path))


def test_gantry_tilt_is_resampled_upright(tmp_path):
    """The table moves along z while slices lie tilted about x: a sheared grid."""
    c, s = np.cos(np.radians(-12.0)), np.sin(np.radians(-12.0))
    write_linear_series(tmp_path, stack_positions(ORIGIN, STEP, range(30)), (1, 0, 0, 0, c, s))
    volume = Volume.read(tmp_path)
    assert volume.notes == ("gantry tilt of 12.0 degrees; resampled to perpendicular axes",)
    unit = volume.ijk_to_ras[:3, :3] / volume.spacing
    np.testing.assert_allclose(np.abs(unit), np.eye(3), atol=1e-6)
    # World positions of voxels inside the tilted stack, away from its faces.
    i, j, k = np.meshgrid(np.arange(1, 27), np.arange(1, 25), np.arange(1, 29), indexing="ij")
    lps = np.array(ORIGIN) + np.stack((3.0 * i, 3.2 * c * j, 3.2 * s * j + 3.5 * k), axis=-1)
    points = (lps * (-1, -1, 1)).reshape(-1, 3)
    assert volume.contains(points).all()
    np.testing.assert_allclose(volume.sample(points), true_hu(points), atol=1.01)
    # The upright box is larger than the tilted stack; what that did not cover is air.
    assert volume.shape[0] > 30
    assert (volume.voxels == -1000).mean() > 0.05


def test_missing_slices_are_interpolated_and_noted(tmp_path):
    numbers = [n for n in range(40) if n not in (3, 11)]
    write_linear_series(tmp_path, stack_positions(ORIGIN, (0, 0, 2.0), numbers))
    volume = Volume.read(tmp_path)
    assert volume.shape[0] == 40
    assert "2 missing slice" in volume.notes[0]
    assert "interpolated" in volume.notes[0]
    assert_true_everywhere(volume, tolerance=1.01)


@pytest.mark.parametrize(
    ("numbers", "message"),
    [
        ([*range(15), *range(22, 40)], "slices are missing between z = -7.0 and 9.0 mm"),
        ([*range(20), *range(20, 60, 2)], "apart and 19 of 59 slices are missing"),
    ],
    ids=["block", "change of step"],
)
def test_too_many_missing_slices_are_refused(tmp_path, numbers, message):
    write_linear_series(tmp_path, stack_positions(ORIGIN, (0, 0, 2.0), numbers))
    with pytest.raises(VolumeError, match=message):
        Volume.read(tmp_path)


def test_rescale_may_differ_from_slice_to_slice(tmp_path):
    rescale = [(0.5 + 0.05 * n, -1024.0 - n) for n in range(20)]
    write_linear_series(tmp_path, POSITIONS, rescale=rescale)
    assert_true_everywhere(Volume.read(tmp_path), tolerance=0.8)


def test_one_ct_volume_among_other_series_is_found(tmp_path, capfd):
    write_linear_series(tmp_path, POSITIONS, SeriesDescription="chest")
    write_linear_series(tmp_path, POSITIONS, Modality="MR")
    write_linear_series(tmp_path, POSITIONS[:3], SeriesDescription="bolus tracking")
    write_linear_series(tmp_path, POSITIONS, ImageType=["ORIGINAL", "PRIMARY", "LOCALIZER"])
    assert_true_everywhere(Volume.read(tmp_path))
    assert capfd.readouterr() == ("", "")
    infos = {(i.description, i.modality): i.slices for i in list_series(tmp_path)}
    assert infos == {
        ("chest", "CT"): 20,
        ("", "MR"): 20,
        ("bolus tracking", "CT"): 3,
        ("", "CT"): 0,
    }


def test_several_ct_series_must_be_chosen_from(tmp_path):
    write_linear_series(tmp_path, POSITIONS, SeriesDescription="soft", SeriesInstanceUID="1.2.3.4")
    higher = POSITIONS + np.array((0, 0, 7))
    lung = write_linear_series(
        tmp_path, higher, SeriesDescription="lung", SeriesInstanceUID="1.2.3.5"
    )
    with pytest.raises(VolumeError) as refusal:
        Volume.read(tmp_path)
    assert "1.2.3.4 (soft, CT, 20 slices)" in str(refusal.value)
    assert "1.2.3.5 (lung, CT, 20 slices)" in str(refusal.value)
    assert Volume.read(tmp_path, series="1.2.3.4").ijk_to_ras[2, 3] == -35
    assert Volume.read(tmp_path, series="1.2.3.5").ijk_to_ras[2, 3] == -28
    assert Volume.read(lung[5]).ijk_to_ras[2, 3] == -28
    with pytest.raises(VolumeError, match=r"contains no series 9\.9.*1\.2\.3\.4 \(soft"):
        Volume.read(tmp_path, series="9.9")
    spacings = [info.spacing for info in list_series(tmp_path)]
    np.testing.assert_allclose(spacings, [(3.0, 3.2, 3.5)] * 2, atol=1e-6)


def test_a_localizer_or_reformat_inside_the_series_is_left_out(tmp_path):
    write_linear_series(tmp_path, POSITIONS, SeriesInstanceUID="1.2.3.4")
    write_linear_series(
        tmp_path, POSITIONS[:1], SeriesInstanceUID="1.2.3.4", ImageType=["LOCALIZER"]
    )
    write_linear_series(tmp_path, POSITIONS[:2], (1, 0, 0, 0, 0, -1), SeriesInstanceUID="1.2.3.4")
    volume = Volume.read(tmp_path)
    assert volume.notes == ("2 slices of another size or orientation were left out",)
    assert_true_everywhere(volume)


def test_doubles_are_noted_and_mixed_phases_refused(tmp_path):
    files = write_linear_series(tmp_path / "a", POSITIONS, SeriesInstanceUID="1.2.3.4")
    for file in files:
        file.with_suffix(".copy.dcm").write_bytes(file.read_bytes())
    assert Volume.read(tmp_path / "a").notes == ("20 duplicate slices were left out",)
    write_linear_series(tmp_path / "a", POSITIONS[6:7], SeriesInstanceUID="1.2.3.4")
    volume = Volume.read(tmp_path / "a")
    assert "1 slices at the position of another slice were left out" in volume.notes
    assert_true_everywhere(volume)
    write_linear_series(tmp_path / "a", POSITIONS, SeriesInstanceUID="1.2.3.4")
    with pytest.raises(VolumeError, match="mixes phases"):
        Volume.read(tmp_path / "a")


def write_phases(folder, tags_of_phases, numbers=None):
    """Write one series whose positions occur once in each phase; the second phase shows 100 HU more than the first."""
    for phase, tags in enumerate(tags_of_phases):
        files = write_linear_series(
            folder,
            POSITIONS,
            SeriesInstanceUID="1.2.3.4",
            rescale=[(1.0, -1024.0)] * 20,
            SeriesDescription="liver",
        )
        for slice_number, file in enumerate(files):
            dataset = pydicom.dcmread(file)
            dataset.RescaleIntercept = -1024.0 + 100 * phase
            for keyword, value in tags.items():
                setattr(dataset, keyword, value)
            if numbers is not None:
                dataset.InstanceNumber = numbers(phase, slice_number)
            dataset.save_as(file)


@pytest.mark.parametrize(
    ("tags", "numbers", "names"),
    [
        (
            [{"ConvolutionKernel": "B30f"}, {"ConvolutionKernel": "B60f"}],
            None,
            ["kernel B30f", "kernel B60f"],
        ),
        ([{}, {}], lambda phase, n: 1 + 2 * n + phase, ["part 1", "part 2"]),
        # a program that removes names has emptied the UIDs of the images, too
        (
            [{"AcquisitionNumber": number, "SOPInstanceUID": ""} for number in (1, 2)],
            None,
            ["acquisition 1", "acquisition 2"],
        ),
    ],
    ids=["kernel", "in turn", "no UIDs of images"],
)
def test_each_phase_of_a_series_is_a_series_of_its_own(tmp_path, tags, numbers, names):
    write_phases(tmp_path, tags, numbers)
    infos = sorted(list_series(tmp_path), key=lambda info: info.uid)
    assert [info.uid for info in infos] == ["1.2.3.4-1", "1.2.3.4-2"]
    assert [info.description for info in infos] == [f"liver, {name}" for name in names]
    assert [info.slices for info in infos] == [20, 20]
    with pytest.raises(VolumeError) as refusal:
        Volume.read(tmp_path)
    assert f"1.2.3.4-2 (liver, {names[1]}, CT, 20 slices)" in str(refusal.value)
    first, second = (Volume.read(tmp_path, series=info.uid) for info in infos)
    assert_true_everywhere(first)
    np.testing.assert_array_equal(second.voxels, first.voxels + 100)


def test_acquisitions_of_one_place_are_never_mixed_and_neighbouring_acquisitions_are_one_volume(
    tmp_path,
):
    tags = {"SeriesInstanceUID": "1.2.3.4", "AcquisitionNumber": 1}
    write_linear_series(tmp_path / "two", POSITIONS, **tags)
    write_linear_series(
        tmp_path / "two", POSITIONS + (0, 0, 1.75), **tags | {"AcquisitionNumber": 2}
    )
    assert sorted(info.slices for info in list_series(tmp_path / "two")) == [20, 20]
    write_linear_series(tmp_path / "one", POSITIONS, **tags)
    write_linear_series(tmp_path / "one", POSITIONS + (0, 0, 70), **tags | {"AcquisitionNumber": 2})
    assert Volume.read(tmp_path / "one").shape[0] == 40


def test_the_phases_of_a_folder_are_found_as_scans(tmp_path):
    frame = {"FrameOfReferenceUID": "1.2.3"}
    phases = [{"AcquisitionNumber": number} | frame for number in (1, 2)]
    write_phases(tmp_path / "liver", phases)
    sources = find_scans([tmp_path], print)
    assert list(sources) == ["liver_1", "liver_2"]
    first, second = sources.values()
    np.testing.assert_array_equal(second.read().voxels, first.read().voxels + 100)
    assert read_scan(second.label).voxels.max() == second.read().voxels.max()
    headers = map(pydicom.dcmread, (tmp_path / "liver").iterdir())
    acquisitions = {header.SOPInstanceUID: header.AcquisitionNumber for header in headers}
    for number, source in enumerate((first, second), start=1):
        assert [acquisitions[header.SOPInstanceUID] for header in source_of(source).slices] == [
            number
        ] * 20


@pytest.mark.parametrize(
    ("positions", "tags", "message"),
    [
        (
            POSITIONS[:1],
            {"NumberOfFrames": 20, "PixelData": bytes(20 * 26 * 28 * 2)},
            "multi-frame",
        ),
        (POSITIONS[:9], {}, "has only 9 slices"),
        (POSITIONS + np.arange(20)[:, None] ** 2 * (0.1, 0, 0), {}, "off a straight line"),
        (POSITIONS, {"ImageOrientationPatient": [1, 0, 0, 1, 0, 0]}, "are not perpendicular"),
    ],
    ids=["enhanced", "few", "bent", "orientation"],
)
def test_other_series_are_refused(tmp_path, positions, tags, message):
    write_linear_series(tmp_path, positions, **tags)
    with pytest.raises(VolumeError, match=message) as refusal:
        Volume.read(tmp_path)
    assert str(tmp_path) in str(refusal.value)
