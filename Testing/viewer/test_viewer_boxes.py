"""Organ boxes, crops and coverage in the browser."""

import numpy as np
import pytest

pytest.importorskip("trame_slicer", reason="runs in an environment with trame-slicer[standalone]; `make test` makes it")


@pytest.fixture(scope="module")
def with_boxes(page):
    page.press("tab-organs")
    page.page.check("input[value=liver]")
    page.press("boxes-find")
    page.wait(
        "!!document.querySelector('[data-structure=liver] .answer.matched, [data-structure=liver] .answer.uncertain')"
    )
    page.wait("!document.querySelector('[data-test=boxes-cancel]')")
    return page


def test_a_box_is_found_and_drawn(with_boxes, pictures):
    row = with_boxes.page.locator("[data-structure=liver] .answer[data-answer=prior]")
    with_boxes.watch_pictures()
    row.click()
    with_boxes.wait("window.pictures.scan0axial > 0")
    with_boxes.page.screenshot(path=pictures / "boxes.png")
    assert row.locator(".status").inner_text() in ("● found", "▲ cut", "found", "cut")


def test_a_crop_holds_the_liver_and_the_scans_own_voxels(with_boxes, scan_files, tmp_path):
    from scans import patient

    from AnatomicalEmbedding import Volume

    with_boxes.press("crop")
    with_boxes.page.locator("[data-test=crop-download]").first.wait_for()
    with with_boxes.page.expect_download() as waiting:
        with_boxes.page.locator("[data-test=crop-download]").first.click()
    path = tmp_path / waiting.value.suggested_filename
    waiting.value.save_as(path)
    crop, scan = Volume.read(path), Volume.read(scan_files[0])
    assert np.prod(crop.shape) < np.prod(scan.shape)
    corner = np.linalg.inv(scan.ijk_to_ras) @ crop.ijk_to_ras[:, 3]
    i, j, k = np.round(corner[:3]).astype(int)
    n_k, n_j, n_i = crop.shape
    np.testing.assert_array_equal(crop.voxels, scan.voxels[k : k + n_k, j : j + n_j, i : i + n_i])
    assert crop.contains(patient(0).points_ras["liver_dome"][None] - (0, 0, 10))[0]


def test_coverage_in_words(with_boxes):
    words = with_boxes.page.locator(".row h2 small").first.inner_text()
    assert words
    assert "lung" in words or "vertebra" in words or "from" in words


def test_another_scan_keeps_the_boxes(with_boxes):
    with_boxes.press("tab-points")
    with_boxes.press("tab-organs")
    assert with_boxes.page.locator("[data-structure=liver]").count() == 1
