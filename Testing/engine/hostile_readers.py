"""List the readers of the engine: for each, a good file, the ways to damage the file, and a use of the result.

If a reader accepts a file, the result must also be usable: maps are matched, weights embed a scan, forests estimate
errors, records are written as tables. Otherwise a damaged file would cause an unclear error later.
"""

import json
import shutil
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import SimpleITK as sitk
import spoiled_files as spoil
import torch
from scan_files import linear_ct, patient, stack_positions, write_linear_series
from small_models import analytic_map, small_network
from spoiled_files import Way

from AnatomicalEmbedding.dicom.sr import read_any_points
from AnatomicalEmbedding.embedding.calibration import OUTCOMES, Calibration, Forest
from AnatomicalEmbedding.embedding.inference import Model
from AnatomicalEmbedding.embedding.map import EmbeddingMap
from AnatomicalEmbedding.embedding.models.registry import find_weights, write_weights
from AnatomicalEmbedding.followup.lesion_lists import read_lesions
from AnatomicalEmbedding.followup.record_file import read_record, to_json, write_record
from AnatomicalEmbedding.followup.table import rows
from AnatomicalEmbedding.matching.confidence import EVIDENCE
from AnatomicalEmbedding.matching.match import match
from AnatomicalEmbedding.matching.query import read_query
from AnatomicalEmbedding.scan.boxes import read_rois, write_rois
from AnatomicalEmbedding.scan.label_map import LabelMap
from AnatomicalEmbedding.scan.points import PointList, read_points, write_markups
from AnatomicalEmbedding.scan.volume import Volume
from AnatomicalEmbedding.segmentation.segmenter import load_segmenter
from AnatomicalEmbedding.structures.library import StructureLibrary
from AnatomicalEmbedding.structures.locating import locate, make_example
from AnatomicalEmbedding.structures.margins import TIMES, Margins
from AnatomicalEmbedding.structures.segments import read_segments, write_segments
from AnatomicalEmbedding.words.atlas import Atlas, Occupancy
from AnatomicalEmbedding.words.presence import FrameFields
from AnatomicalEmbedding.words.report_text import read_report


@dataclass(frozen=True)
class Reader:
    """One reader.

    Args:
        make: writes good files into a folder.
        ways: to spoil one of them.
        use: reads the folder; returns its answer, for comparison.
        cases: tried by the suite; fewer for slow readers.
        whole: whether a file cut short must be refused, or give the same answer.
        needs: optional packages.
    """

    name: str
    make: Callable[[Path], object]
    ways: tuple[Way, ...]
    use: Callable[[Path], object]
    cases: int = 150
    whole: bool = True
    needs: tuple[str, ...] = ()


def _file(folder: Path) -> Path:
    return next(path for path in sorted(folder.rglob("*")) if path.is_file())


# -- scans and label maps ----------------------------------------------------------------------------------------------


def _image(name: str, compress: bool = False) -> Callable[[Path], None]:
    return lambda folder: sitk.WriteImage(
        Volume(*linear_ct()).to_sitk(), str(folder / name), compress
    )


def _dicom(folder: Path) -> None:
    slices = stack_positions((-33, -35, 0), (0, 0, 4.0), range(17))
    for n, path in enumerate(write_linear_series(folder, slices, size=(22, 23))):
        path.rename(folder / f"{n:02d}.dcm")


def _used_volume(volume: Volume) -> object:
    assert np.isfinite(volume.voxels).all()
    assert np.isfinite(volume.bounds_ras).all()
    volume.sample(volume.bounds_ras.mean(axis=0)[None])
    return hash((volume.voxels.tobytes(), volume.ijk_to_ras.tobytes()))


def _labels() -> LabelMap:
    voxels, ijk_to_ras = linear_ct()
    labels = np.zeros(voxels.shape, np.uint8)
    labels[4:9, 5:12, 6:20], labels[9:14, 5:12, 6:20] = 1, 2
    return LabelMap(labels, ijk_to_ras, {"liver": 1, "spleen": 2})


def _segments(folder: Path) -> None:
    write_segments(folder / "scan.seg.nrrd", _labels())


def _use_segments(folder: Path) -> object:
    found = read_segments(_file(folder))
    return sorted(found.values), found.voxels.tobytes()


# -- points, boxes, records, texts -------------------------------------------------------------------------------------

_POINTS = PointList(
    ("carina", "left kidney", "T12"),
    np.array([[1.5, 2, 3], [-40, 5, 6], [7, 8, 900]]),
    ("", "x", ""),
)


def _use_points(folder: Path) -> object:
    path = _file(folder)
    points = read_points(path)
    assert np.isfinite(points.points_ras).all()
    assert read_lesions(path) is not None
    write_markups(folder / "written.mrk.json", points)
    return points.labels


def _use_rois(folder: Path) -> object:
    boxes = read_rois(_file(folder))
    assert all(np.isfinite(box).all() for box in boxes.values())
    return sorted(boxes)


def _record():
    from reported_patient import patient_record

    return patient_record(*(Volume(*linear_ct(), name) for name in ("before", "after")))


def _report(folder: Path) -> None:
    from dicom_series import write_ct_series

    from AnatomicalEmbedding.followup.dicom_sr import write_sr

    series = folder / "series"
    write_ct_series(series, Volume(*linear_ct(), "after"), StudyDate="20240402")
    write_sr(_record(), "current", series, folder / "report.dcm")
    shutil.rmtree(series)


def _used_record(record) -> object:
    rows(record)
    return json.dumps(to_json(record), allow_nan=False)


def _use_report(folder: Path) -> object:
    return read_report(_file(folder)), read_any_points(_file(folder)).points_ras.tolist()


def _dicom_source(folder: Path):
    """Headers of a DICOM series of a linear scan; the files are removed, so that only the result is spoiled."""
    from dicom_series import write_ct_series

    from AnatomicalEmbedding.dicom.source import read_source

    write_ct_series(folder / "series", Volume(*linear_ct(), "scan"))
    source = read_source("scan", folder / "series")
    shutil.rmtree(folder / "series")
    return source


def _dicom_seg(folder: Path) -> None:
    from AnatomicalEmbedding.dicom.segmentations import write_label_seg

    write_label_seg(_labels(), _dicom_source(folder), folder / "outlines.dcm")


def _structure_set(folder: Path) -> None:
    from test_dicom_labels import circle, write_structure_set

    write_structure_set(
        folder / "outlines.dcm", {"liver": [circle(np.zeros(2), 20, z) for z in (-3.5, 0, 3.5)]}
    )


def _registration(folder: Path) -> None:
    from AnatomicalEmbedding.dicom.registrations import write_displacements

    field = sitk.Image([4, 5, 6], sitk.sitkVectorFloat32)
    field.SetSpacing((20.0, 20.0, 20.0))
    source = _dicom_source(folder)
    write_displacements(field, source, source, "no error", folder / "registration.dcm")


def _use_registration(folder: Path) -> object:
    from AnatomicalEmbedding.dicom.registrations import read_registration

    return read_registration(_file(folder)).TransformPoint((10.0, 20.0, 30.0))


def _use_outlines(folder: Path) -> object:
    from AnatomicalEmbedding.dicom.outlines import read_dicom_labels

    voxels, ijk_to_ras = linear_ct()
    labels = read_dicom_labels(_file(folder), voxels.shape, ijk_to_ras)
    assert labels.voxels.max() <= max(labels.values.values())
    return labels.voxels.tobytes(), labels.values


# -- weights, maps, and files for them ---------------------------------------------------------------------------------


def _map(number: int = 0) -> EmbeddingMap:
    """A small map with descriptors."""
    plain = analytic_map(
        lambda p: p * 0.9 + number, (6, 8, 8), (16.0, 16.0, 18.0), name=f"scan {number}"
    )
    draw = torch.Generator().manual_seed(number)
    local = torch.nn.functional.normalize(torch.randn(4, 12, 16, 16, generator=draw), dim=0).half()
    return replace(plain, local=local)


def _used_map(embedding: EmbeddingMap) -> object:
    assert np.isfinite(match(_map(), _map().cell_to_ras[:3, 3] + 40.0, embedding).points_ras).all()
    return torch.nan_to_num(embedding.coordinate).numpy().tobytes()


def _weights(folder: Path) -> None:
    network = small_network(widths=(4, 4, 4), spacing_mm=(6.0, 6.0, 6.0), local_channels=4)
    write_weights(network, folder / "own.safetensors", "own", {"recipe": "none"})


def _use_weights(folder: Path) -> object:
    found = find_weights(str(_file(folder)))
    model = Model(found.network, found.name, found.sha256, budget_bytes=200 << 20)
    assert torch.isfinite(model.embed(patient((26, 28, 30))).coordinate).all()
    return found.sha256


def _calibration(folder: Path) -> None:
    feature = np.array([0, -1, 1, -1, -1, -1], np.int16)
    otherwise = np.array([2, 0, 4, 0, 0, 0], np.int32)
    leaves = np.linspace(0, 1, 4 * len(OUTCOMES), dtype=np.float32).reshape(4, -1)
    forest = Forest(
        np.array([0, 5], np.int32), feature, np.full(6, 0.5, np.float32), otherwise, leaves
    )
    Calibration("ab" * 32, EVIDENCE, {"standard": forest}).save(
        folder / "x.calibration.safetensors"
    )


def _use_calibration(folder: Path) -> object:
    found = Calibration.load(_file(folder))
    evidence = np.random.default_rng(0).normal(size=(5, len(found.evidence)))
    answers = [forest.predict(evidence) for _, forest in sorted(found.forests.items())]
    assert all(
        answer.shape == (5, len(OUTCOMES)) and np.isfinite(answer).all() for answer in answers
    )
    return [answer.tobytes() for answer in answers]


def _library(folder: Path) -> None:
    box = np.array([[-40.0, -30.0, 330.0], [20.0, 20.0, 380.0]])
    example = make_example(_map(), box, effort="fast")
    margins = Margins(
        np.linspace(0.5, 1.0, len(TIMES)), 100, {"": np.ones(6), "liver": np.full(6, 1.5)}
    )
    examples = {name: [example, example] for name in ("liver", "spleen")}
    own = StructureLibrary(
        _map().provenance.weights_hash, examples, "fast", margins, margins, {"made": "for a test"}
    )
    own.save(folder / "x.structures.safetensors")


def _use_library(folder: Path) -> object:
    library = StructureLibrary.load(_file(folder))
    found = locate(library.examples, _map(), library.effort)
    assert all(np.isfinite(each.box_ras).all() for each in found.values())
    for each in found.values() if library.margins is not None else ():
        library.margins.box(each, 0.9)
    return sorted(library.examples)


def _atlas(folder: Path) -> None:
    share = np.zeros((4, 5, 6), np.uint8)
    weights = np.linspace(-1, 1, 41, dtype=np.float32)
    share[1:3, 1:4, 1:5] = 200
    found = {
        n: Occupancy((30, 20, 40 + k), share, 3, weights) for k, n in enumerate(("liver", "spleen"))
    }
    Atlas("ab" * 32, found, {"made": "for a test"}).save(folder / "x.atlas.npz")


def _use_atlas(folder: Path) -> object:
    atlas = Atlas.load(_file(folder))
    frame = FrameFields(atlas)
    for name, found in sorted(atlas.occupancies.items()):
        assert all(np.isfinite(values).all() for values in found.points_mm())
        assert name not in ("liver", "spleen") or np.isfinite(frame.field(name).values).all()
    return sorted(atlas.occupancies)


def _segmenter(folder: Path) -> None:
    from AnatomicalEmbedding.segmentation.grids import Group
    from AnatomicalEmbedding.segmentation.segmenter import Segmenter, save_segmenter
    from AnatomicalEmbedding.segmentation.voxels import VoxelNet

    group = Group(("liver", "spleen"), 3.0, np.zeros((2, 3)), np.full((2, 3), 50.0))
    volumes = {"liver": (1.0, 2.0)}
    shares = {"liver": 0.5}
    values = {"liver": 3, "spleen": 300}
    networks = (VoxelNet(2, 4),)
    save_segmenter(
        folder, Segmenter("own", "ab" * 32, (group,), networks, volumes, shares, (), values, {}), []
    )


def _use_segmenter(folder: Path) -> object:
    segmenter = load_segmenter(folder, torch.device("cpu"))
    for network in segmenter.networks:
        assert all(torch.isfinite(weights).all() for weights in network.parameters())
    return segmenter.names


def _cohort(folder: Path) -> None:
    from cohort_scans import embed_waiting, write_torsos

    from AnatomicalEmbedding.cohort.search import Search
    from AnatomicalEmbedding.cohort.store import Store

    scans = folder.parent / "scans"
    write_torsos(scans, range(2))
    with Store(folder, create=True) as store:
        store.add([scans])
        embed_waiting(store, "auto")
        Search(store)  # makes the index
    shutil.rmtree(scans)


def _use_cohort(folder: Path) -> object:
    from AnatomicalEmbedding.cohort.search import Search
    from AnatomicalEmbedding.cohort.store import Store

    with Store(folder) as store:
        counts = store.manifest.counts()
        store.verify()
        search = Search(store)
        for row, _ in search.index.scans.values():
            embedding = search.map_of(row)
            found = search.point(
                read_query(embedding, embedding.body_bounds_ras.mean(axis=0)[None]), 0
            )
            assert all(
                each.point_ras is None or np.isfinite(each.point_ras).all() for each in found
            )
    return counts


_IMAGE = (spoil.cut, spoil.damaged, spoil.damaged, spoil.header_text, spoil.header_text)
_NIFTI = (spoil.cut, spoil.damaged, spoil.nifti, spoil.nifti)
_JSON = (spoil.json_file, spoil.json_file, spoil.json_file, spoil.text, spoil.damaged, spoil.cut)
_TEXT = (spoil.text, spoil.text, spoil.text, spoil.damaged, spoil.cut)
_TENSORS = (spoil.safetensors, spoil.safetensors, spoil.safetensors, spoil.damaged, spoil.cut)
_DICOM = (spoil.dicom, spoil.dicom, spoil.dicom, spoil.damaged, spoil.cut)


def _use_volume(folder: Path) -> object:
    return _used_volume(Volume.read(_file(folder)))


_ALL = (
    Reader("nifti", _image("scan.nii"), _NIFTI, _use_volume),
    Reader("nifti-gz", _image("scan.nii.gz", True), _NIFTI, _use_volume, 50),
    Reader("nrrd", _image("scan.nrrd"), _IMAGE, _use_volume),
    Reader("mha", _image("scan.mha"), _IMAGE, _use_volume),
    Reader("dicom", _dicom, _DICOM, lambda folder: _used_volume(Volume.read(folder)), 20, whole=False),
    Reader("segments", _segments, _IMAGE, _use_segments),
    Reader("markups", lambda folder: write_markups(folder / "points.mrk.json", _POINTS), _JSON, _use_points),
    Reader(
        "table of points",
        lambda folder: (folder / "p.csv").write_text("label,r,a,s,description\n" + "p,1.5,-2,30,said\n" * 5),
        _TEXT, _use_points, whole=False,
    ),
    Reader(
        "boxes",
        lambda folder: write_rois(folder / "b.mrk.json", {"liver": np.array([[0.0, 1, 2], [30, 40, 50]])}),
        _JSON, _use_rois,
    ),
    Reader(
        "record", lambda folder: write_record(folder / "patient.followup.json", _record()), _JSON,
        lambda folder: _used_record(read_record(_file(folder))),
    ),
    Reader("structured report", _report, _DICOM, _use_report, 40, whole=False, needs=("highdicom",)),
    Reader("dicom seg", _dicom_seg, _DICOM, _use_outlines, 20, whole=False, needs=("highdicom",)),
    Reader("dicom rtstruct", _structure_set, _DICOM, _use_outlines, 20, whole=False, needs=("highdicom",)),
    Reader("dicom registration", _registration, _DICOM, _use_registration, 20, whole=False, needs=("highdicom",)),
    Reader("weights", _weights, _TENSORS, _use_weights, 40),
    Reader("calibration", _calibration, _TENSORS, _use_calibration),
    Reader("library", _library, _TENSORS, _use_library, 60),
    Reader("atlas", _atlas, (spoil.damaged, spoil.cut), _use_atlas, 40),
    Reader(
        "map", lambda folder: _map().save(folder / "scan.map.safetensors"), _TENSORS,
        lambda folder: _used_map(EmbeddingMap.load(_file(folder))),
    ),
    Reader("segmenter", _segmenter, _TENSORS, _use_segmenter, 60),
    Reader("cohort", _cohort, (spoil.damaged, spoil.cut), _use_cohort, 20, whole=False),
)  # fmt: skip
READERS = {reader.name: reader for reader in _ALL}
