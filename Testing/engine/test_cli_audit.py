"""Test the command audit: layouts of data sets, files, exit codes, and that a stopped audit continues."""

import json

import numpy as np
import pytest
import SimpleITK as sitk
from cli_runs import assert_refused, rows_of
from labelled_bodies import NAMES, ijk_to_ras, make_labels, write_body

from AnatomicalEmbedding.audit.dataset import list_entries, read_entry_labels
from AnatomicalEmbedding.scan.geometry import to_image

NOISY = ("volume", "cut")  # balls are no organs, so these problems are not judged here


@pytest.fixture(scope="module")
def bodies() -> list[np.ndarray]:
    return [make_labels(0.97 + 0.02 * n, 4.0 * n) for n in range(7)]


def run(anatemb, folder, output, *more):
    outcome = anatemb("audit", folder, "-o", output, "--labels-only", *more)
    rows = [
        row
        for row in rows_of(output / "audit.csv")
        if row["problem"] not in NOISY and float(row["score"]) >= 0.5
    ]
    return outcome, rows


@pytest.fixture(scope="module")
def wrong_set(tmp_path_factory, bodies):
    """Seven bodies: in p2 the kidneys are exchanged, p3 has no spleen, p6 is p5 once more."""
    folder = tmp_path_factory.mktemp("set")
    kidneys = {NAMES.index(f"kidney_{side}") + 1 for side in ("left", "right")}
    for n, body in enumerate([*bodies[:6], bodies[5]]):
        voxels = body.copy()
        if n == 2:
            one, other = kidneys
            voxels[body == one], voxels[body == other] = other, one
        if n == 3:
            voxels[body == NAMES.index("spleen") + 1] = 0
        write_body(folder, f"p{n}", voxels)
    return folder


def test_errors_are_ranked_and_written(anatemb, wrong_set, tmp_path):
    outcome, rows = run(anatemb, wrong_set, tmp_path)
    assert outcome.code == 1
    problems = {(row["scan"], row["problem"]) for row in rows}
    assert problems == {("p2", "side"), ("p3", "missing"), ("p6", "duplicate")}
    assert [float(row["score"]) for row in rows] == sorted(
        (float(row["score"]) for row in rows), reverse=True
    )
    values = json.loads((tmp_path / "audit.json").read_text(encoding="utf-8"))
    assert values["scans"] == 7
    assert values["counts"]["side"] == 1
    page = (tmp_path / "audit.html").read_text(encoding="utf-8")
    assert page.count("<section") == len(values["findings"])
    assert "spleen has no label" in page


def test_a_stopped_audit_continues_and_changed_files_are_audited_again(
    anatemb, wrong_set, tmp_path, bodies
):
    run(anatemb, wrong_set, tmp_path, "--no-report")
    records = sorted((tmp_path / "scans").iterdir())
    times = {path.name: path.stat().st_mtime_ns for path in records}
    records[0].unlink()
    records[1].write_text("{", encoding="utf-8")
    _, rows = run(anatemb, wrong_set, tmp_path, "--no-report")
    changed = {
        path.name
        for path in (tmp_path / "scans").iterdir()
        if path.stat().st_mtime_ns != times[path.name]
    }
    assert changed == {records[0].name, records[1].name}
    assert len(rows) == 3
    assert not (tmp_path / "audit.html").exists()


def test_a_patient_in_both_lists_of_nnunet_is_found(anatemb, tmp_path, bodies):
    for part, name, n in (("Tr", "a_t0", 0), ("Tr", "b", 1), ("Ts", "a_t1", 2)):
        path = tmp_path / "set" / f"labels{part}" / f"{name}.nii.gz"
        path.parent.mkdir(parents=True, exist_ok=True)
        sitk.WriteImage(to_image(bodies[n], ijk_to_ras()), str(path))
    names = {"labels": {"background": 0} | {name: n for n, name in enumerate(NAMES, start=1)}}
    (tmp_path / "set" / "dataset.json").write_text(json.dumps(names), encoding="utf-8")
    _, rows = run(anatemb, tmp_path / "set", tmp_path / "out")
    assert [(row["scan"], row["problem"]) for row in rows] == [("a_t1", "duplicate")]
    assert "a_t0" in rows[0]["detail"]
    names = {"labels": {"1": "liver", "2": "Liver"}}
    (tmp_path / "set" / "dataset.json").write_text(json.dumps(names), encoding="utf-8")
    outcome, _ = run(anatemb, tmp_path / "set", tmp_path / "out")
    assert outcome.err.count("several labels have the name liver") == 3


def test_masks_of_totalsegmentator_are_read_and_overlaps_measured(tmp_path, bodies):
    folder = tmp_path / "s0001" / "segmentations"
    folder.mkdir(parents=True)
    liver, spleen = (bodies[0] == NAMES.index(name) + 1 for name in ("liver", "spleen"))
    spleen[:, :, 60:] |= liver[:, :, 60:]
    for name, mask in (("liver", liver), ("spleen", spleen)):
        sitk.WriteImage(
            to_image(mask.astype(np.uint8), ijk_to_ras()), str(folder / f"{name}.nii.gz")
        )
    (entry,) = list_entries(tmp_path)
    labels = read_entry_labels(entry)
    assert (entry.name, entry.scan, labels.values) == ("s0001", None, {"liver": 1, "spleen": 2})
    ((one, other, shared_ml),) = labels.overlaps()
    assert (one, other) == ("liver", "spleen")
    assert shared_ml == pytest.approx((liver & spleen).sum() * 0.064)


def test_a_damaged_file_is_named_and_the_others_are_audited(anatemb, tmp_path, bodies):
    write_body(tmp_path / "set", "good", bodies[0])
    write_body(tmp_path / "set", "bad", bodies[1])
    (tmp_path / "set" / "bad.seg.nii.gz").write_bytes(b"no image")
    outcome, rows = run(anatemb, tmp_path / "set", tmp_path / "out", "--limit", "1")
    assert (outcome.code, rows) == (1, [])
    assert "bad.seg.nii.gz" in outcome.err
    values = json.loads((tmp_path / "out" / "audit.json").read_text(encoding="utf-8"))
    assert (values["skipped"][0]["scan"], values["clean"]) == ("bad", 1)


def test_a_folder_without_labels_is_refused(anatemb, tmp_path):
    assert_refused(anatemb("audit", tmp_path, "-o", tmp_path / "out"), tmp_path, "labels.json")
    assert_refused(
        anatemb("audit", tmp_path / "none", "-o", tmp_path / "out"),
        "none",
        "no such file or folder",
    )
    assert not (tmp_path / "out").exists()


def test_the_scans_are_read_and_embedded(anatemb, place, phantom_pair, tmp_path):
    for phantom, name in zip(phantom_pair, ("one", "two"), strict=True):
        folder = tmp_path / "set"
        folder.mkdir(exist_ok=True)
        phantom.volume.write(folder / f"{name}.nii.gz")
        sitk.WriteImage(
            to_image(phantom.labels, phantom.volume.ijk_to_ras), str(folder / f"{name}.seg.nii.gz")
        )
        texts = {str(value): text for value, text in phantom.label_names.items() if value}
        (folder / f"{name}.labels.json").write_text(json.dumps(texts), encoding="utf-8")
    moved = sitk.ReadImage(str(tmp_path / "set" / "two.seg.nii.gz"))
    moved.SetOrigin([x + 7 for x in moved.GetOrigin()])
    sitk.WriteImage(moved, str(tmp_path / "set" / "two.seg.nii.gz"))
    anatemb("audit", tmp_path / "set", "-o", tmp_path / "out", *place.model)
    rows = [
        row
        for row in rows_of(tmp_path / "out" / "audit.csv")
        if row["problem"] == "geometry" and "headers" in row["detail"]
    ]
    assert [row["scan"] for row in rows] == ["two"]
    assert "12.1 mm" in rows[0]["detail"]


@pytest.mark.long
def test_workers_give_the_same_result(anatemb, tmp_path, bodies):
    pytest.importorskip("distributed", reason="workers need the package distributed")
    for n in range(2):
        write_body(tmp_path / "set", f"p{n}", bodies[0])
    tables = []
    for workers in (1, 2):
        run(
            anatemb,
            tmp_path / "set",
            tmp_path / f"out{workers}",
            "--workers",
            workers,
            "--no-report",
        )
        tables.append((tmp_path / f"out{workers}" / "audit.csv").read_text(encoding="utf-8"))
    assert tables[0] == tables[1]
    assert "duplicate" in tables[0]
