"""Readers of points, boxes, records and texts."""

from __future__ import annotations

import json
import shutil
import tempfile
from pathlib import Path
from random import Random

import numpy as np
from dicom_series import write_ct_series
from hostile_texts import hostile_texts
from reported_patient import patient_record
from scan_files import linear_ct

from AnatomicalEmbedding.followup.lesion_lists import read_lesions
from AnatomicalEmbedding.followup.record_file import read_record, to_json, write_record
from AnatomicalEmbedding.followup.response import responses
from AnatomicalEmbedding.followup.sr_reading import read_srs
from AnatomicalEmbedding.followup.table import rows
from AnatomicalEmbedding.scan.boxes import read_rois, write_rois
from AnatomicalEmbedding.scan.points import PointList, read_points, write_markups
from AnatomicalEmbedding.scan.volume import Volume
from AnatomicalEmbedding.words import completions, not_understood, parse_report
from AnatomicalEmbedding.words.report_text import read_report
from fuzzing import mutations as change
from fuzzing.reader import TEXT, Files, Reader, one_of, only


def _points() -> PointList:
    return PointList(("carina", "left kidney", "T12"), np.array([[1.5, 2, 3], [-40, 5, 6], [7, 8, 900]]), ("", "x", ""))


def _make_markups(folder: Path) -> None:
    write_markups(folder / "points.mrk.json", _points())


def _make_csv(folder: Path) -> None:
    lines = ["label,r,a,s,description", *(f"p{n},{n}.5,-{n},{10 * n},said" for n in range(6))]
    (folder / "points.csv").write_text("\n".join(lines) + "\n")


def _use_points(folder: Path) -> object:
    path = only(folder)
    points = read_points(path)
    assert np.isfinite(points.points_ras).all()
    assert read_lesions(path) is not None
    write_markups(folder / "points.mrk.json", points)  # what was read can be written
    return points.labels


def _make_rois(folder: Path) -> None:
    boxes = {"liver": np.array([[0.0, 1, 2], [30, 40, 50]]), "spleen": np.array([[-50.0, 1, 2], [-30, 40, 50]])}
    write_rois(folder / "boxes.mrk.json", boxes)


def _use_rois(folder: Path) -> object:
    boxes = read_rois(only(folder))
    assert all(np.isfinite(box).all() for box in boxes.values())
    return sorted(boxes)


def _scan_pair() -> tuple[Volume, Volume]:
    voxels, ijk_to_ras = linear_ct()
    return Volume(voxels, ijk_to_ras, "before"), Volume(voxels, ijk_to_ras, "after")


def _make_record(folder: Path) -> None:
    write_record(folder / "patient.followup.json", patient_record(*_scan_pair()))


def _use_record(folder: Path) -> object:
    record = read_record(only(folder))
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
    record = read_srs([only(folder)])
    rows(record)
    responses(record)
    read_report(only(folder))
    return json.dumps(to_json(record), allow_nan=False)


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
    text = read_report(only(folder))
    sentences = parse_report(text)
    not_understood(text[:2000])
    completions(text[:200])
    return len(sentences)


def _first(files: Files) -> str:
    return next(iter(sorted(files)))


_JSON = (change.json_bytes,) * 5 + (change.mutated_bytes, change.truncated)
_SR = (_sr_element,) * 4 + (change.mutated_bytes, change.truncated)

READERS = (
    Reader("markups", _make_markups, one_of(*_JSON), _use_points),
    Reader("points csv", _make_csv, one_of(*TEXT), _use_points, whole=False),
    Reader("rois", _make_rois, one_of(*_JSON), _use_rois),
    Reader("record", _make_record, one_of(*_JSON), _use_record),
    Reader("structured report", _make_sr, one_of(*_SR), _use_sr),
    Reader("text", _make_text, _spoil_text, _use_text, whole=False),
)
