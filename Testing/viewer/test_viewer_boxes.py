"""Test boxes and crops in the browser, and the text that names the part of the body in each scan."""

import numpy as np
import pytest

pytest.importorskip(
    "trame_slicer",
    reason="runs in an environment with trame-slicer[standalone]; `make test` makes it",
)


def test_a_box_is_found_and_drawn_and_its_crop_holds_the_scans_own_voxels(
    page, scan_files, pictures, tmp_path
):
    from scans import patient

    from AnatomicalEmbedding import Volume

    assert "from " in page.page.locator(".row h2 small").first.inner_text()  # the part of the body
    page.press("tab-boxes")
    page.page.check("input[value=liver]")
    page.press("boxes-find")
    page.page.locator("[data-structure=liver] .answer:is(.matched, .uncertain)").nth(1).wait_for()
    page.page.locator("[data-test=boxes-find]").wait_for()
    page.watch_pictures()
    page.page.locator("[data-structure=liver] .answer[data-answer=prior]").click()
    page.wait("window.pictures.scan0axial > 0")
    picture = page.picture("scan0axial")
    assert (
        (picture.max(axis=2) - picture.min(axis=2)) > 100
    ).sum() > 100  # the scan itself is grey
    page.page.screenshot(path=pictures / "boxes.png")
    page.press("crop")
    with page.page.expect_download() as waiting:
        page.page.locator("[data-test=crop-download]").first.click()
    path = tmp_path / waiting.value.suggested_filename
    waiting.value.save_as(path)
    crop = Volume.read(path)
    scan = Volume.read(scan_files[0])
    assert np.prod(crop.shape) < np.prod(scan.shape)
    corner = np.linalg.inv(scan.ijk_to_ras) @ crop.ijk_to_ras[:, 3]
    i, j, k = np.round(corner[:3]).astype(int)
    n_k, n_j, n_i = crop.shape
    np.testing.assert_array_equal(crop.voxels, scan.voxels[k : k + n_k, j : j + n_j, i : i + n_i])
    assert crop.contains(patient(0).points_ras["liver_dome"][None] - (0, 0, 10))[0]
    page.page.click("[title='Remove this crop']")
    page.page.click("[title='Remove all boxes']")
    page.wait("!document.querySelector('[data-structure]')")
