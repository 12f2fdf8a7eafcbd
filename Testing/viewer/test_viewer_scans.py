"""Scans that come and go while the page is open: uploads, good and bad; rows and grids; windows; the crosshair."""

import zipfile

import numpy as np
import pytest

pytest.importorskip("trame_slicer", reason="runs in an environment with trame-slicer[standalone]; `make test` makes it")


def names(page) -> list[str]:
    return page.page.eval_on_selector_all("li[data-scan]", "all => all.map((each) => each.dataset.scan)")


def remove(page, name: str) -> None:
    page.page.click(f"li[data-scan='{name}'] > button")
    page.wait(f"!document.querySelector(\"li[data-scan='{name}']\")")


def write_dicom(folder, volume) -> None:
    """A CT series of a volume's slices."""
    import pydicom
    from pydicom.dataset import FileDataset, FileMetaDataset
    from pydicom.uid import ExplicitVRLittleEndian, generate_uid

    lps = np.diag([-1.0, -1.0, 1.0, 1.0]) @ volume.ijk_to_ras
    columns = lps[:3, :3] / np.linalg.norm(lps[:3, :3], axis=0)
    study, series, frame = generate_uid(), generate_uid(), generate_uid()
    for k, voxels in enumerate(volume.voxels):
        meta = FileMetaDataset()
        meta.MediaStorageSOPClassUID = "1.2.840.10008.5.1.4.1.1.2"
        meta.MediaStorageSOPInstanceUID = generate_uid()
        meta.TransferSyntaxUID = ExplicitVRLittleEndian
        each = FileDataset("", {}, file_meta=meta, preamble=b"\0" * 128)
        each.SOPClassUID, each.SOPInstanceUID = meta.MediaStorageSOPClassUID, meta.MediaStorageSOPInstanceUID
        each.StudyInstanceUID, each.SeriesInstanceUID, each.FrameOfReferenceUID = study, series, frame
        each.Modality, each.PatientID, each.InstanceNumber = "CT", "synthetic", k + 1
        each.ImagePositionPatient = [float(x) for x in lps[:3, 3] + k * lps[:3, 2]]
        each.ImageOrientationPatient = [float(x) for x in (*columns[:, 0], *columns[:, 1])]
        each.PixelSpacing = [float(volume.spacing[1]), float(volume.spacing[0])]
        each.SliceThickness = float(volume.spacing[2])
        each.Rows, each.Columns = voxels.shape
        each.SamplesPerPixel, each.PhotometricInterpretation = 1, "MONOCHROME2"
        each.BitsAllocated, each.BitsStored, each.HighBit, each.PixelRepresentation = 16, 16, 15, 1
        each.RescaleIntercept, each.RescaleSlope = 0, 1
        each.PixelData = np.asarray(voxels, dtype="<i2").tobytes()
        pydicom.dcmwrite(folder / f"{k}.dcm", each, enforce_file_format=True)


@pytest.fixture(scope="module")
def short_scan():
    """A synthetic torso of few voxels."""
    from AnatomicalEmbedding.phantom import make_phantom

    return make_phantom(74, spacing=(5.0, 5.0, 8.0), coverage_mm=(200.0, 420.0)).volume


@pytest.fixture(scope="module")
def dicom_folder(short_scan, tmp_path_factory):
    """A folder with a CT series two folders down."""
    pytest.importorskip("pydicom")
    folder = tmp_path_factory.mktemp("dicom") / "case"
    (folder / "study" / "series").mkdir(parents=True)
    write_dicom(folder / "study" / "series", short_scan)
    return folder


def taken(page, name: str, volume) -> None:
    """Wait until the scan is embedded, check that it has the volume's voxels and spacing, and remove it again."""
    page.wait_ready(3)
    assert names(page)[-1] == name
    about = page.page.locator(f"li[data-scan='{name}'] input.name").get_attribute("title")
    spacing = " × ".join(f"{mm:.3g}" for mm in volume.spacing)
    assert about == f"{' × '.join(map(str, volume.shape[::-1]))} voxels of {spacing} mm"
    remove(page, name)


@pytest.mark.parametrize("suffix", [".nrrd", ".mha"])
def test_upload_of_one_file(page, short_scan, tmp_path, suffix):
    short_scan.write(tmp_path / f"single{suffix}")
    page.send(tmp_path / f"single{suffix}")
    taken(page, "single", short_scan)


def test_upload_of_a_dicom_zip(page, short_scan, dicom_folder, tmp_path):
    with zipfile.ZipFile(tmp_path / "case.zip", "w") as archive:
        for path in dicom_folder.rglob("*.dcm"):
            archive.write(path, path.relative_to(dicom_folder))
    page.send(tmp_path / "case.zip")
    taken(page, "case", short_scan)


def test_upload_of_a_dicom_folder(page, short_scan, dicom_folder):
    page.send_folder(dicom_folder)
    taken(page, "DICOM", short_scan)


def test_a_dropped_file(page, short_scan, tmp_path):
    short_scan.write(tmp_path / "fallen.nii.gz")
    page.drop(tmp_path / "fallen.nii.gz")
    taken(page, "fallen", short_scan)


def test_a_dropped_dicom_folder(page, short_scan, dicom_folder):
    page.drop(dicom_folder)
    taken(page, "DICOM", short_scan)


def test_upload_of_several_files_at_once_and_the_grid(page, scan_files, pictures, tmp_path):
    copies = [tmp_path / f"extra{n}.nii.gz" for n in range(3)]
    for n, copy in enumerate(copies):
        copy.write_bytes(scan_files[n % 2].read_bytes())
    page.send(*copies)
    page.wait_ready(5)
    page.wait("document.querySelectorAll('.cell').length === 5")  # one view each of more than four scans
    page.page.screenshot(path=pictures / "grid.png")
    page.press("rows")
    page.wait("document.querySelectorAll('.cell').length === 15")
    for copy in copies:
        remove(page, copy.name.removesuffix(".nii.gz"))
    page.wait("document.querySelectorAll('.cell').length === 6")
    page.wait_ready(2)


@pytest.mark.parametrize(
    ("name", "content", "sentence"),
    [
        ("notes.txt", b"no scan at all", "notes.txt: no scan was found; send NIfTI"),
        ("broken.nii.gz", b"\x1f\x8b broken", "broken.nii.gz"),
        ("elsewhere.mha", b"ObjectType = Image\nNDims = 3\nElementDataFile = /etc/passwd\n", "in another file"),
        ("elsewhere.nrrd", b"NRRD0004\ntype: short\ndimension: 3\ndata file: /etc/passwd\n\n", "in another file"),
        ("broken.zip", b"PK\x03\x04 not a zip", "zip is damaged"),
    ],
)
def test_a_bad_upload_is_a_sentence_and_changes_nothing(page, tmp_path, name, content, sentence):
    before = names(page)
    (tmp_path / name).write_bytes(content)
    page.send(tmp_path / name)
    text = page.wait_sentence(sentence)
    assert "/tmp" not in text
    assert str(page.running.temporary) not in text
    assert names(page) == before
    page.dismiss_all()


def test_a_zip_that_names_files_outside_itself_is_refused(page, tmp_path):
    with zipfile.ZipFile(tmp_path / "evil.zip", "w") as archive:
        archive.writestr("../../evil.nii", b"x")
    page.send(tmp_path / "evil.zip")
    page.wait_sentence("names files outside itself")
    page.dismiss_all()
    assert not list(tmp_path.parent.glob("**/evil.nii"))


def test_what_was_uploaded_does_not_stay_on_disk(page):
    page.wait("!document.querySelector('[data-test=work]')")
    assert not list(page.running.temporary.glob("anatemb-view-*/upload-*"))


def test_the_page_answers_while_a_large_scene_is_written(page, short_scan, tmp_path):
    from AnatomicalEmbedding import Volume

    voxels = short_scan.voxels.repeat(6, 0).repeat(6, 1).repeat(6, 2)
    voxels += np.random.default_rng(3).integers(-60, 60, voxels.shape, np.int16)  # noise takes seconds to compress
    Volume(voxels, short_scan.ijk_to_ras @ np.diag([1 / 6, 1 / 6, 1 / 6, 1])).write(tmp_path / "large.nii")
    page.send(tmp_path / "large.nii")
    page.page.locator("li[data-scan=large]").wait_for()
    page.press("cancel")
    page.press("export")
    with page.page.expect_download() as waiting:
        page.page.click("[data-test=export-scene]")
        told = page.page.locator("[data-test=exporting]")
        told.wait_for()
        assert "for Slicer" in told.inner_text()
        page.press("grid")
        page.wait("document.querySelectorAll('.cell').length === 3")
        assert told.is_visible()  # the server has answered before it has written all
    with zipfile.ZipFile(waiting.value.path()) as archive:
        assert max(entry.file_size for entry in archive.infolist()) > 0.25 * voxels.nbytes
    told.wait_for(state="detached")
    page.press("rows")
    remove(page, "large")
    page.wait("document.querySelectorAll('.cell').length === 6")
    page.wait_ready(2)


def test_windows_are_those_of_all_scans(page, pictures):
    page.watch_pictures()
    page.page.click("text=Lung")
    page.wait("window.pictures.scan0axial > 0 && window.pictures.scan1axial > 0")
    page.page.screenshot(path=pictures / "lung.png")
    page.page.click("text=Soft tissue")


def test_the_wheel_and_the_slider_show_another_slice(page):
    at = "Number(document.querySelector('[data-view=scan0axial] .slice').value)"
    before = page.page.evaluate(at)
    page.page.mouse.move(*page.at("scan0axial", 0.5, 0.5))
    page.page.mouse.wheel(0, -300)
    page.wait(f"{at} !== {before}")
    page.page.locator("[data-view=scan0axial] .slice").evaluate(
        "(slider) => { slider.value = slider.min; slider.dispatchEvent(new Event('input')); }"
    )
    page.wait("window.trame.state.get('slices').scan0axial.value === window.trame.state.get('slices').scan0axial.min")
    page.press("fit")
    page.wait("window.trame.state.get('slices').scan0axial.value !== window.trame.state.get('slices').scan0axial.min")


def test_one_view_alone_and_all_again(page):
    page.page.click("[data-view=scan1coronal] .corner")
    page.wait("document.querySelectorAll('.cell').length === 1")
    page.page.click(".corner")
    page.wait("document.querySelectorAll('.cell').length === 6")


def test_the_crosshair_moves_the_other_scan(page, pictures):
    page.place_mode(False)
    page.press("crosshair")
    page.wait("document.querySelector('[data-test=crosshair]').classList.contains('on')")
    page.page.mouse.move(*page.at("scan0coronal", 0.5, 0.25))
    page.page.wait_for_timeout(1000)
    page.watch_pictures()
    slices = "window.trame.state.get('slices').scan1axial.value"
    for down in (0.35, 0.5, 0.65):  # a hand's breadth each: the matched slice is another one every time
        before = page.page.evaluate(slices)
        page.page.mouse.move(*page.at("scan0coronal", 0.5, down))
        page.wait(f"{slices} !== {before}")
    page.wait("window.pictures.scan1axial > 0")
    page.wait("window.pictures.scan0axial > 0")  # the other views of the scan under the mouse follow too
    assert page.page.evaluate("window.pictures.scan0coronal") == 0  # and the one under it stays
    page.page.screenshot(path=pictures / "crosshair.png")
    page.press("crosshair")
    page.wait("!document.querySelector('[data-test=crosshair]').classList.contains('on')")


def test_the_crosshair_can_be_switched_off_in_one_view_alone(page):
    page.press("crosshair")
    page.page.click("[data-view=scan1coronal] .corner")
    page.wait("document.querySelectorAll('.cell').length === 1")
    page.press("crosshair")
    page.wait("!document.querySelector('[data-test=crosshair]').classList.contains('on')")
    page.page.click(".corner")
    page.wait("document.querySelectorAll('.cell').length === 6")


def test_a_scan_with_points_of_its_own_is_not_taken_out_unasked(page, short_scan, tmp_path):
    short_scan.write(tmp_path / "kept.nii.gz")
    page.send(tmp_path / "kept.nii.gz")
    page.wait_ready(3)
    page.page.check("li[data-scan=kept] input[type=radio]")
    page.add_point("scan2axial", 0.5, 0.5)
    page.place_mode(False)
    asked = []

    def dismiss(dialog):
        asked.append(dialog.message)
        dialog.dismiss()

    page.page.once("dialog", dismiss)
    page.page.click("li[data-scan=kept] > button")
    page.page.wait_for_timeout(300)
    assert "kept" in names(page)
    assert len(page.points()) == 1
    assert "The points placed in it (1)" in asked[0]
    page.page.once("dialog", lambda dialog: dialog.accept())
    remove(page, "kept")
    assert page.points() == []


@pytest.mark.long
def test_clicks_and_uploads_leave_memory_bounded(page, scan_files, tmp_path):
    """A short form of Testing/benchmarks/viewer_soak.py."""
    copy = tmp_path / "again.nii.gz"
    copy.write_bytes(scan_files[1].read_bytes())

    def turn(clicks: int) -> None:
        page.send(copy)
        page.wait_ready(3)
        for n in range(clicks):
            page.add_point("scan0axial", 0.4 + 0.02 * (n % 10), 0.45)
            page.page.click("[data-point] tr.point button")
            page.wait("document.querySelectorAll('[data-point]').length === 0")
        remove(page, "again")

    for _ in range(2):
        turn(8)
    before = page.running.memory_mb()
    for _ in range(6):
        turn(8)
    assert page.running.memory_mb() < before * 1.08 + 10
