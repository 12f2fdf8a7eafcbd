"""Test segmentation from a few examples on synthetic patients, with the command and the shipped weights."""

import csv
import json
import shutil
from pathlib import Path

import numpy as np
import pytest
import SimpleITK as sitk
from dicom_series import write_ct_series
from evaluations.segmentation import CARRIED, OURS, evaluate_segmentation
from report_checks import check
from small_models import small_network

from AnatomicalEmbedding.embedding.cache import MapCache
from AnatomicalEmbedding.embedding.inference import load_model
from AnatomicalEmbedding.embedding.models.registry import write_weights
from AnatomicalEmbedding.errors import PointsError
from AnatomicalEmbedding.phantom import make_phantom
from AnatomicalEmbedding.scan.geometry import to_image
from AnatomicalEmbedding.scan.label_map import LabelMap
from AnatomicalEmbedding.scan.volume import Volume
from AnatomicalEmbedding.segmentation.examples import prepare, read_examples
from AnatomicalEmbedding.structures.segments import read_segments, write_segments

NAMES = ("liver", "kidney_left")
ABDOMEN, HEAD = (140.0, 420.0), (600.0, 800.0)
SPACING = (4.0, 4.0, 5.0)


def write_scan(
    folder: Path, seed: int, coverage: tuple[float, float], labels: str = ""
) -> dict[str, np.ndarray]:
    """A synthetic patient in a folder; labels: "nifti" or "slicer", how it is outlined. Returns its masks."""
    phantom = make_phantom(seed, spacing=SPACING, coverage_mm=coverage)
    name = f"scan{seed}"
    phantom.volume.write(folder / f"{name}.nii.gz")
    value = {name: number for number, name in phantom.label_names.items()}
    masks = {name: phantom.labels == value[name] for name in NAMES}
    map_ = sum((n + 1) * mask.astype(np.uint8) for n, mask in enumerate(masks.values()))
    if labels == "nifti":
        sitk.WriteImage(
            to_image(map_, phantom.volume.ijk_to_ras), str(folder / f"{name}.seg.nii.gz")
        )
        (folder / f"{name}.labels.json").write_text(
            json.dumps({str(n + 1): each for n, each in enumerate(NAMES)})
        )
    elif labels == "slicer":
        held = LabelMap(
            map_, phantom.volume.ijk_to_ras, {name: n for n, name in enumerate(NAMES, start=1)}
        )
        write_segments(folder / f"{name}.seg.nrrd", held)
    return masks


@pytest.fixture(scope="module")
def work(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("segment")
    for part in ("examples", "scans"):
        (folder / part).mkdir()
    write_scan(folder / "examples", 301, ABDOMEN, "nifti")
    write_scan(folder / "examples", 302, ABDOMEN, "slicer")
    write_scan(folder / "scans", 304, HEAD)
    (folder / "scans" / "scan305.nii.gz").write_bytes(b"no scan")
    return folder


@pytest.fixture(scope="module")
def truth(work: Path) -> dict[str, np.ndarray]:
    return write_scan(work / "scans", 303, ABDOMEN)


@pytest.fixture
def kept_maps(work: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANATEMB_CACHE", str(work / "cache"))


@pytest.fixture
def trained(work: Path, anatemb, kept_maps) -> Path:
    run = work / "run"
    outcome = anatemb(
        "segment", "train", work / "examples", "-o", run, "--steps", "20", "--device", "cpu"
    )
    assert outcome.code == 0, outcome.err
    return run


@pytest.mark.long
def test_evaluation_learns_from_some_patients_and_tests_others(work):
    examples = read_examples(work / "examples")
    model = load_model("auto", "cpu", MapCache(work / "cache"))
    result = evaluate_segmentation(examples, model, shots=(1, 2), tests=1, steps=20)
    assert {m.shots for m in result.measured} == {1}  # one patient is left to learn from
    assert len({m.patient for m in result.measured}) == 1
    for method in (OURS, CARRIED):
        found = {m.structure: m.dice for m in result.measured if m.method == method}
        assert set(found) == set(NAMES)
        assert 0.6 < found["liver"] < 1
    for tests in (2, 3):
        with pytest.raises(PointsError, match="patients are too few"):
            evaluate_segmentation(examples, model, tests=tests, steps=20)


def rows_of(path: Path) -> dict[tuple[str, str], dict[str, str]]:
    with path.open(newline="", encoding="utf-8") as file:
        return {(Path(row["scan"]).name, row["structure"]): row for row in csv.DictReader(file)}


def dice(one: np.ndarray, other: np.ndarray) -> float:
    return 2 * (one & other).sum() / (one.sum() + other.sum())


def test_the_rest_is_outlined_absent_organs_are_not_and_bad_scans_are_named(
    work, truth, trained, anatemb
):
    out = work / "out"
    inputs = "segment", "run", work / "scans", "--model", trained, "--nifti", "--device", "cpu"
    outcome = anatemb(*inputs, "-o", out)
    assert outcome.code == 2
    assert "scan305.nii.gz" in outcome.err
    names = json.loads((out / "scan303.labels.json").read_text())
    found = sitk.ReadImage(str(out / "scan303.seg.nii.gz"))
    scan = Volume.read(work / "scans" / "scan303.nii.gz")
    labels = sitk.GetArrayFromImage(found)
    assert labels.shape == scan.shape
    assert found.GetOrigin() == pytest.approx(scan.to_sitk().GetOrigin(), abs=1e-3)
    value = {name: int(number) for number, name in names.items()}
    assert dice(labels == value["liver"], truth["liver"]) > 0.85
    assert dice(labels == value["kidney_left"], truth["kidney_left"]) > 0.7
    slicer = read_segments(out / "scan303.seg.nrrd")
    assert np.array_equal(slicer.voxels == slicer.values["liver"], labels == value["liver"])
    rows = rows_of(out / "volumes.csv")
    liver = rows["scan303.nii.gz", "liver"]
    assert float(liver["volume_ml"]) == pytest.approx(
        (labels == value["liver"]).sum() * 0.08, rel=1e-3
    )
    by_look = sorted(
        (row for row in rows.values() if row["look"]), key=lambda row: int(row["look"])
    )
    assert [row["look"] for row in by_look] == ["1", "2"]
    # says who is first; no overlap is promised
    assert float(by_look[0]["doubt"]) >= float(by_look[1]["doubt"])
    assert not any("dice" in column.lower() for column in liver)
    for name in NAMES:
        assert rows["scan304.nii.gz", name]["status"] == "absent"
    assert not sitk.GetArrayFromImage(sitk.ReadImage(str(out / "scan304.seg.nii.gz"))).any()
    assert sorted(row["look"] for row in rows.values() if row["look"]) == ["1", "2"]
    assert "scan303" in (out / "outlines.html").read_text(encoding="utf-8")
    # what is done is not done again, and said again
    written = (out / "scan303.seg.nrrd").stat().st_mtime_ns
    table = (out / "volumes.csv").read_text()
    (out / "scan304.seg.nrrd").unlink()
    anatemb(*inputs, "-o", out)
    assert (out / "scan303.seg.nrrd").stat().st_mtime_ns == written
    assert (out / "scan304.seg.nrrd").exists()
    assert (out / "volumes.csv").read_text() == table
    assert "scan303" in (out / "outlines.html").read_text(encoding="utf-8")


def test_outlines_of_a_dicom_series_are_written_as_dicom(work, trained, anatemb, tmp_path):
    highdicom = pytest.importorskip("highdicom")
    write_ct_series(tmp_path / "ct", make_phantom(303, spacing=SPACING, coverage_mm=ABDOMEN).volume)
    words = (
        "segment",
        "run",
        tmp_path / "ct",
        "--model",
        trained,
        "-o",
        tmp_path / "out",
        "--no-report",
        "--dicom",
    )
    assert anatemb(*words, "--device", "cpu").code == 0
    slicer = read_segments(tmp_path / "out" / "ct.seg.nrrd")
    found = highdicom.seg.segread(tmp_path / "out" / "ct.seg.dcm")
    for number, name in enumerate(trained_names := list(slicer.values), start=1):
        mask = found.get_volume(segment_numbers=[number], combine_segments=True, relabel=True).array
        assert found.get_segment_description(number).segment_label == name
        assert mask.sum() == (slicer.voxels == slicer.values[name]).sum() > 0
    assert set(trained_names) == set(NAMES)
    assert check(tmp_path / "out" / "ct.seg.dcm", "Segmentation") == []


# of the liver, the left kidney and a half of the liver
TEXTS = {"parotid_right": 3, "My Lesion": 300, "half": 301}


@pytest.fixture
def own_names(work, tmp_path, anatemb, kept_maps) -> Path:
    """A segmenter of two examples: a label map, and a .seg.nrrd with a structure in another one."""
    folder = tmp_path / "own"
    folder.mkdir()
    for seed in (301, 302):
        shutil.copy(work / "examples" / f"scan{seed}.nii.gz", folder)
    liver, kidney = (masks_of(301)[name] for name in NAMES)
    sitk.WriteImage(
        to_image(
            liver * np.uint16(3) + kidney * np.uint16(300),
            Volume.read(folder / "scan301.nii.gz").ijk_to_ras,
        ),
        str(folder / "scan301.seg.nii.gz"),
    )
    (folder / "scan301.labels.json").write_text(
        '{"0": "background", "3": "parotid_right", "300": "My Lesion"}'
    )
    liver, kidney = (masks_of(302)[name] for name in NAMES)
    masks = {"My Lesion": kidney, "parotid_right": liver, "half": half_of(liver)}
    scan = Volume.read(folder / "scan302.nii.gz")
    write_segments(
        folder / "scan302.seg.nrrd", LabelMap.from_masks(masks.items(), scan.shape, scan.ijk_to_ras)
    )
    run = tmp_path / "run"
    outcome = anatemb("segment", "train", folder, "-o", run, "--steps", "20", "--device", "cpu")
    assert outcome.code == 0, outcome.err
    assert "3 = parotid_right, 300 = My Lesion, 301 = half" in outcome.out
    assert "My Lesion (1, not 300), parotid_right (2, not 3), half (3, not 301)" in outcome.err
    return run


def half_of(mask: np.ndarray) -> np.ndarray:
    return mask & (np.indices(mask.shape)[2] > np.argwhere(mask)[:, 2].mean())


def masks_of(seed: int) -> dict[str, np.ndarray]:
    phantom = make_phantom(seed, spacing=SPACING, coverage_mm=ABDOMEN)
    value = {name: number for number, name in phantom.label_names.items()}
    return {name: phantom.labels == value[name] for name in NAMES}


def test_names_and_labels_of_the_examples_come_back_and_nested_structures_are_whole(
    own_names, anatemb, tmp_path
):
    highdicom = pytest.importorskip("highdicom")
    phantom = make_phantom(303, spacing=SPACING, coverage_mm=ABDOMEN)
    write_ct_series(tmp_path / "ct", phantom.volume)
    out = tmp_path / "out"
    words = (
        "segment",
        "run",
        tmp_path / "ct",
        "--model",
        own_names,
        "-o",
        out,
        "--nifti",
        "--dicom",
        "--device",
        "cpu",
    )
    outcome = anatemb(*words)
    assert outcome.code == 0, outcome.err
    read = read_segments(out / "ct.seg.nrrd")
    found = read.renamed(read.texts)
    assert found.values == TEXTS
    truth = masks_of(303)["liver"]
    assert dice(found.mask("parotid_right"), truth) > 0.85
    assert dice(found.mask("half"), half_of(truth)) > 0.7
    assert (found.mask("half") & found.mask("parotid_right")).sum() > 0.8 * found.mask("half").sum()
    assert not (
        found.mask("My Lesion") & found.mask("parotid_right")
    ).any()  # apart in the examples
    assert json.loads((out / "ct.labels.json").read_text()) == {
        str(value): text for text, value in TEXTS.items()
    }
    flat = sitk.GetArrayFromImage(sitk.ReadImage(str(out / "ct.seg.nii.gz")))
    assert set(np.unique(flat)) == {0, *TEXTS.values()}
    assert np.array_equal(flat == 300, found.mask("My Lesion"))
    assert (
        "ct.seg.nii.gz: where structures overlap, it has the smaller one (parotid_right and half)"
        in outcome.err
    )
    assert "ct.seg.nrrd all are whole" in outcome.err
    dicom = highdicom.seg.segread(out / "ct.seg.dcm")
    for number, text in enumerate(TEXTS, start=1):
        assert dicom.get_segment_description(number).segment_label == text
        placed = dicom.get_volume(segment_numbers=[number], combine_segments=True, relabel=True)
        assert placed.array.sum() == found.mask(text).sum() > 0
    assert check(out / "ct.seg.dcm", "Segmentation") == []
    rows = {structure: row for (_, structure), row in rows_of(out / "volumes.csv").items()}
    assert list(rows) == list(TEXTS)
    assert float(rows["parotid_right"]["volume_ml"]) == pytest.approx(
        found.mask("parotid_right").sum() * 0.08, rel=1e-3
    )
    page = (out / "outlines.html").read_text(encoding="utf-8")
    assert all(f"</span>{text}</td>" in page for text in TEXTS)
    # done is done
    written = (out / "ct.seg.nrrd").stat().st_mtime_ns
    assert anatemb(*words).code == 0
    assert (out / "ct.seg.nrrd").stat().st_mtime_ns == written


def test_the_same_command_finds_its_work_done_and_another_one_is_refused(work, trained, anatemb):
    before = (trained / "segmenter.safetensors").stat().st_mtime_ns
    again = anatemb(
        "segment", "train", work / "examples", "-o", trained, "--steps", "20", "--device", "cpu"
    )
    assert again.code == 0
    assert (trained / "segmenter.safetensors").stat().st_mtime_ns == before
    other = anatemb(
        "segment",
        "train",
        work / "examples",
        "-o",
        trained,
        "--steps",
        "20",
        "--seed",
        "5",
        "--device",
        "cpu",
    )
    assert other.code == 2
    assert "another output folder" in other.err


def test_bad_input_is_named(work, tmp_path, anatemb, kept_maps):
    unknown = anatemb(
        "segment", "train", work / "examples", "-o", tmp_path / "run", "--structures", "livr"
    )
    assert unknown.code == 2
    assert "livr" in unknown.err
    assert "did you mean liver" in unknown.err
    (tmp_path / "empty").mkdir()
    none = anatemb("segment", "train", tmp_path / "empty", "-o", tmp_path / "run")
    assert none.code == 2
    assert "holds no outlined scan" in none.err
    weights = tmp_path / "described.safetensors"
    write_weights(small_network(unit_mm=None), weights, "described", {})
    nowhere = anatemb(
        "segment", "train", work / "examples", "-o", tmp_path / "run", "--model", weights
    )
    assert nowhere.code == 2
    assert "the weights described give no body coordinates in mm" in nowhere.err
    untrained = anatemb(
        "segment", "run", work / "scans", "--model", tmp_path / "empty", "-o", tmp_path / "out"
    )
    assert untrained.code == 2
    assert "anatemb segment train" in untrained.err
    assert not (tmp_path / "out").exists()


def test_outlines_may_reach_beyond_their_scan_but_not_miss_it(work, tmp_path):
    volume = Volume.read(work / "examples" / "scan302.nii.gz")
    labels = work / "examples" / "scan302.seg.nrrd"
    liver = read_segments(labels).voxels == read_segments(labels).values["liver"]
    middle = int(np.flatnonzero(liver.any(axis=(1, 2))).mean())
    Volume(volume.voxels[:middle], volume.ijk_to_ras).write(tmp_path / "cut.nii.gz")
    model = load_model("auto", "cpu")
    for shift, held in ((0.0, True), (1000.0, False)):
        ijk_to_ras = volume.ijk_to_ras.copy()
        ijk_to_ras[2, 3] += shift
        write_segments(
            tmp_path / "cut.seg.nrrd", LabelMap(liver.astype(np.uint8), ijk_to_ras, {NAMES[0]: 1})
        )
        if held:
            (example,) = prepare(read_examples(tmp_path), model)[1]
            assert example.volumes_ml["liver"] > 0
        else:
            with pytest.raises(PointsError, match="the outline of liver lies outside this scan"):
                prepare(read_examples(tmp_path), model)


def test_results_of_crops_go_back_to_their_scans(work, truth, tmp_path, anatemb, kept_maps):
    scan = work / "scans" / "scan303.nii.gz"
    assert (
        anatemb(
            "crop", scan, "--structures", "liver", "-o", tmp_path / "crops", "--device", "cpu"
        ).code
        == 0
    )
    crop = sitk.ReadImage(str(tmp_path / "crops" / "scan303_crop.nii.gz"))
    (tmp_path / "results").mkdir()
    sitk.WriteImage(
        sitk.Cast(crop > 60, sitk.sitkUInt8), str(tmp_path / "results" / "scan303_crop_seg.nii.gz")
    )
    outcome = anatemb("crop", scan, "--paste-back", tmp_path / "results", "-o", tmp_path / "whole")
    assert outcome.code == 0, outcome.err
    whole = (
        sitk.GetArrayFromImage(sitk.ReadImage(str(tmp_path / "whole" / "scan303_crop_seg.nii.gz")))
        > 0
    )
    volume = Volume.read(scan)
    assert whole.shape == volume.shape
    assert whole.sum() == sitk.GetArrayFromImage(crop > 60).sum()
    assert (volume.voxels[whole] > 60).all()
    alone = anatemb(
        "crop", scan, "--paste-back", tmp_path / "crops" / "crops.csv", "-o", tmp_path / "whole"
    )
    assert alone.code == 2
    assert "crops.csv" in alone.err
