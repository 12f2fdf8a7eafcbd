"""Names, sizes and contents of uploads, without a browser; and what the guard lets in."""

import asyncio
import hmac
import zipfile
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

pytest.importorskip("trame_slicer", reason="runs in an environment with trame-slicer[standalone]; `make test` makes it")

from aiohttp import FormData, web
from aiohttp.test_utils import TestClient, TestServer, make_mocked_request
from AnatomicalEmbeddingViewer.logic.session import Limits
from AnatomicalEmbeddingViewer.web.guard import Guard
from AnatomicalEmbeddingViewer.web.uploads import (
    UploadError,
    check_self_contained,
    check_slices,
    make_reader,
    receive,
    safe_name,
    unzip,
)
from scan_files import stack_positions, write_linear_series

from AnatomicalEmbedding.errors import VolumeError
from AnatomicalEmbedding.phantom import make_phantom


@pytest.mark.parametrize(
    ("sent", "kept"),
    [
        ("../../etc/passwd", "passwd"),
        ("C:\\scans\\a b.nii.gz", "a b.nii.gz"),
        ("/abs/x.nrrd", "x.nrrd"),
        ("..", "file"),
        ("a\x00b<script>.mha", "a_b_script_.mha"),
    ],
)
def test_names_are_only_names(sent, kept):
    assert safe_name(sent) == kept


def zipped(path, entries: dict[str, bytes]):
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in entries.items():
            archive.writestr(name, content)
    return path


@pytest.mark.parametrize("name", ["../a.nii", "/etc/a.nii", "x/../../a.nii", "c:/a.nii", "..\\a.nii"])
def test_a_zip_stays_in_its_folder(tmp_path, name):
    target = tmp_path / "target"
    target.mkdir()
    with pytest.raises(UploadError, match="outside"):
        unzip(zipped(tmp_path / "a.zip", {name: b"x"}), target, Limits())
    assert not list(target.iterdir())


def test_a_zip_bomb_is_refused(tmp_path):
    target = tmp_path / "target"
    target.mkdir()
    bomb = zipped(tmp_path / "a.zip", {"a.nii": b"\0" * 5_000_000})
    assert bomb.stat().st_size < 10_000
    with pytest.raises(UploadError, match="larger"):
        unzip(bomb, target, Limits(upload_bytes=1_000_000))
    with pytest.raises(UploadError, match="files"):
        unzip(zipped(tmp_path / "b.zip", {f"{n}": b"x" for n in range(9)}), target, Limits(files=8))


def test_an_image_that_claims_too_much_is_refused(tmp_path):
    path = tmp_path / "a.mha"
    path.write_bytes(
        b"ObjectType = Image\nNDims = 3\nDimSize = 60000 60000 60000\nElementType = MET_SHORT\n"
        b"ElementSpacing = 1 1 1\nElementDataFile = LOCAL\n"
    )
    with pytest.raises(UploadError, match="claims"):
        check_self_contained(path, Limits())


def write_slice(path, rows: int, columns: int) -> None:
    """A small file that claims to be an image of that size."""
    import pydicom
    import SimpleITK as sitk

    sitk.WriteImage(sitk.Image([4, 4], sitk.sitkInt16), str(path))
    claimed = pydicom.dcmread(path)
    claimed.Rows, claimed.Columns = rows, columns
    claimed.save_as(path)


@pytest.mark.parametrize(
    ("rows", "columns", "sentence"), [(65_000, 65_000, "65000 × 65000 pixels"), (2000, 2000, "together"), (10, 10, "")]
)
def test_dicom_that_claims_too_much_is_refused(tmp_path, rows, columns, sentence):
    pytest.importorskip("pydicom")
    for number in range(3):
        write_slice(tmp_path / f"{number}.dcm", rows, columns)
    limits = Limits(voxel_bytes=20_000_000)
    if sentence:
        with pytest.raises(UploadError, match=sentence):
            check_slices(tmp_path, limits)
    else:
        check_slices(tmp_path, limits)


def test_a_stray_file_beside_a_scan_is_what_is_reported(tmp_path):
    folder = tmp_path / "upload-1"
    folder.mkdir()
    make_phantom(74, (8.0, 8.0, 10.0), (200.0, 420.0)).volume.write(folder / "00001.nii.gz")
    (folder / "00002.dcm").write_text("no scan at all")
    with pytest.raises(VolumeError, match=r"a\.nii\.gz and 1 more: some of it is no scan; send NIfTI"):
        make_reader(folder, ["a.nii.gz", "notes.txt"], Limits())(lambda: False)


def sent_series(folder, second: np.ndarray, **tags) -> list[str]:
    """Names of the files of a CT of 20 slices and of another series of the same study."""
    first = stack_positions((-40, -42, -35), (0, 0, 3.5), range(20))
    paths = write_linear_series(folder, first, StudyInstanceUID="1.2")
    paths += write_linear_series(folder, second, StudyInstanceUID="1.2", **tags)
    return [path.rename(folder / f"{number:05d}.dcm").name for number, path in enumerate(paths, 1)]


@pytest.mark.parametrize(("slices", "modality"), [(1, "CT"), (20, "MR")])
def test_a_ct_is_read_with_a_scout_or_another_modality_next_to_it(tmp_path, slices, modality):
    second = stack_positions((-40, -42, -35), (0, 0, 3.5), range(slices))
    names = sent_series(tmp_path / "upload-1", second, Modality=modality)
    ((volume, origin),) = make_reader(tmp_path / "upload-1", names, Limits())(lambda: False)
    assert volume.shape == (20, 26, 28)
    assert [path.parent for path in tmp_path.rglob("*.dcm")] == [origin.kept] * 20


def test_a_refused_upload_leaves_no_headers(tmp_path):
    """Of the series that could be read."""
    block_missing = stack_positions((-40, -42, -35), (0, 0, 3.5), [*range(8), *range(20, 31)])
    names = sent_series(tmp_path / "upload-1", block_missing)
    with pytest.raises(VolumeError, match="missing between"):
        make_reader(tmp_path / "upload-1", names, Limits())(lambda: False)
    assert not list(tmp_path.iterdir())


def test_a_full_disk_is_reported_and_leaves_nothing(tmp_path):
    """Of the upload itself, and of what is in a zip."""
    resource = pytest.importorskip("resource")
    path = zipped(tmp_path / "a.zip", {"a.nii": bytes(100_000)})
    (tmp_path / "target").mkdir()
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, hard))
    try:
        with pytest.raises(UploadError, match="no room"):
            unzip(path, tmp_path / "target", Limits())
        with ThreadPoolExecutor() as apart:  # a browser of another test may have its event loop in this thread
            said = apart.submit(asyncio.run, posted(tmp_path / "target", bytes(100_000))).result()
        assert said == "There is no room for these files"
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert [each.name for each in (tmp_path / "target").iterdir()] == ["00001.nii"]  # whose folder the reader removes


async def posted(folder, content: bytes) -> str:
    """The start of what `receive` says of a file that a page sends."""

    async def answer(request):
        try:
            await receive(request, folder, Limits())
        except UploadError as error:
            return web.Response(text=str(error)[:32])

    app = web.Application()
    app.router.add_post("/upload", answer)
    form = FormData()
    form.add_field("file", content, filename="a.nii")
    async with TestClient(TestServer(app)) as client, client.post("/upload", data=form) as response:
        return await response.text()


def test_the_token_is_compared_in_constant_time(monkeypatch):
    """Nothing but hmac.compare_digest decides."""
    compared = []
    monkeypatch.setattr(hmac, "compare_digest", lambda given, own: compared.append((given, own)) or len(compared) > 1)
    request = make_mocked_request("GET", "/alive?token=x", headers={"Host": "127.0.0.1:1"})
    guard = Guard("127.0.0.1", "secret")
    assert guard._refusal(request).startswith("No token, or a wrong one")
    assert guard._refusal(request) is None
    assert compared == [(b"x", b"secret")] * 2


def test_a_random_token_each_time():
    tokens = {Guard("127.0.0.1").token for _ in range(5)}
    assert len(tokens) == 5
    assert all(len(token) >= 32 for token in tokens)
