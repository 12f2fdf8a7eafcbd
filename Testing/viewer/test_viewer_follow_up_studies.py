"""The patient's studies on the follow-up page: dates, scans that come and go, other patients, the demo."""

import zipfile

import numpy as np
import pytest

pytest.importorskip("trame_slicer", reason="runs in an environment with trame-slicer[standalone]; `make test` makes it")

from browsing import Running
from follow_up_reader import Reading, place
from followup.dicom_series import write_ct_series

from AnatomicalEmbedding.phantom import make_phantom


@pytest.fixture(scope="module")
def followed(reading):
    """One lesion, confirmed in both studies."""
    reading.mark_and_confirm("L1", 0.5, 0.45)
    return reading


def test_dates_can_be_typed_and_the_order_follows(followed):
    date = followed.page.locator("[data-study=current] input[type=text]")
    date.fill("2023-02-30")
    date.press("Enter")
    assert "2023-02-30" in followed.wait_sentence("is no date")
    followed.dismiss_all()
    date.fill("2023-02-03")
    date.press("Enter")
    followed.wait("document.querySelectorAll('.studies .name')[0].textContent === 'current'")
    assert followed.cells()["L1"][0].startswith("✓ baseline")
    assert followed.page.locator(".lesions thead th").nth(1).inner_text().startswith("2023-02-03")
    followed.page.locator("[data-study=current] input[type=text]").fill("")
    followed.key("Enter")
    followed.wait("document.querySelectorAll('.studies .name')[0].textContent === 'prior'")


def test_an_uploaded_dicom_study_joins_the_patient_and_has_a_report(followed, studies, tmp_path):
    """Headers stay for the report when the upload's files have gone, and go with the scan."""
    scan = make_phantom(71, (4.0, 4.0, 6.0), (150.0, 450.0)).volume
    write_ct_series(tmp_path / "later", scan, StudyDate="20250102")
    with zipfile.ZipFile(tmp_path / "later.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        for path in (tmp_path / "later").iterdir():
            archive.write(path, path.name)
    followed.send(tmp_path / "later.zip")
    followed.wait_ready(3)
    followed.wait_cell("L1", 2, "proposed|uncertain|in scan")
    assert len(list(followed.running.temporary.glob("*/headers-*/*.dcm"))) == len(scan.voxels)
    assert not list(followed.running.temporary.glob("*/upload-*"))
    followed.choose("L1", 2)
    followed.key("c")
    followed.wait_cell("L1", 2, "confirmed")
    assert "follow-up-2025-01-02.sr.dcm" in followed.exported(tmp_path)
    followed.dismiss_all()
    followed.page.click("li[data-scan=later] button.bare")
    followed.wait("document.querySelectorAll('.lesions thead th')[3].textContent.includes('not loaded')")
    assert not list(followed.running.temporary.glob("*/headers-*"))
    assert followed.cells()["L1"][2].startswith("✓")


def test_another_patient_s_scan_is_kept_apart(followed, tmp_path):
    make_phantom(72, (5.0, 5.0, 6.0), (150.0, 450.0)).volume.write(tmp_path / "stranger.nii.gz")
    followed.send(tmp_path / "stranger.nii.gz")
    followed.wait("document.querySelectorAll('[data-test=follow-patient] option').length === 2")
    before = followed.cells()
    assert followed.page.locator("[data-study=stranger]").count() == 0
    followed.page.select_option("[data-test=follow-patient]", label="no patient in the file")
    followed.page.locator("[data-study=stranger]").wait_for()
    assert followed.cells() == {}
    followed.page.select_option("[data-test=follow-patient]", label="Test Patient")
    followed.wait(f"document.querySelectorAll('[data-lesion]').length === {len(before)}")
    assert followed.cells() == before


@pytest.mark.long
def test_the_demo_patient_has_been_read_once(browser, tmp_path):
    """Lesions of the first study are marked where they are, and measured."""
    from AnatomicalEmbeddingViewer.logic.demo_follow_up import make_patient

    from AnatomicalEmbedding.phantom.followup import VISIBLE

    with Running(tmp_path, "--demo-follow-up") as program:
        demo = Reading(browser, program)
        seen = [each.states[0] for each in make_patient().lesions if each.states[0].state == VISIBLE]
        demo.wait(f"document.querySelectorAll('[data-lesion]').length === {len(seen)}")
        rows = demo.table(tmp_path)
        demo.close()
        assert demo.faults == []
        assert program.errors() == []
    for n, state in enumerate(seen, 1):
        row = rows[f"L{n}", "Baseline"]
        assert np.linalg.norm(place(row) - state.point_ras) < 0.1
        assert float(row["long_axis_mm"]) == pytest.approx(2 * state.radius_mm, rel=0.25)
