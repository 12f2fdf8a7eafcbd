"""Test scans that are added or removed while the page is open: good and bad uploads, and the grid of scans."""

import zipfile

import pytest

pytest.importorskip(
    "trame_slicer",
    reason="runs in an environment with trame-slicer[standalone]; `make test` makes it",
)

from scan_files import stack_positions, write_linear_series


@pytest.fixture(scope="module")
def dicom_folder(tmp_path_factory):
    """A folder with a CT series two folders down."""
    folder = tmp_path_factory.mktemp("dicom") / "case"
    write_linear_series(
        folder / "study" / "series", stack_positions((-40, -42, -35), (0, 0, 3.5), range(20))
    )
    return folder


def check_added(page, name: str, size: str) -> None:
    """Wait for an upload, check its voxels and spacing, and remove it again."""
    page.page.locator(f"li[data-scan='{name}']").wait_for()
    assert page.page.locator(f"li[data-scan='{name}'] input.name").get_attribute("title") == size
    page.remove(name)


def test_a_dropped_file_is_added(page, short_scan, tmp_path):
    short_scan.write(tmp_path / "dropped.nrrd")
    page.drop(tmp_path / "dropped.nrrd")
    spacing = " × ".join(f"{mm:.3g}" for mm in short_scan.spacing)
    check_added(
        page, "dropped", f"{' × '.join(map(str, short_scan.shape[::-1]))} voxels of {spacing} mm"
    )


def test_a_zip_and_a_folder_of_dicom_are_added(page, dicom_folder, tmp_path):
    size = "28 × 26 × 20 voxels of 3 × 3.2 × 3.5 mm"
    with zipfile.ZipFile(tmp_path / "case.zip", "w") as archive:
        for path in dicom_folder.rglob("*.dcm"):
            archive.write(path, path.relative_to(dicom_folder))
    page.send(tmp_path / "case.zip")
    check_added(page, "case", size)
    page.send_folder(dicom_folder)
    check_added(page, "DICOM", size)
    page.drop(dicom_folder)
    check_added(page, "DICOM", size)


@pytest.mark.parametrize(
    ("name", "content", "sentence"),
    [
        ("notes.txt", b"no scan at all", "notes.txt: this is not a complete scan; send NIfTI"),
        ("broken.nii.gz", b"\x1f\x8b broken", "broken.nii.gz"),
        (
            "elsewhere.mha",
            b"ObjectType = Image\nNDims = 3\nElementDataFile = /etc/passwd\n",
            "in another file",
        ),
        (
            "elsewhere.nrrd",
            b"NRRD0004\ntype: short\ndimension: 3\ndata file: /etc/passwd\n\n",
            "in another file",
        ),
        ("broken.zip", b"PK\x03\x04 not a zip", "zip is damaged"),
    ],
)
def test_a_bad_upload_is_a_sentence_and_leaves_nothing(page, tmp_path, name, content, sentence):
    before = page.names()
    (tmp_path / name).write_bytes(content)
    page.send(tmp_path / name)
    text = page.wait_sentence(sentence)
    assert "/tmp" not in text
    assert str(page.running.temporary) not in text
    assert page.names() == before
    page.dismiss_all()
    page.wait("!document.querySelector('[data-test=work]')")
    assert not list(page.running.temporary.glob("anatemb-view-*/upload-*"))


def test_a_scan_with_points_of_its_own_is_removed_after_a_question(page, short_scan, tmp_path):
    short_scan.write(tmp_path / "kept.mha")
    page.send(tmp_path / "kept.mha")
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
    assert "kept" in page.names()
    assert "Its points (1) are removed too" in asked[0]
    page.page.once("dialog", lambda dialog: dialog.accept())
    page.remove("kept")
    assert page.points() == []
