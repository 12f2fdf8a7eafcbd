"""Test the names, sizes and contents of uploads, without a browser."""

import asyncio
import zipfile
from concurrent.futures import ThreadPoolExecutor

import pytest

pytest.importorskip(
    "trame_slicer",
    reason="runs in an environment with trame-slicer[standalone]; `make test` makes it",
)

from aiohttp import FormData, web
from aiohttp.test_utils import TestClient, TestServer
from AnatomicalEmbeddingViewer.web.guard import Guard
from AnatomicalEmbeddingViewer.web.uploads import read_files, readable_name, receive, unzip
from scan_files import stack_positions, write_linear_series

from AnatomicalEmbedding.errors import VolumeError


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
def test_names_hold_no_path_and_no_markup(sent, kept):
    assert readable_name(sent) == kept


def zipped(path, entries: dict[str, bytes]):
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in entries.items():
            archive.writestr(name, content)
    return path


@pytest.fixture
def target(tmp_path):
    folder = tmp_path / "upload-1"
    folder.mkdir()
    return folder


def test_a_zip_stays_in_its_folder(tmp_path, target):
    names = [
        "../a.nii",
        "/etc/a.nii",
        "x/../../a.nii",
        "c:/a.nii",
        "x\\a.nii",
        ".hidden",
        "__MACOSX/._a.nii",
    ]
    unzip(zipped(tmp_path / "a.zip", dict.fromkeys(names, b"x")), target)
    assert sorted(path.name for path in tmp_path.rglob("*.nii")) == [
        f"{n:05d}.nii" for n in range(1, 6)
    ]
    assert {path.parent for path in tmp_path.rglob("*.nii")} == {target}


def test_a_zip_with_a_damaged_entry_is_said_to_be_damaged(tmp_path, target):
    """The decompressor of bzip2 raises an OSError, as a full disk does."""
    path = tmp_path / "a.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_BZIP2) as archive:
        archive.writestr("a.nii", bytes(range(256)) * 2000)
    content = bytearray(path.read_bytes())
    content[60:160] = bytes(100)
    path.write_bytes(content)
    with pytest.raises(VolumeError, match="zip is damaged"):
        unzip(path, target)


def test_a_cancelled_upload_leaves_nothing(target):
    zipped(target / "00001.zip", {"a.nii": b"x", "b.nii": b"x"})
    assert read_files(target, ["a.zip"], lambda: True) == []
    assert not target.exists()


def test_an_upload_without_a_folder_is_a_sentence(tmp_path):
    with ThreadPoolExecutor() as apart:
        answer = apart.submit(asyncio.run, _post(tmp_path / "removed", b"x")).result()
    assert answer.startswith("The files could not be stored")


def test_a_zip_that_is_too_large_unpacked_is_refused(tmp_path, target):
    bomb = zipped(tmp_path / "a.zip", {"a.nii": b"\0" * 5_000_000})
    assert bomb.stat().st_size < 10_000
    with pytest.raises(VolumeError, match="larger"):
        unzip(bomb, target, bytes_limit=1_000_000)


def test_an_image_that_claims_too_many_voxels_is_refused(target):
    (target / "00001.mha").write_bytes(
        b"ObjectType = Image\nNDims = 3\nDimSize = 60000 60000 60000\nElementType = MET_SHORT\n"
        b"ElementSpacing = 1 1 1\nElementDataFile = LOCAL\n"
    )
    with pytest.raises(VolumeError, match=r"large\.mha: the header states"):
        read_files(target, ["large.mha"], lambda: False)


def test_dicom_that_claims_too_many_pixels_is_refused(target):
    paths = write_linear_series(
        target, stack_positions((-40, -42, -35), (0, 0, 3.5), range(20)), Rows=65_000
    )
    names = [path.rename(target / f"{number:05d}.dcm").name for number, path in enumerate(paths, 1)]
    with pytest.raises(VolumeError) as caught:
        read_files(target, names, lambda: False)
    assert str(target) not in str(caught.value)


@pytest.mark.parametrize(("slices", "modality"), [(1, "CT"), (20, "MR")])
def test_a_ct_is_read_with_a_scout_or_another_modality_next_to_it(target, slices, modality):
    paths = []
    for count, kind in ((20, "CT"), (slices, modality)):
        positions = stack_positions((-40, -42, -35), (0, 0, 3.5), range(count))
        paths += write_linear_series(target, positions, Modality=kind)
    names = [path.rename(target / f"{number:05d}.dcm").name for number, path in enumerate(paths, 1)]
    (volume,) = read_files(target, names, lambda: False)
    assert volume.shape == (20, 26, 28)


def test_a_full_disk_is_a_sentence_and_leaves_nothing(tmp_path, target):
    """In the upload itself, and in the unpacked files of a zip."""
    resource = pytest.importorskip("resource")
    path = zipped(tmp_path / "a.zip", {"a.nii": bytes(100_000)})
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, hard))
    try:
        with pytest.raises(VolumeError, match="free some space on the viewer's disk"):
            unzip(path, target)
        # a browser of another test may have its event loop in this thread
        with ThreadPoolExecutor() as apart:
            answer = apart.submit(asyncio.run, _post(target, bytes(100_000))).result()
        assert answer.startswith("The files could not be stored; free some space")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    # of the zip; removed with the upload
    assert [each.name for each in target.iterdir()] == ["00001.nii"]


async def _post(folder, content: bytes) -> str:
    """Send a file to `receive`; returns its error."""

    async def answer(request):
        with pytest.raises(VolumeError) as caught:
            await receive(request, folder)
        return web.Response(text=str(caught.value))

    app = web.Application()
    app.router.add_post("/upload", answer)
    form = FormData()
    form.add_field("file", content, filename="a.nii")
    async with TestClient(TestServer(app)) as client, client.post("/upload", data=form) as response:
        return await response.text()


def test_each_viewer_has_a_random_token():
    tokens = {Guard("127.0.0.1").token for _ in range(5)}
    assert len(tokens) == 5
    assert all(len(token) >= 32 for token in tokens)
