"""Test segmentation from a few examples on synthetic patients, with the command and the shipped weights."""

import csv
import json
from pathlib import Path

import numpy as np
import pytest
import SimpleITK as sitk
from cli_runs import assert_refused
from dicom_series import write_ct_series
from evaluations.segmentation import CARRIED, OURS, dice, evaluate_segmentation
from report_checks import check
from small_models import small_network

from AnatomicalEmbedding.embedding.inference import load_model
from AnatomicalEmbedding.embedding.models.registry import write_weights
from AnatomicalEmbedding.errors import PointsError
from AnatomicalEmbedding.phantom import Phantom, make_phantom
from AnatomicalEmbedding.scan.geometry import to_image
from AnatomicalEmbedding.scan.label_map import LabelMap
from AnatomicalEmbedding.scan.volume import Volume
from AnatomicalEmbedding.segmentation.examples import prepare, read_examples
from AnatomicalEmbedding.structures.segments import read_segments, write_segments

ABDOMEN, HEAD = (140.0, 420.0), (600.0, 800.0)
# of the liver, the left kidney and a half of the liver
TEXTS = {"parotid_right": 3, "My Lesion": 300, "half": 301}
CPU = ("--device", "cpu")


def patient(seed: int, coverage: tuple[float, float] = ABDOMEN) -> Phantom:
    return make_phantom(seed, spacing=(4.0, 4.0, 5.0), coverage_mm=coverage)


def masks_of(phantom: Phantom) -> dict[str, np.ndarray]:
    """(k, j, i) the structures TEXTS of a patient."""
    value = {name: number for number, name in phantom.label_names.items()}
    liver, kidney = (phantom.labels == value[name] for name in ("liver", "kidney_left"))
    half = liver & (np.indices(liver.shape)[2] > np.argwhere(liver)[:, 2].mean())
    return dict(zip(TEXTS, (liver, kidney, half), strict=True))


@pytest.fixture(scope="module")
def work(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Examples: a label map of two structures, and a .seg.nrrd of three in another order; and three scans."""
    folder = tmp_path_factory.mktemp("segment")
    examples = folder / "examples"
    one, other = patient(301), patient(302)
    for name, phantom in (("one", one), ("other", other)):
        phantom.volume.write(examples / f"{name}.nii.gz")
    masks = masks_of(one)
    labels = masks["parotid_right"] * np.uint16(3) + masks["My Lesion"] * np.uint16(300)
    sitk.WriteImage(to_image(labels, one.volume.ijk_to_ras), str(examples / "one.seg.nii.gz"))
    (examples / "one.labels.json").write_text(
        '{"0": "background", "3": "parotid_right", "300": "My Lesion"}'
    )
    masks = masks_of(other)
    ordered = [(name, masks[name]) for name in ("My Lesion", "parotid_right", "half")]
    write_segments(
        examples / "other.seg.nrrd",
        LabelMap.from_masks(ordered, other.volume.shape, other.volume.ijk_to_ras),
    )
    write_ct_series(folder / "scans" / "ct", patient(303).volume)
    write_ct_series(folder / "scans" / "head", patient(304, HEAD).volume)
    (folder / "scans" / "broken.nii.gz").write_bytes(b"no scan")
    return folder


@pytest.fixture
def trained(work: Path, anatemb) -> Path:
    outcome = anatemb(
        "segment", "train", work / "examples", "-o", work / "run", "--steps", "20", *CPU
    )
    assert outcome.code == 0, outcome.err
    assert "3 = parotid_right, 300 = My Lesion, 301 = half" in outcome.out
    assert "My Lesion (1, not 300), parotid_right (2, not 3), half (3, not 301)" in outcome.err
    return work / "run"


@pytest.mark.long
def test_evaluation_learns_from_some_patients_and_tests_others(work):
    names = ["parotid_right", "My Lesion"]
    examples = read_examples(work / "examples", names)
    model = load_model("auto", "cpu")
    result = evaluate_segmentation(examples, model, shots=(1, 2), tests=1, steps=20)
    assert {m.shots for m in result.measured} == {1}  # one patient is left to learn from
    assert len({m.patient for m in result.measured}) == 1
    for method in (OURS, CARRIED):
        found = {m.structure: m.dice for m in result.measured if m.method == method}
        assert set(found) == set(names)
        assert 0.6 < found["parotid_right"] < 1
    for tests in (2, 3):
        with pytest.raises(PointsError, match="patients are too few"):
            evaluate_segmentation(examples, model, tests=tests, steps=20)


def test_outlines_have_the_names_of_the_examples_and_absent_organs_and_bad_scans_are_named(
    work, trained, anatemb
):
    highdicom = pytest.importorskip("highdicom")
    out = work / "out"
    words = ("segment", "run", work / "scans", "--model", trained, "--nifti", "--dicom", *CPU)
    outcome = anatemb(*words, "-o", out)
    assert outcome.code == 2
    assert "broken.nii.gz" in outcome.err
    read = read_segments(out / "ct.seg.nrrd")
    found = read.renamed(read.texts)
    assert found.values == TEXTS
    truth = masks_of(patient(303))
    for name, least in zip(TEXTS, (0.85, 0.7, 0.7), strict=True):
        assert dice(found.mask(name), truth[name]) > least
    assert (found.mask("half") & found.mask("parotid_right")).sum() > 0.8 * found.mask("half").sum()
    assert not (found.mask("My Lesion") & found.mask("parotid_right")).any()  # as in the examples
    names = {str(value): text for text, value in TEXTS.items()}
    assert json.loads((out / "ct.labels.json").read_text()) == names
    flat = sitk.GetArrayFromImage(sitk.ReadImage(str(out / "ct.seg.nii.gz")))
    assert set(np.unique(flat)) == {0, *TEXTS.values()}
    assert np.array_equal(flat == 300, found.mask("My Lesion"))
    assert "it has the smaller one (parotid_right and half)" in outcome.err
    dicom = highdicom.seg.segread(out / "ct.seg.dcm")
    for number, text in enumerate(TEXTS, start=1):
        assert dicom.get_segment_description(number).segment_label == text
        placed = dicom.get_volume(segment_numbers=[number], combine_segments=True, relabel=True)
        assert placed.array.sum() == found.mask(text).sum() > 0
    assert check(out / "ct.seg.dcm", "Segmentation") == []
    table = (out / "volumes.csv").read_text(encoding="utf-8")
    rows = {
        (Path(row["scan"]).name, row["structure"]): row
        for row in csv.DictReader(table.splitlines())
    }
    for text in TEXTS:
        volume_ml = float(rows["ct", text]["volume_ml"])
        assert volume_ml == pytest.approx(found.mask(text).sum() * 0.08, rel=1e-3)
        assert rows["head", text]["status"] == "absent"
    # says who is first; no overlap is promised
    looked_at = [row for row in rows.values() if row["look"]]
    first, *rest = sorted(looked_at, key=lambda row: int(row["look"]))
    assert float(first["doubt"]) >= max(float(row["doubt"]) for row in rest)
    assert not any("dice" in column.lower() for column in first)
    page = (out / "outlines.html").read_text(encoding="utf-8")
    assert all(f"</span>{text}</td>" in page for text in TEXTS)
    # what is done is not done again, and said again
    written = (out / "ct.seg.nrrd").stat().st_mtime_ns
    (out / "head.seg.nrrd").unlink()
    anatemb(*words, "-o", out)
    assert (out / "ct.seg.nrrd").stat().st_mtime_ns == written
    assert (out / "head.seg.nrrd").exists()
    assert (out / "volumes.csv").read_text(encoding="utf-8") == table


def test_the_same_command_finds_its_work_done_and_another_one_is_refused(work, trained, anatemb):
    before = (trained / "segmenter.safetensors").stat().st_mtime_ns
    words = ("segment", "train", work / "examples", "-o", trained, "--steps", "20", *CPU)
    assert anatemb(*words).code == 0
    assert (trained / "segmenter.safetensors").stat().st_mtime_ns == before
    other = anatemb(*words, "--seed", "5")
    assert other.code == 2
    assert "another output folder" in other.err


def test_bad_input_is_named(work, tmp_path, anatemb):
    words = ("segment", "train", work / "examples", "-o", tmp_path / "run")
    assert_refused(anatemb(*words, "--structures", "halv"), "halv", "did you mean half")
    (tmp_path / "empty").mkdir()
    nothing = anatemb("segment", "train", tmp_path / "empty", "-o", tmp_path / "run")
    assert_refused(nothing, "holds no outlined scan")
    weights = tmp_path / "described.safetensors"
    write_weights(small_network(unit_mm=None), weights, "described", {})
    unfit = anatemb(*words, "--model", weights)
    assert unfit.code == 2
    assert "the weights described give no body coordinates in mm" in unfit.err
    words = ("segment", "run", work / "scans", "--model", tmp_path / "empty")
    assert_refused(anatemb(*words, "-o", tmp_path / "out"), "anatemb segment train")
    assert not (tmp_path / "out").exists()


def test_outlines_may_reach_beyond_their_scan_but_not_miss_it(tmp_path):
    phantom = patient(302)
    volume, liver = phantom.volume, masks_of(phantom)["parotid_right"]
    middle = int(np.flatnonzero(liver.any(axis=(1, 2))).mean())
    Volume(volume.voxels[:middle], volume.ijk_to_ras).write(tmp_path / "cut.nii.gz")
    model = load_model("auto", "cpu")

    def outline(shift_mm: float) -> None:
        ijk_to_ras = volume.ijk_to_ras.copy()
        ijk_to_ras[2, 3] += shift_mm
        labels = LabelMap(liver.astype(np.uint8), ijk_to_ras, {"liver": 1})
        write_segments(tmp_path / "cut.seg.nrrd", labels)

    outline(0.0)
    (example,) = prepare(read_examples(tmp_path), model)[1]
    assert example.volumes_ml["liver"] > 0
    outline(1000.0)
    with pytest.raises(PointsError, match="the outline of liver lies outside this scan"):
        prepare(read_examples(tmp_path), model)
