"""Readers of scans and label maps, and of what the viewer is sent."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from random import Random

import numpy as np
import SimpleITK as sitk
from scan_files import linear_ct, stack_positions, write_linear_series

from AnatomicalEmbedding.scan.dicom import list_series
from AnatomicalEmbedding.scan.volume import Volume
from AnatomicalEmbedding.segmentation.files import read_segments, write_segments
from AnatomicalEmbedding.structures.label_names import KINDS
from AnatomicalEmbedding.structures.labelled_scans import load_cases
from fuzzing import mutations as change
from fuzzing.reader import Files, Reader, one_of, only


def _image(name: str, compress: bool) -> Callable[[Path], None]:
    def make(folder: Path) -> None:
        voxels, ijk_to_ras = linear_ct()
        sitk.WriteImage(Volume(voxels, ijk_to_ras).to_sitk(), str(folder / name), useCompression=compress)

    return make


def _image_header(data: bytes, draw: Random) -> change.Changed:
    """The text above the voxels."""
    ends = [data.find(mark) + len(mark) for mark in (b"\n\n", b"LOCAL\n") if mark in data[:4000]]
    end = min(ends, default=min(len(data), 400))
    head, done = change.mutated_text(data[:end], draw)
    return head + data[end:], done


def _nifti_field(data: bytes, draw: Random) -> change.Changed:
    """A field of the header, in the whole file's byte order; see nifti1.h."""
    import gzip
    import struct

    packed = data[:2] == b"\x1f\x8b"
    plain = bytearray(gzip.decompress(data) if packed else data)
    at, form = draw.choice(
        [*((40 + 2 * n, "<h") for n in range(8)), (0, "<i"), (70, "<h"), (72, "<h"), (252, "<h"), (254, "<h"),
         *((76 + 4 * n, "<f") for n in range(8)), (108, "<f"), (112, "<f"), (116, "<f"),
         *((256 + 4 * n, "<f") for n in range(18)), (344, "4s")]
    )  # fmt: skip
    values = {
        "<h": (0, -1, 1, 2, 7, 8, 16, 64, 128, 1024, 3000, 32767, -32768),
        "<i": (0, 540, -348, 2**31 - 1, 1_543_569_408),
        "<f": (0.0, -1.0, 0.5, 1.0, 3.5, 352.0, 1e9, 1e38, -1e38, 1e-38, float("nan"), float("inf")),
        "4s": (b"ni1\0", b"n+2\0", b"\0\0\0\0"),
    }  # fmt: skip
    value = draw.choice(values[form])
    struct.pack_into(form, plain, at, value)
    return gzip.compress(bytes(plain), 1) if packed else bytes(plain), f"header at {at} is {value}"


def _sheared(data: bytes, draw: Random) -> change.Changed:
    """Axes of a NIfTI's sform or quaternion that are not perpendicular, or of no length."""
    import gzip
    import struct

    packed = data[:2] == b"\x1f\x8b"
    plain = bytearray(gzip.decompress(data) if packed else data)
    struct.pack_into("<2h", plain, 252, draw.choice((0, 1)), draw.choice((0, 1, 2)))
    rows = np.diag((3.0, 3.2, 3.5)) + np.array(
        [[draw.choice((0.0, 0.003, 0.5, 3.0)) for _ in range(3)] for _ in range(3)]
    )
    if draw.random() < 0.3:
        rows[:, draw.randrange(3)] = 0.0
    struct.pack_into("<12f", plain, 280, *np.hstack([rows, [[-40.0], [-40.0], [-40.0]]]).ravel())
    return gzip.compress(bytes(plain), 1) if packed else bytes(plain), "sheared"


def _used_volume(volume: Volume) -> object:
    assert np.isfinite(volume.voxels).all()
    assert np.isfinite(volume.ijk_to_ras).all()
    assert np.isfinite(volume.bounds_ras).all()
    volume.sample(volume.bounds_ras.mean(axis=0)[None])
    return hash((volume.voxels.tobytes(), volume.ijk_to_ras.tobytes()))


def _use_image(folder: Path) -> object:
    return _used_volume(Volume.read(only(folder)))


def _dicom(compress: bool) -> Callable[[Path], None]:
    def make(folder: Path) -> None:
        slices = stack_positions((-33, -35, 0), (0, 0, 4.0), range(17))
        write_linear_series(folder, slices, size=(22, 23), compress=compress)
        for n, path in enumerate(sorted(folder.iterdir())):
            path.rename(folder / f"{n:02d}.dcm")

    return make


def _spoil_dicom(files: Files, draw: Random) -> str:
    kind = draw.choice(("one", "one", "one", "all", "mixed", "lost", "cut", "bytes"))
    names = sorted(files)
    name = draw.choice(names)
    if kind == "lost":
        gone = draw.sample(names, draw.choice((1, 2, 8, len(names))))
        for each in gone:
            del files[each]
        return f"{len(gone)} slices are lost"
    if kind == "mixed":
        for each in draw.sample(names, draw.choice((1, 8))):
            files[f"other-{each}"], done = change.dicom_element(files[each], draw)
        return f"some slices twice, {done}"
    if kind == "all":
        state, done = draw.getstate(), ""
        for each in names:
            draw.setstate(state)  # the same in each
            files[each], done = change.dicom_element(files[each], draw)
        return f"all: {done}"
    way = {"one": change.dicom_element, "cut": change.truncated, "bytes": change.mutated_bytes}[kind]
    files[name], done = way(files[name], draw)
    if len(files[name]) < 132:  # no DICOM file any more, so that the others are read without it
        return f"{name}: cut to {len(files[name])} bytes"
    return f"{name}: {done}"


def _use_dicom(folder: Path) -> object:
    for info in list_series(folder):
        assert info.uid is not None
    return _used_volume(Volume.read(folder))


def _make_labelled(folder: Path) -> None:
    voxels, ijk_to_ras = linear_ct()
    Volume(voxels, ijk_to_ras).write(folder / "scan.nii.gz")
    labels = np.zeros(voxels.shape, np.uint8)
    labels[6:18, 6:18, 6:18] = 1
    labels[8:14, 18:24, 6:18] = 2
    sitk.WriteImage(Volume(labels.astype(np.int16), ijk_to_ras).to_sitk(), str(folder / "scan.seg.nii.gz"), True)
    (folder / "scan.labels.json").write_text(json.dumps({"1": "liver", "2": "spleen"}))
    points = {"apex": [1.0, 2.0, 3.0], "carina": [4.0, 5.0, 6.0]}
    (folder / "scan.landmarks.json").write_text(json.dumps({"frame": "RAS", "points": points}))


def _spoil_labelled(files: Files, draw: Random) -> str:
    name = draw.choice(sorted(files))
    ways = (change.json_bytes,) if name.endswith(".json") else (change.mutated_bytes, _nifti_field, change.truncated)
    files[name], done = draw.choice(ways)(files[name], draw)
    return f"{name}: {done}"


def _use_labelled(folder: Path) -> object:
    found = []
    for case in load_cases(folder):
        volume = case.volume
        assert all(len(structure.points_ras) == len(KINDS) for structure in case.structures.values())
        found.append((volume.shape, sorted(case.structures), sorted(case.landmarks)))
        if case.labels is not None:
            assert case.label_map.voxels.ndim == 3
    return found


def _make_segments(folder: Path) -> None:
    labels = np.zeros((12, 14, 16), np.uint8)
    labels[3:8, 3:8, 3:8], labels[8:11, 4:9, 5:11] = 1, 2
    write_segments(folder / "scan.seg.nrrd", labels, np.diag((3.0, 3.0, 3.0, 1.0)), ("liver", "spleen"))


def _use_segments(folder: Path) -> object:
    found = read_segments(only(folder))
    assert found.voxels.ndim == 3
    return sorted(found.values), found.voxels.tobytes()


def _spoil_upload(files: Files, draw: Random) -> str:
    """A zip of slices, or of a NIfTI: hostile within, without, or by its names."""
    done = []
    if draw.random() < 0.5:
        done.append(_spoil_dicom(files, draw))
    if draw.random() < 0.4:
        name = draw.choice(
            ("../../../tmp/out.dcm", "/etc/out", "C:\\out.dcm", "..\\out", "a/" * 100 + "b", "x" * 300, "\u202egpj.dcm",
             ".hidden", "con", "nul.nii", "__MACOSX/x", "a\0b", "scan.nii.gz", "inner.zip", "")
        )  # fmt: skip
        files[name], said = change.mutated_bytes(files.get("00.dcm", b"x"), draw)
        done.append(f"{name!r}: {said}")
    link = draw.choice(sorted(files)) if files and draw.random() < 0.1 else ""
    data = change.zipped(files, link)
    files.clear()
    sent = "sent.zip"
    if draw.random() < 0.4:
        data, said = draw.choice((change.truncated, change.mutated_bytes))(data, draw)
        done.append(f"zip {said}")
    if draw.random() < 0.05:
        data = change.zipped({f"{n}.dcm": bytes(48 << 20) for n in range(2)})
        done = ["a bomb"]
    if draw.random() < 0.1:
        sent = draw.choice(("sent.nii.gz", "sent.mha", "sent.nrrd", "sent", "sent.txt"))
    files[sent] = data
    return "; ".join([*done, f"sent as {sent}"])


def _use_upload(folder: Path) -> object:
    from AnatomicalEmbeddingViewer.logic.session import Limits
    from AnatomicalEmbeddingViewer.web.uploads import _numbered, make_reader

    paths = sorted(folder.iterdir())
    inner = folder / "upload-1"
    inner.mkdir()
    for number, path in enumerate(paths, 1):
        path.rename(inner / _numbered(number, path.name))
    limits = Limits(upload_bytes=80 << 20, files=200, voxel_bytes=64 << 20, slice_bytes=1 << 20)
    found = make_reader(inner, [path.name for path in paths], limits)(lambda: False)
    assert not inner.exists()
    for _, origin in found:
        if origin.kept is not None:
            shutil.rmtree(origin.kept)
    return [_used_volume(volume) for volume, _ in found]


_IMAGE = (change.mutated_bytes, change.mutated_bytes, change.truncated, _image_header, _image_header)
_NIFTI = (change.mutated_bytes, change.truncated, _nifti_field, _nifti_field, _sheared)

READERS = (
    Reader("nifti", _image("scan.nii", False), one_of(*_NIFTI), _use_image),
    Reader("nifti-gz", _image("scan.nii.gz", True), one_of(*_NIFTI, *_NIFTI, change.gzip_bomb), _use_image),
    Reader("nrrd", _image("scan.nrrd", False), one_of(*_IMAGE), _use_image),
    Reader("nrrd-gz", _image("scan.nrrd", True), one_of(*_IMAGE), _use_image),
    Reader("mha", _image("scan.mha", False), one_of(*_IMAGE), _use_image),
    Reader("mha-zlib", _image("scan.mha", True), one_of(*_IMAGE), _use_image),
    Reader("dicom", _dicom(False), _spoil_dicom, _use_dicom),
    Reader("dicom-rle", _dicom(True), _spoil_dicom, _use_dicom),
    Reader("labelled scan", _make_labelled, _spoil_labelled, _use_labelled),
    Reader("segments", _make_segments, one_of(*_IMAGE), _use_segments),
    Reader("upload", _dicom(False), _spoil_upload, _use_upload, whole=False),
)
