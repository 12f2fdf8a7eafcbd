"""Every reader of files: what it is given when all is well, how that is made bad, and how the answer is used.

A file that is accepted must also serve: maps are matched, weights embed a scan, forests are asked, records are written
as tables. Otherwise a damaged file would only fail later, where nobody can say why.
"""

from __future__ import annotations

import json
import shutil
import sqlite3
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from random import Random

import numpy as np
import SimpleITK as sitk
import torch
from dicom_series import write_ct_series
from hostile_texts import hostile_texts
from reported_patient import patient_record
from scan_files import centred_affine, linear_ct, stack_positions, write_linear_series
from small_models import analytic_map, small_network

from AnatomicalEmbedding.cohort.manifest import EMBEDDED
from AnatomicalEmbedding.cohort.search import Search
from AnatomicalEmbedding.cohort.shard import read_map, write_shard
from AnatomicalEmbedding.cohort.sources import MANIFEST_NAME, Source
from AnatomicalEmbedding.cohort.store import Store
from AnatomicalEmbedding.embedding.cache import MapCache
from AnatomicalEmbedding.embedding.calibration import OUTCOMES, Calibration, Forest
from AnatomicalEmbedding.embedding.inference import Model
from AnatomicalEmbedding.embedding.map import EmbeddingMap
from AnatomicalEmbedding.embedding.models.network import EmbeddingNetwork
from AnatomicalEmbedding.embedding.models.registry import find_weights, write_weights
from AnatomicalEmbedding.files import file_sha256
from AnatomicalEmbedding.followup.lesion_lists import read_lesions
from AnatomicalEmbedding.followup.record_file import read_record, to_json, write_record
from AnatomicalEmbedding.followup.response import responses
from AnatomicalEmbedding.followup.sr_reading import read_srs
from AnatomicalEmbedding.followup.table import rows
from AnatomicalEmbedding.matching.confidence import EVIDENCE
from AnatomicalEmbedding.matching.match import match
from AnatomicalEmbedding.matching.query import Query, StoredQuery
from AnatomicalEmbedding.resources import resource
from AnatomicalEmbedding.scan.boxes import read_rois, write_rois
from AnatomicalEmbedding.scan.dicom import list_series
from AnatomicalEmbedding.scan.points import PointList, read_points, write_markups
from AnatomicalEmbedding.scan.volume import Volume
from AnatomicalEmbedding.segmentation.files import read_segments, write_segments
from AnatomicalEmbedding.segmentation.grids import Group
from AnatomicalEmbedding.segmentation.network import UNetSpec
from AnatomicalEmbedding.segmentation.segmenter import EMBEDDING, Segmenter, load_segmenter, new_network, save_segmenter
from AnatomicalEmbedding.structures.label_names import KINDS
from AnatomicalEmbedding.structures.labelled_scans import load_cases
from AnatomicalEmbedding.structures.library import StructureLibrary
from AnatomicalEmbedding.structures.locating import Example, locate
from AnatomicalEmbedding.structures.margins import TIMES, Margins
from AnatomicalEmbedding.training.recipes import load_recipe
from AnatomicalEmbedding.words import completions, not_understood, parse_report
from AnatomicalEmbedding.words.atlas import Atlas, Occupancy
from AnatomicalEmbedding.words.presence import FrameFields
from AnatomicalEmbedding.words.report_text import read_report
from fuzzing import mutations as change

Files = dict[str, bytes]


@dataclass(frozen=True)
class Reader:
    """make: writes good files into a folder. spoil: changes some of them and says what it did. use: reads the folder
    and returns what the answer comes to, for comparison. whole: a file cut short must be refused, or give the same.
    """

    name: str
    make: Callable[[Path], None]
    spoil: Callable[[Files, Random], str]
    use: Callable[[Path], object]
    whole: bool = True

    def good_files(self) -> Files:
        """What `make` writes, by name below the folder."""
        folder = Path(tempfile.mkdtemp())
        try:
            self.make(folder)
            files = sorted(path for path in folder.rglob("*") if path.is_file())
            return {path.relative_to(folder).as_posix(): path.read_bytes() for path in files}
        finally:
            shutil.rmtree(folder)


def _one_of(*ways: Callable[[bytes, Random], change.Changed], some: float = 0.0) -> Callable[[Files, Random], str]:
    """Spoil one file, in one of these ways. some: chance that a file is lost or that two are exchanged."""

    def spoil(files: Files, draw: Random) -> str:
        name = draw.choice(sorted(files))
        if len(files) > 1 and draw.random() < some:
            other = draw.choice(sorted(files))
            files[name] = files[other]
            if draw.random() < 0.5:
                del files[name]
                return f"{name} is lost"
            return f"{name} is {other}"
        files[name], done = draw.choice(ways)(files[name], draw)
        return f"{name}: {done}"

    return spoil


def _only(folder: Path) -> Path:
    return next(path for path in sorted(folder.rglob("*")) if path.is_file())


# -- scans -------------------------------------------------------------------------------------------------------------


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
    return _used_volume(Volume.read(_only(folder)))


def _make_dicom(folder: Path) -> None:
    slices = stack_positions((-33, -35, 0), (0, 0, 4.0), range(17))
    write_linear_series(folder, slices, size=(22, 23))
    for n, path in enumerate(sorted(folder.iterdir())):
        path.rename(folder / f"{n:02d}.dcm")


def _make_packed_dicom(folder: Path) -> None:
    slices = stack_positions((-33, -35, 0), (0, 0, 4.0), range(17))
    write_linear_series(folder, slices, size=(22, 23), compress=True)
    for n, path in enumerate(sorted(folder.iterdir())):
        path.rename(folder / f"{n:02d}.dcm")


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
    found = read_segments(_only(folder))
    assert found.voxels.ndim == 3
    return sorted(found.values), found.voxels.tobytes()


# -- points, boxes and records -----------------------------------------------------------------------------------------


def _points() -> PointList:
    return PointList(("carina", "left kidney", "T12"), np.array([[1.5, 2, 3], [-40, 5, 6], [7, 8, 900]]), ("", "x", ""))


def _make_markups(folder: Path) -> None:
    write_markups(folder / "points.mrk.json", _points())


def _make_csv(folder: Path) -> None:
    lines = ["label,r,a,s,description", *(f"p{n},{n}.5,-{n},{10 * n},said" for n in range(6))]
    (folder / "points.csv").write_text("\n".join(lines) + "\n")


def _use_points(folder: Path) -> object:
    path = _only(folder)
    points = read_points(path)
    assert np.isfinite(points.points_ras).all()
    assert read_lesions(path) is not None
    write_markups(folder / "points.mrk.json", points)  # what was read can be written
    return points.labels


def _make_rois(folder: Path) -> None:
    boxes = {"liver": np.array([[0.0, 1, 2], [30, 40, 50]]), "spleen": np.array([[-50.0, 1, 2], [-30, 40, 50]])}
    write_rois(folder / "boxes.mrk.json", boxes)


def _use_rois(folder: Path) -> object:
    boxes = read_rois(_only(folder))
    assert all(np.isfinite(box).all() for box in boxes.values())
    return sorted(boxes)


def _scan_pair() -> tuple[Volume, Volume]:
    voxels, ijk_to_ras = linear_ct()
    return Volume(voxels, ijk_to_ras, "before"), Volume(voxels, ijk_to_ras, "after")


def _make_record(folder: Path) -> None:
    write_record(folder / "patient.followup.json", patient_record(*_scan_pair()))


def _use_record(folder: Path) -> object:
    record = read_record(_only(folder))
    rows(record)
    responses(record)
    return json.dumps(to_json(record), allow_nan=False)


def _make_sr(folder: Path) -> None:
    from AnatomicalEmbedding.followup.dicom_sr import write_sr

    before, after = _scan_pair()
    series = Path(tempfile.mkdtemp())
    try:
        write_ct_series(series, after, StudyDate="20240402")
        write_sr(patient_record(before, after), "current", series, folder / "report.dcm")
    finally:
        shutil.rmtree(series)


def _sr_element(data: bytes, draw: Random) -> change.Changed:
    """Bytes of the content tree, which is most of the file, or an element of the header."""
    if draw.random() < 0.3:
        return change.dicom_element(data, draw)
    at = draw.randrange(132, len(data))
    run = draw.choice((b"\0\0", b"SQ", b"UI", b"\xff\xff\xff\xff", b"FL", b"\xfe\xff\x00\xe0", b"NaN", b"1e400"))
    return data[:at] + run + data[at + len(run) :], f"{run!r} at {at}"


def _use_sr(folder: Path) -> object:
    record = read_srs([_only(folder)])
    rows(record)
    responses(record)
    read_report(_only(folder))
    return json.dumps(to_json(record), allow_nan=False)


# -- weights and what belongs to them ----------------------------------------------------------------------------------


def _body() -> Volume:
    """An elliptic cylinder of uneven tissue in air."""
    shape = (26, 28, 30)
    k, j, i = np.indices(shape)
    inside = ((j - 13.5) / 10) ** 2 + ((i - 14.5) / 12) ** 2 < 1
    hu = 40 + 80 * np.sin(k / 4) + 60 * np.cos(j / 3 + i / 5)
    return Volume(np.where(inside, hu, -1000).astype(np.int16), centred_affine(np.diag((5.0, 4.5, 5.0)), shape), "body")


def _make_weights(folder: Path) -> None:
    network = small_network(widths=(4, 4, 4), spacing_mm=(6.0, 6.0, 6.0), global_channels=4, local_channels=4)
    write_weights(network, folder / "own.safetensors", "own", {"recipe": "none"})


def _use_weights(folder: Path) -> object:
    found = find_weights(str(_only(folder)))
    embedding = Model(found.network, found.name, found.sha256, budget_bytes=200 << 20).embed(_body())
    assert torch.isfinite(embedding.coordinate).all()
    return found.sha256


def _forest() -> Forest:
    feature = np.array([0, -1, 1, -1, -1, -1], np.int16)
    otherwise = np.array([2, 0, 4, 0, 0, 0], np.int32)
    return Forest(
        np.array([0, 5], np.int32), feature, np.full(6, 0.5, np.float32), otherwise,
        np.linspace(0, 1, 4 * len(OUTCOMES), dtype=np.float32).reshape(4, -1),
    )  # fmt: skip


def _make_calibration(folder: Path) -> None:
    Calibration("ab" * 32, EVIDENCE, {"standard": _forest(), "fast": _forest()}).save(
        folder / "x.calibration.safetensors"
    )


def _use_calibration(folder: Path) -> object:
    found = Calibration.load(_only(folder))
    evidence = np.random.default_rng(0).normal(size=(5, len(found.evidence)))
    answers = [forest.predict(evidence) for _, forest in sorted(found.forests.items())]
    assert all(answer.shape == (5, len(OUTCOMES)) and np.isfinite(answer).all() for answer in answers)
    return [answer.tobytes() for answer in answers]


def _map(number: int = 0, described: bool = True) -> EmbeddingMap:
    """A small map with descriptors."""
    plain = analytic_map(lambda p: p * 0.9 + number, (6, 8, 8), (16.0, 16.0, 18.0), name=f"scan {number}")
    if not described:
        return plain
    from dataclasses import replace

    draw = torch.Generator().manual_seed(number)
    local = torch.nn.functional.normalize(torch.randn(4, 12, 16, 16, generator=draw), dim=0).half()
    coarse = torch.nn.functional.normalize(torch.randn(4, 3, 4, 4, generator=draw), dim=0).half()
    return replace(plain, local=local, global_=coarse)


def _make_map(folder: Path) -> None:
    _map().save(folder / "scan.map.safetensors")


def _used_map(embedding: EmbeddingMap) -> object:
    middle = _map().cell_to_ras[:3, 3] + 40.0
    assert np.isfinite(match(_map(), middle, embedding).points_ras).all()
    return torch.nan_to_num(embedding.coordinate).numpy().tobytes()


def _use_map(folder: Path) -> object:
    return _used_map(EmbeddingMap.load(_only(folder)))


def _make_cache(folder: Path) -> None:
    MapCache(folder).put(_map())


def _use_cache(folder: Path) -> object:
    found = MapCache(folder).get(_map().provenance)
    return None if found is None else _used_map(found)


def _margins() -> Margins:
    return Margins(np.linspace(0.5, 1.0, len(TIMES)), 100, {"": np.ones(6), "liver": np.full(6, 1.5)})


def _make_library(folder: Path) -> None:
    embedding = _map()
    box = np.array([[-40.0, -30.0, 330.0], [20.0, 20.0, 380.0]])
    corners = np.array([box[n // 4] if n == 0 else np.where([n & 1, n & 2, n & 4], *box) for n in range(8)])
    middle = box.mean(axis=0)
    faces = np.stack([np.where(np.arange(3) == side % 3, box[side // 3], middle) for side in range(6)])
    points = np.vstack([faces, corners])
    query = StoredQuery.of(Query(embedding, points), with_blocks=False)
    examples = {name: [Example(f"scan {n}", box, points, query) for n in range(2)] for name in ("liver", "spleen")}
    library = StructureLibrary(query.weights_hash, examples, "fast", _margins(), _margins(), {"made": "for a test"})
    library.save(folder / "x.structures.safetensors")


def _use_library(folder: Path) -> object:
    library = StructureLibrary.load(_only(folder))
    embedding = _map()
    library.check(embedding.provenance.weights_hash)
    found = locate(library.examples, embedding, library.effort)
    assert all(np.isfinite(each.box_ras).all() for each in found.values())
    for margins in (library.margins, library.example_margins):
        for each in found.values() if margins is not None else ():
            margins.box(each, 0.9)
    return sorted(library.examples)


def _make_atlas(folder: Path) -> None:
    share = np.zeros((4, 5, 6), np.uint8)
    share[1:3, 1:4, 1:5] = 200
    found = {name: Occupancy((30, 20, 40 + n), share, 5, 3, 100.0) for n, name in enumerate(("liver", "spleen"))}
    Atlas("ab" * 32, found, {"made": "for a test"}).save(folder / "x.atlas.npz")


def _use_atlas(folder: Path) -> object:
    atlas = Atlas.load(_only(folder))
    frame = FrameFields(atlas)
    for name, found in sorted(atlas.occupancies.items()):
        assert np.isfinite(found.centre_mm).all()
        places, weights = found.points_mm(50)
        assert np.isfinite(places).all()
        assert np.isfinite(weights).all()
        if name in ("liver", "spleen"):
            assert np.isfinite(frame.field(name).values).all()
    return sorted(atlas.occupancies)


def _make_recipe(folder: Path) -> None:
    shutil.copy(resource("Recipes") / "hybrid.toml", folder / "own.toml")


def _use_recipe(folder: Path) -> object:
    recipe = load_recipe(_only(folder))
    with torch.device("meta"):
        EmbeddingNetwork(recipe.network)
    return json.dumps(recipe.to_dict(), sort_keys=True)


# -- folders of several files ------------------------------------------------------------------------------------------


def _make_segmenter(folder: Path) -> None:
    group = Group(("liver", "spleen"), 3.0, np.zeros((2, 3)), np.full((2, 3), 50.0))
    spec = UNetSpec(6, 2, 4, (4, 8), 3, True)
    network = new_network(spec, EMBEDDING, 0)
    volumes, shares = {"liver": (1.0, 2.0)}, {"liver": 0.5}
    own = Segmenter("own", "ab" * 32, EMBEDDING, (group,), (network,), volumes, shares, ())
    save_segmenter(folder, own, [])
    path = folder / "segmenter.safetensors"
    embedding = _map()
    embedding.save(folder / "examples" / "one.map.safetensors")
    from safetensors import safe_open
    from safetensors.torch import save_file

    labels = {"0.labels": torch.zeros(2, 4, 4, 4, dtype=torch.uint8), "0.known": torch.ones(2, dtype=torch.bool),
              "0.to_ras": torch.eye(4, dtype=torch.float64)}  # fmt: skip
    save_file(labels, str(folder / "examples" / "one.labels.safetensors"))
    with safe_open(str(path), "pt") as file:
        about = {key: json.loads(text) for key, text in file.metadata().items()}
        weights = {key: file.get_tensor(key) for key in file.keys()}  # noqa: SIM118 - not a dict
    (key,) = about
    about[key]["examples"] = ["one"]
    save_file(weights, str(path), {key: json.dumps(about[key])})


def _use_segmenter(folder: Path) -> object:
    segmenter = load_segmenter(folder, torch.device("cpu"))
    for network in segmenter.networks:
        assert all(torch.isfinite(weights).all() for weights in network.parameters())
    return segmenter.names


def _make_cohort(folder: Path) -> None:
    with Store(folder, create=True) as store:
        store.manifest.settle({"model": "analytic", "weights_hash": "ab" * 32, "descriptors": "yes"})
        for number in range(2):
            embedding, scan_hash = _map(number), f"{number:040x}"
            source = Source(f"/scans/{number}.nii.gz", "", (), True, 1000, 5)
            store.manifest.add([source])
            write_shard(store.shard(scan_hash), embedding, {"scan": embedding.provenance.scan}, True)
            (row,) = store.manifest.find(source.path)
            path = store.shard(scan_hash)
            from AnatomicalEmbedding.cohort.shard import read_facts

            store.manifest.finish(
                row.id, EMBEDDED, scan_hash=scan_hash, seconds=1.0, software="test", sha256=file_sha256(path),
                size=path.stat().st_size, facts=read_facts(path) | {"scan_hash": scan_hash},
            )  # fmt: skip
        Search(store)  # makes the index


def _spoil_cohort(files: Files, draw: Random) -> str:
    """The tables of the manifest, its bytes, a shard, or the index."""
    if draw.random() < 0.4:
        folder = Path(tempfile.mkdtemp())
        try:
            path = folder / MANIFEST_NAME
            path.write_bytes(files[MANIFEST_NAME])
            done = _table_changed(path, draw)
            files[MANIFEST_NAME] = path.read_bytes()
            return f"manifest: {done}"
        finally:
            shutil.rmtree(folder)
    name = draw.choice(sorted(files))
    ways = [change.mutated_bytes, change.truncated]
    if name.endswith(".safetensors"):
        ways += [change.safetensors_bytes] * 3
    files[name], done = draw.choice(ways)(files[name], draw)
    return f"{name}: {done}"


def _table_changed(path: Path, draw: Random) -> str:
    with sqlite3.connect(path) as database:
        table = draw.choice(("about", "scans", "shards"))
        columns = [row[1] for row in database.execute(f"PRAGMA table_info({table})")]
        column = draw.choice(columns)
        kind = draw.choice(("value", "value", "value", "json", "empty", "drop"))
        if kind == "drop":
            database.execute(f"DROP TABLE {table}")
        elif kind == "empty":
            database.execute(f"DELETE FROM {table}")
        elif kind == "json" and table == "shards":
            facts = json.loads(database.execute("SELECT facts FROM shards").fetchone()[0])
            facts, _ = change.mutated_json(facts, draw)
            database.execute("UPDATE shards SET facts = ?", (json.dumps(facts),))
        else:
            value = draw.choice((0, -1, 2**62, "", "x" * 10_000, b"\xff\xfe", "nan", "[]", "{}", "null", "../../out"))
            unique = draw.choice(("", " WHERE rowid = 1"))
            try:
                database.execute(f"UPDATE {table} SET {column} = ?{unique}", (value,))
            except sqlite3.IntegrityError:
                return "nothing"
            kind = f"{column} is {value if len(str(value)) < 20 else 'long'!r}"
    database.close()
    return f"{table}: {kind}"


def _use_cohort(folder: Path) -> object:
    with Store(folder) as store:
        counts = store.manifest.counts()
        list(store.manifest.rows())
        list(store.manifest.due())
        store.verify()
        search = Search(store)
        found = search.point(Query(_map(), _map().cell_to_ras[None, :3, 3] + 40.0))
        for row, _ in store.manifest.embedded():
            store.cells(row)
            read_map(store.shard(row.scan_hash))
        assert all(each.point_ras is None or np.isfinite(each.point_ras).all() for each in found)
    return counts


def _make_text(folder: Path) -> None:
    (folder / "report.txt").write_text(
        "Mass in the upper pole of the left kidney.\nNodes at station 4R.\nL2 to L4.\n" * 5
    )


def _spoil_text(files: Files, draw: Random) -> str:
    name = _first(files)
    if draw.random() < 0.6:
        kind, text = next(iter(hostile_texts(1, draw.randrange(1 << 30))))
        _, text = list(hostile_texts(1 + draw.randrange(7), draw.randrange(1 << 30)))[-1]
        files[name] = text.encode("utf-8", "surrogatepass")
        return f"a text that nobody means well, {kind}"
    files[name], done = draw.choice((change.mutated_text, change.mutated_bytes))(files[name], draw)
    return done


def _use_text(folder: Path) -> object:
    text = read_report(_only(folder))
    sentences = parse_report(text)
    not_understood(text[:2000])
    completions(text[:200])
    return len(sentences)


def _first(files: Files) -> str:
    return next(iter(sorted(files)))


# -- what the viewer is sent -------------------------------------------------------------------------------------------


def _make_upload(folder: Path) -> None:
    _make_dicom(folder)


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
_TENSORS = (change.safetensors_bytes,) * 4 + (change.mutated_bytes, change.truncated)
_JSON = (change.json_bytes,) * 5 + (change.mutated_bytes, change.truncated)
_TEXT = (change.mutated_text,) * 4 + (change.mutated_bytes, change.truncated)
_SR = (_sr_element,) * 4 + (change.mutated_bytes, change.truncated)
_NPZ = (change.npz_bytes,) * 4 + (change.mutated_bytes, change.truncated)

READERS: dict[str, Reader] = {
    reader.name: reader
    for reader in (
        Reader("nifti", _image("scan.nii", False), _one_of(*_NIFTI), _use_image),
        Reader("nifti-gz", _image("scan.nii.gz", True), _one_of(*_NIFTI, *_NIFTI, change.gzip_bomb), _use_image),
        Reader("nrrd", _image("scan.nrrd", False), _one_of(*_IMAGE), _use_image),
        Reader("nrrd-gz", _image("scan.nrrd", True), _one_of(*_IMAGE), _use_image),
        Reader("mha", _image("scan.mha", False), _one_of(*_IMAGE), _use_image),
        Reader("mha-zlib", _image("scan.mha", True), _one_of(*_IMAGE), _use_image),
        Reader("dicom", _make_dicom, _spoil_dicom, _use_dicom),
        Reader("dicom-rle", _make_packed_dicom, _spoil_dicom, _use_dicom),
        Reader("labelled scan", _make_labelled, _spoil_labelled, _use_labelled),
        Reader("segments", _make_segments, _one_of(*_IMAGE), _use_segments),
        Reader("markups", _make_markups, _one_of(*_JSON), _use_points),
        Reader("points csv", _make_csv, _one_of(*_TEXT), _use_points, whole=False),
        Reader("rois", _make_rois, _one_of(*_JSON), _use_rois),
        Reader("record", _make_record, _one_of(*_JSON), _use_record),
        Reader("structured report", _make_sr, _one_of(*_SR), _use_sr),
        Reader("weights", _make_weights, _one_of(*_TENSORS), _use_weights),
        Reader("calibration", _make_calibration, _one_of(*_TENSORS), _use_calibration),
        Reader("library", _make_library, _one_of(*_TENSORS), _use_library),
        Reader("atlas", _make_atlas, _one_of(*_NPZ), _use_atlas),
        Reader("map", _make_map, _one_of(*_TENSORS), _use_map),
        Reader("cache", _make_cache, _one_of(*_TENSORS), _use_cache),
        Reader("recipe", _make_recipe, _one_of(*_TEXT), _use_recipe, whole=False),
        Reader("segmenter", _make_segmenter, _one_of(*_TENSORS, some=0.1), _use_segmenter),
        Reader("cohort", _make_cohort, _spoil_cohort, _use_cohort, whole=False),
        Reader("text", _make_text, _spoil_text, _use_text, whole=False),
        Reader("upload", _make_upload, _spoil_upload, _use_upload, whole=False),
    )
}
