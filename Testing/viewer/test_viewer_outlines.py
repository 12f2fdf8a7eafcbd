"""Outlines in the browser, by a segmenter that has learned from one synthetic patient in a few seconds."""

from __future__ import annotations

import csv
import io
import re
import zipfile
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("trame_slicer", reason="runs in an environment with trame-slicer[standalone]; `make test` makes it")

from PIL import Image
from reading import read_bundle
from scans import patient

from AnatomicalEmbedding.errors import WeightsError
from AnatomicalEmbedding.phantom import make_phantom

NAMES = ("spleen", "kidney_left")
DONE = "!document.querySelector('[data-test=outlines-cancel]')"


def truth(number: int, name: str) -> np.ndarray:
    """(k, j, i) bool of a structure of a patient."""
    value = next(value for value, each in patient(number).label_names.items() if each == name)
    return patient(number).labels == value


@pytest.fixture(scope="module")
def run(tmp_path_factory) -> Path:
    """What `anatemb segment train` writes."""
    from AnatomicalEmbedding.embedding.inference import load_model
    from AnatomicalEmbedding.segmentation.examples import read_examples
    from AnatomicalEmbedding.segmentation.files import write_segments
    from AnatomicalEmbedding.segmentation.runs import train_segmenter

    folder, scan = tmp_path_factory.mktemp("segmenter"), patient(0).volume
    scan.write(folder / "examples" / "first.nii.gz")
    labels = sum((n + 1) * truth(0, name).astype(np.uint8) for n, name in enumerate(NAMES))
    write_segments(folder / "examples" / "first.seg.nrrd", labels, scan.ijk_to_ras, NAMES)
    model = load_model("auto", "cpu", None)
    train_segmenter(read_examples(folder / "examples"), model, folder / "run", minutes=0)
    return folder / "run"


@pytest.fixture(scope="module")
def arguments(run, tmp_path_factory) -> list[str]:
    head = tmp_path_factory.mktemp("head") / "head.nii.gz"
    make_phantom(304, spacing=(4.0, 4.0, 5.0), coverage_mm=(600.0, 800.0)).volume.write(head)
    return [str(head), "--model", str(run), "--device", "cpu"]


@pytest.fixture(scope="module")
def outlined(page, scan_files, pictures):
    """The page with a scan that shows the organs, outlined."""
    if not page.page.locator("li[data-scan=current]").count():
        page.send(scan_files[1])
        page.wait_ready(2)
    page.press("outlines-run")
    page.page.locator("[data-test=outlines-cancel]").wait_for()
    page.page.reload()  # the work goes on without a page
    page.page.locator("[data-outline=spleen][data-outlined=current]").wait_for()
    page.wait(DONE)
    page.page.screenshot(path=pictures / "outlines.png")
    return page


def rows(page) -> list[tuple[str, str]]:
    return page.page.evaluate(
        "() => [...document.querySelectorAll('[data-outline]')].map((e) => [e.dataset.outlined, e.dataset.outline])"
    )


def contour(page, view: str, name: str) -> int:
    """Pixels of a view in a structure's colour."""
    page.page.wait_for_timeout(600)
    swatch = page.page.locator(f"[data-outline={name}] i").first.get_attribute("style")
    colour = [int(part) for part in re.findall(r"\d+", swatch)]
    box = page.page.locator(f"[data-view={view}]").bounding_box()
    picture = Image.open(io.BytesIO(page.page.screenshot(clip=box))).convert("RGB")
    return int((np.abs(np.asarray(picture, int) - colour).max(axis=2) < 40).sum())


def test_a_full_disk_is_a_sentence_and_the_next_try_finds_what_is_absent(page, running):
    assert rows(page) == []
    folder = next(running.temporary.glob("anatemb-view-*"))
    away = folder.rename(folder.with_name("away"))
    page.press("outlines-run")
    page.wait_sentence("head.seg.nrrd: could not be written; check the space on the disk")
    page.wait(DONE)
    assert rows(page) == []
    away.rename(folder)
    page.dismiss_all()
    page.press("outlines-run")
    page.page.locator("[data-outline]").first.wait_for()
    assert sorted(rows(page)) == [["head", "kidney_left"], ["head", "spleen"]]
    said = page.page.locator("[data-outline=spleen]").inner_text()
    assert "Absent: the scan does not show its place." in said
    assert page.page.locator("[data-outline] button").count() == 0


def test_a_scan_taken_out_or_cancel_ends_it(page, scan_files):
    for end in ("li[data-scan=current] button.bare", "[data-test=outlines-cancel]"):
        page.send(scan_files[1])
        page.wait_ready(2)
        page.press("outlines-run")
        page.page.get_by_text("outlining current").wait_for()
        page.page.click(end)
        page.wait(DONE)
        assert page.sentences() == []
        assert [scan for scan, _structure in rows(page)] == ["head", "head"]
    assert page.page.is_enabled("[data-test=outlines-run]")


def test_contours_are_drawn_over_their_scan_and_can_be_hidden(outlined):
    assert rows(outlined)[2:] == [["head", "kidney_left"], ["head", "spleen"]]  # what is absent comes last
    volume = outlined.page.locator("[data-outline=spleen][data-outlined=current] .error").first.inner_text()
    expected = truth(1, "spleen").sum() * abs(np.linalg.det(patient(1).volume.ijk_to_ras[:3, :3])) / 1000
    assert float(volume.removesuffix(" ml")) == pytest.approx(expected, rel=0.25)
    assert contour(outlined, "scan1coronal", "spleen") > 60
    assert contour(outlined, "scan0coronal", "spleen") == 0
    outlined.page.uncheck("[data-test=outlines-show]")
    assert contour(outlined, "scan1coronal", "spleen") == 0
    outlined.page.check("[data-test=outlines-show]")
    assert contour(outlined, "scan1coronal", "spleen") > 60


def test_a_row_leads_to_its_structure_by_the_keyboard(outlined):
    kidney = truth(1, "kidney_left")
    to_ras = patient(1).volume.ijk_to_ras
    middle = np.argwhere(kidney).mean(axis=0)[::-1] @ to_ras[:3, :3].T + to_ras[:3, 3]
    outlined.page.locator("[data-outline=kidney_left] button").focus()
    outlined.page.keyboard.press("Enter")
    outlined.wait(f"Math.abs(window.trame.state.get('slices').scan1axial.value - {middle[2]}) < 12")
    leftward = outlined.state("slices")["scan1sagittal"]["value"]
    assert abs(-leftward - middle[0]) < 12
    assert contour(outlined, "scan1axial", "kidney_left") > 30


def test_the_downloads_are_the_files_of_the_command(outlined, tmp_path):
    from AnatomicalEmbedding.segmentation.files import read_segments
    from AnatomicalEmbedding.segmentation.table import COLUMNS

    with zipfile.ZipFile(outlined.download("export-outlines", tmp_path)) as packed:
        assert sorted(packed.namelist()) == ["current.seg.nrrd", "head.seg.nrrd", "volumes.csv"]
        packed.extractall(tmp_path)
    found, expected = read_segments(tmp_path / "current.seg.nrrd"), truth(1, "spleen")
    mask = found.voxels == found.values["spleen"]
    assert 2 * (mask & expected).sum() / (mask.sum() + expected.sum()) > 0.8
    assert np.allclose(found.ijk_to_ras, patient(1).volume.ijk_to_ras, atol=1e-3)
    table = list(csv.DictReader((tmp_path / "volumes.csv").read_text().splitlines()))
    assert tuple(table[0]) == COLUMNS
    assert {(row["scan"], row["status"]) for row in table} == {("current", "whole"), ("head", "absent")}

    scene = read_bundle(outlined.export("scene", tmp_path), tmp_path)
    node = scene.GetFirstNodeByName("current outlined")
    names = [node.GetSegmentation().GetNthSegment(n).GetName() for n in range(len(NAMES))]
    assert sorted(names) == sorted(NAMES)


def test_a_folder_without_a_segmenter_is_named(run, tmp_path):
    from AnatomicalEmbeddingViewer.logic.outlines import open_segmenter

    with pytest.raises(WeightsError, match="holds no trained segmenter"):
        open_segmenter(tmp_path, "cpu")
    assert open_segmenter(run, "cpu").names == tuple(sorted(NAMES))
