"""Follow-up in the browser: lesions marked, proposed, confirmed, moved and measured; and what leaves it."""

import csv
import io
import json
import re
import zipfile

import numpy as np
import pytest

pytest.importorskip("trame_slicer", reason="runs in an environment with trame-slicer[standalone]; `make test` makes it")

from browsing import Page, Running
from followup.dicom_series import write_ct_series

from AnatomicalEmbedding.phantom import make_phantom

DAYS = {"prior": "20240115", "current": "20240711"}
CLOSE_MM = 130.0  # across the shorter side of a view, close up


@pytest.fixture(scope="module")
def studies(tmp_path_factory):
    """DICOM folders of one synthetic patient on two days; anatomy lies at the same RAS places in both."""
    folder = tmp_path_factory.mktemp("studies")
    scans = [make_phantom(71, (4.0, 4.0, 4.0), (150.0, 480.0)), make_phantom(71, (3.0, 3.0, 5.0), (200.0, 480.0))]
    for (name, day), scan in zip(DAYS.items(), scans, strict=True):
        write_ct_series(folder / name, scan.volume, StudyDate=day)
    return folder


@pytest.fixture(scope="module")
def reading(browser, studies, tmp_path_factory):
    """The page with both studies, given latest first, and the follow-up in front."""
    with Running(tmp_path_factory.mktemp("run"), str(studies / "current"), str(studies / "prior")) as program:
        opened = Reading(browser, program)
        opened.wait_ready(2)
        opened.press("tab-lesions")
        opened.wait("!!document.querySelector('[data-study=prior]')")
        yield opened
        opened.close()
        assert opened.faults == []
        assert program.errors() == []


class Reading(Page):
    """The page as a reader uses it."""

    def key(self, key: str) -> None:
        self.page.keyboard.press(key)

    def cells(self) -> dict[str, list[str]]:
        """Lesion -> what each study's cell says, in order of time."""
        return self.page.evaluate(
            """() => Object.fromEntries([...document.querySelectorAll('[data-lesion]')].map((row) => [
                row.dataset.lesion,
                [...row.querySelectorAll('td')].map(
                    (cell) => [...cell.children].map((each) => each.textContent).join(' ')),
            ]))"""
        )

    def wait_cell(self, lesion: str, column: int, words: str) -> str:
        """Until a cell says these words; all that it says."""
        cell = self.page.locator(f"[data-lesion={lesion}] [data-cell='{column}']", has_text=re.compile(words))
        cell.wait_for()
        return self.cells()[lesion][column]

    def choose(self, lesion: str, column: int) -> None:
        self.page.click(f"[data-lesion={lesion}] [data-cell='{column}']")
        self.page.locator(f"[data-lesion={lesion}] [data-cell='{column}'].here").wait_for()

    def begin(self, key: str, action: str) -> None:
        """Press a key after which the mouse places something, and wait until it does."""
        self.key(key)
        self.page.locator(f"[data-test='{action}'].on").wait_for()

    def mark(self, view: str, across: float, down: float) -> None:
        self.begin("w", "act-new")
        self.click(view, across, down)

    def view_of(self, study: str) -> str:
        """Its axial view."""
        cell = self.page.locator(".row", has=self.page.locator("h2 b", has_text=study)).locator(".cell").first
        return cell.get_attribute("data-view")

    def mm_across(self, view: str) -> float:
        """What a view shows across its width, close up."""
        box = self.page.locator(f"[data-view={view}]").bounding_box()
        return CLOSE_MM * box["width"] / min(box["width"], box["height"])

    def close_up(self) -> None:
        if not self.state("close_up"):
            self.key("z")
            self.wait("window.trame.state.get('close_up')")
        self.page.wait_for_timeout(300)  # views have their new size

    def exported(self, folder) -> dict[str, bytes]:
        with zipfile.ZipFile(self.download("follow-export", folder)) as archive:
            return {name: archive.read(name) for name in archive.namelist()}

    def table(self, folder) -> dict[tuple[str, str], dict]:
        """(lesion, study) -> row of the CSV."""
        text = self.exported(folder)["follow-up.csv"].decode("utf-8-sig")
        return {(row["lesion"], row["study"]): row for row in csv.DictReader(io.StringIO(text))}


def place(row: dict) -> np.ndarray:
    return np.array([float(row[axis]) for axis in ("R_mm", "A_mm", "S_mm")])


def test_studies_are_in_the_order_of_their_dicom_dates(reading):
    dates = reading.page.locator(".studies input[type=text]")
    assert [dates.nth(n).input_value() for n in range(2)] == ["2024-01-15", "2024-07-11"]
    assert reading.page.locator(".studies .name").all_inner_texts() == ["prior", "current"]
    assert reading.page.locator(".row h2 b").all_inner_texts() == ["prior", "current"]
    assert "Press New lesion" in reading.page.locator("[data-test=follow-next]").inner_text()


def test_a_lesion_is_proposed_where_it_is_in_the_other_study_and_confirmed_by_key(reading, tmp_path):
    reading.mark(reading.view_of("prior"), 0.5, 0.45)
    assert "proposed" in reading.wait_cell("L1", 1, "proposed|uncertain")
    assert reading.cells()["L1"][0] == "✓ baseline"
    assert reading.page.locator("[data-test=todo]").inner_text().startswith("1 proposed")
    rows = reading.table(tmp_path)
    assert rows["L1", "current"]["flags"] == "UNCONFIRMED"
    assert rows["L1", "current"]["reviewed"] == "no"
    assert rows["L1", "prior"]["flags"] == ""
    assert np.linalg.norm(place(rows["L1", "prior"]) - place(rows["L1", "current"])) < 10
    reading.key("j")
    reading.page.locator("[data-lesion=L1] [data-cell='1'].here").wait_for()
    reading.key("c")
    reading.wait_cell("L1", 1, "confirmed")
    assert "every place" in reading.page.locator("[data-test=todo]").inner_text()
    assert not reading.state("crosshair")  # C of the toolbar
    confirmed = reading.table(tmp_path)["L1", "current"]
    assert confirmed["flags"] == ""
    assert (place(confirmed) == place(rows["L1", "current"])).all()


def test_a_proposal_is_moved_to_where_the_user_clicks(reading, tmp_path):
    reading.mark(reading.view_of("prior"), 0.35, 0.5)
    reading.wait_cell("L2", 1, "proposed|uncertain")
    reading.choose("L2", 1)
    reading.close_up()
    before = place(reading.table(tmp_path)["L2", "current"])
    view = reading.view_of("current")
    reading.begin("m", "act-move")
    reading.click(view, 0.6, 0.5)  # the proposal is in the middle
    reading.wait_cell("L2", 1, "moved")
    after = place(reading.table(tmp_path)["L2", "current"])
    assert after - before == pytest.approx([-0.1 * reading.mm_across(view), 0, 0], abs=1.5)


def test_not_visible_undone_and_done_again(reading):
    reading.choose("L2", 1)
    reading.key("n")
    reading.wait_cell("L2", 1, "disappeared")
    reading.key("Control+z")
    reading.wait_cell("L2", 1, "moved")
    reading.key("Control+Shift+z")
    reading.wait_cell("L2", 1, "disappeared")
    reading.press("undo")
    reading.wait_cell("L2", 1, "moved")


def draw(reading, key: str, action: str, view: str, start: tuple, end: tuple) -> None:
    reading.begin(key, action)
    reading.click(view, *start)
    reading.click(view, *end)


def shown_sums(reading) -> list[str]:
    return reading.page.locator("[data-response=sum] td").all_inner_texts()


def test_axes_drawn_are_sizes_and_sums_follow(reading, tmp_path):
    """Nothing is summed before every target is measured in the study; what is missing is said."""
    mm = {}
    for lesion, shares in {"L1": (0.1, 0.2), "L2": (0.12, 0.15)}.items():
        for column, (study, share) in enumerate(zip(DAYS, shares, strict=True)):
            reading.choose(lesion, column)
            reading.close_up()
            view = reading.view_of(study)
            mm[lesion, study] = share * reading.mm_across(view)
            draw(reading, "l", "act-long-axis", view, (0.5 - share / 2, 0.5), (0.5 + share / 2, 0.5))
            reading.wait_cell(lesion, column, r"\d mm")
            if (lesion, study) == ("L1", "prior"):
                assert shown_sums(reading) == ["–", "–"]
                assert "L2" in reading.page.locator("[data-test=missing]").inner_text()
    rows = reading.table(tmp_path)
    for key, length in mm.items():
        assert float(rows[key]["long_axis_mm"]) == pytest.approx(length, abs=1.5)
    sums = [sum(float(rows[lesion, study]["long_axis_mm"]) for lesion in ("L1", "L2")) for study in DAYS]
    assert shown_sums(reading) == [f"{total:.1f} mm" for total in sums]
    assert reading.page.locator("[data-response=category] td").all_inner_texts() == ["baseline", "PD"]
    assert reading.page.locator("[data-test=chart] svg text", has_text="sum of targets").count() == 1
    draw(reading, "s", "act-short-axis", reading.view_of("current"), (0.5, 0.47), (0.5, 0.53))
    reading.wait_cell("L2", 1, r"\d.×.\d+ mm")


def test_a_carried_over_axis_counts_once_it_is_accepted(reading, tmp_path):
    reading.mark(reading.view_of("prior"), 0.4, 0.4)
    reading.wait_cell("L3", 1, "proposed|uncertain")
    reading.choose("L3", 0)
    view = reading.view_of("prior")
    draw(reading, "l", "act-long-axis", view, (0.45, 0.5), (0.55, 0.5))
    reading.wait_cell("L3", 0, r"\d mm")
    length = reading.cells()["L3"][0].split()[-2]
    assert f"({length})" in reading.wait_cell("L3", 1, rf"\({length}\)")
    reading.choose("L3", 1)
    reading.key("c")
    reading.wait_cell("L3", 1, "confirmed")
    assert reading.table(tmp_path)["L3", "current"]["flags"] == "SIZE UNCONFIRMED"
    reading.key("a")
    reading.wait_cell("L3", 1, rf"{length} mm")
    assert reading.table(tmp_path)["L3", "current"]["flags"] == ""


def test_keys_do_nothing_while_a_name_is_typed(reading, tmp_path):
    reading.choose("L3", 1)
    before = reading.cells()
    reading.page.click("[data-test=lesion-name]")
    reading.page.keyboard.type("cnow <b>")
    reading.page.keyboard.press("Enter")
    reading.wait("document.querySelector('[data-lesion=L3] th').textContent.includes('cnow <b>')")
    assert reading.cells() == before
    reading.page.fill("[data-test=lesion-site]", "=liver")
    reading.page.keyboard.press("Enter")
    reading.page.uncheck("[data-test=lesion-target]")
    reading.wait("document.querySelector('[data-lesion=L3] th small').textContent === 'non-target · =liver'")
    row = reading.table(tmp_path)["L3", "current"]
    assert (row["name"], row["site"], row["target"]) == ("cnow <b>", "'=liver", "no")


def test_merged_with_another_and_a_part_of_another(reading, tmp_path):
    reading.choose("L3", 1)
    reading.page.select_option("[data-test=lesion-merge]", "L2")
    reading.wait_cell("L3", 1, "merged with L2")
    reading.page.select_option("[data-test=lesion-split]", "L1")
    reading.wait("document.querySelector('[data-lesion=L3] th').title.includes('L1')")
    row = reading.table(tmp_path)["L3", "current"]
    assert (row["merged_with"], row["split_from"]) == ("L2", "L1")
    reading.key("o")
    reading.wait_cell("L3", 1, "outside scan")


def test_what_cannot_be_done_says_why(reading):
    reading.choose("L1", 1)
    assert "off" in reading.page.get_attribute("[data-test=act-confirm]", "class")
    reading.key("c")
    assert "L1" in reading.wait_sentence("looked at here already")
    reading.dismiss_all()


def test_escape_gives_the_mouse_back(reading):
    before = reading.cells()
    reading.begin("w", "act-new")
    reading.key("Escape")
    reading.page.locator("[data-test=act-new]:not(.on)").wait_for()
    reading.click(reading.view_of("prior"), 0.3, 0.3)
    reading.page.wait_for_timeout(300)
    assert reading.cells() == before


def test_the_zip_holds_what_it_says(reading, tmp_path):
    files = reading.exported(tmp_path)
    names = {"follow-up.csv", "follow-up.html", "follow-up.followup.json"}
    reports = {name: content for name, content in files.items() if name.endswith(".sr.dcm")}
    assert files.keys() - reports.keys() == names
    assert reports.keys() == {"follow-up-2024-01-15.sr.dcm", "follow-up-2024-07-11.sr.dcm"}
    assert all(content[128:132] == b"DICM" for content in reports.values())
    page = files["follow-up.html"].decode()
    assert "<script" not in page
    assert "<b>" not in page.partition("cnow ")[2][:4]
    record = json.loads(files["follow-up.followup.json"])
    assert [lesion["id"] for lesion in record["lesions"]] == ["L1", "L2", "L3"]
    assert [study["date"] for study in record["studies"]] == ["2024-01-15", "2024-07-11"]


def test_a_record_comes_back(reading, tmp_path):
    """Removed by hand, then loaded from the file that was exported."""
    before = reading.cells()
    record = tmp_path / "case.followup.json"
    record.write_bytes(reading.exported(tmp_path)["follow-up.followup.json"])
    for lesion in before:
        reading.choose(lesion, 0)
        reading.press("act-remove")
        reading.wait(f"!document.querySelector('[data-lesion={lesion}]')")
    reading.page.set_input_files("[data-test=follow-load]", str(record))
    reading.wait(f"document.querySelectorAll('[data-lesion]').length === {len(before)}")
    assert reading.cells() == before


@pytest.mark.parametrize(
    ("content", "sentence"),
    [(b"no json", "case.followup.json: is not JSON"), (b"{}", "no follow-up"), (b" " * (5 * 2**20), "4 MB at most")],
)
def test_a_file_that_is_no_record_is_refused(reading, tmp_path, content, sentence):
    before = reading.cells()
    path = tmp_path / "case.followup.json"
    path.write_bytes(content)
    reading.page.set_input_files("[data-test=follow-load]", str(path))
    said = reading.wait_sentence(sentence)
    assert str(reading.running.temporary) not in said
    assert reading.cells() == before
    reading.dismiss_all()


def test_the_page_comes_back_as_it_was(reading):
    before = reading.cells()
    reading.page.reload()
    reading.wait(f"document.querySelectorAll('[data-lesion]').length === {len(before)}")
    assert reading.cells() == before
    assert reading.page.locator("[data-test=tab-lesions].on").count() == 1
    reading.wait("document.querySelectorAll('.row .cell img').length === 6")


def test_keys_are_the_toolbar_s_on_the_other_pages(reading):
    before = reading.cells()
    reading.press("tab-points")
    reading.page.locator("[data-test=tab-points].on").wait_for()
    for on in (True, False):
        reading.key("c")
        reading.wait(f"window.trame.state.get('crosshair') === {str(on).lower()}")
    reading.press("tab-lesions")
    reading.wait(f"document.querySelectorAll('[data-lesion]').length === {len(before)}")
    assert reading.cells() == before


def test_slicer_finds_the_follow_up_in_the_exported_scene(reading, tmp_path):
    from reading import read_bundle

    from AnatomicalEmbeddingLib.FollowUp.RecordNode import readRecord
    from AnatomicalEmbeddingLib.FollowUp.StudyOrder import patients
    from AnatomicalEmbeddingLib.SceneNodes import nodesOf

    rows = reading.table(tmp_path)
    scene = read_bundle(reading.export("scene", tmp_path), tmp_path)
    (patient,) = patients(scene)
    assert (patient.uid, patient.name) == ("P1", "Test Patient")
    assert [study.dateText for study in patient.studies] == ["2024-01-15", "2024-07-11"]
    (node,) = [node for node in nodesOf(scene, "vtkMRMLTextNode") if node.GetAttribute("AnatomicalEmbedding.FollowUp")]
    assert [lesion.id for lesion in readRecord(node).lesions] == ["L1", "L2", "L3"]
    lists = nodesOf(scene, "vtkMRMLMarkupsFiducialNode")
    found = {
        (
            each.GetNthControlPointLabel(n).split()[0],
            each.GetName().rpartition(" ")[2],
        ): each.GetNthControlPointPosition(n)
        for each in lists
        for n in range(each.GetNumberOfControlPoints())
    }
    placed = {key: row for key, row in rows.items() if row["R_mm"]}
    assert found.keys() == placed.keys()
    for key, row in placed.items():
        assert found[key] == pytest.approx(place(row), abs=0.01)
    assert nodesOf(scene, "vtkMRMLMarkupsLineNode")


def test_dates_can_be_typed_and_the_order_follows(reading):
    date = reading.page.locator("[data-study=current] input[type=text]")
    date.fill("2023-02-30")
    date.press("Enter")
    assert "2023-02-30" in reading.wait_sentence("is no date")
    reading.dismiss_all()
    date.fill("2023-02-03")
    date.press("Enter")
    reading.wait("document.querySelectorAll('.studies .name')[0].textContent === 'current'")
    assert reading.cells()["L1"][0].startswith("✓ baseline")
    assert reading.page.locator(".lesions thead th").nth(1).inner_text().startswith("2023-02-03")
    reading.page.locator("[data-study=current] input[type=text]").fill("")
    reading.key("Enter")
    reading.wait("document.querySelectorAll('.studies .name')[0].textContent === 'prior'")


def test_an_uploaded_dicom_study_joins_the_patient_and_has_a_report(reading, studies, tmp_path):
    """Headers stay for the report when the upload's files have gone, and go with the scan."""
    scan = make_phantom(71, (4.0, 4.0, 6.0), (150.0, 450.0)).volume
    write_ct_series(tmp_path / "later", scan, StudyDate="20250102")
    with zipfile.ZipFile(tmp_path / "later.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        for path in (tmp_path / "later").iterdir():
            archive.write(path, path.name)
    reading.send(tmp_path / "later.zip")
    reading.wait_ready(3)
    reading.wait_cell("L1", 2, "proposed|uncertain|in scan")
    assert len(list(reading.running.temporary.glob("*/headers-*/*.dcm"))) == len(scan.voxels)
    assert not list(reading.running.temporary.glob("*/upload-*"))
    reading.choose("L1", 2)
    reading.key("c")
    reading.wait_cell("L1", 2, "confirmed")
    assert "follow-up-2025-01-02.sr.dcm" in reading.exported(tmp_path)
    reading.dismiss_all()
    reading.page.click("li[data-scan=later] button.bare")
    reading.wait("document.querySelectorAll('.lesions thead th')[3].textContent.includes('not loaded')")
    assert not list(reading.running.temporary.glob("*/headers-*"))
    assert reading.cells()["L1"][2].startswith("✓")


def test_another_patient_s_scan_is_kept_apart(reading, tmp_path):
    make_phantom(72, (5.0, 5.0, 6.0), (150.0, 450.0)).volume.write(tmp_path / "stranger.nii.gz")
    reading.send(tmp_path / "stranger.nii.gz")
    reading.wait("document.querySelectorAll('[data-test=follow-patient] option').length === 2")
    before = reading.cells()
    assert reading.page.locator("[data-study=stranger]").count() == 0
    reading.page.select_option("[data-test=follow-patient]", label="no patient in the file")
    reading.page.locator("[data-study=stranger]").wait_for()
    assert reading.cells() == {}
    reading.page.select_option("[data-test=follow-patient]", label="Test Patient")
    reading.wait(f"document.querySelectorAll('[data-lesion]').length === {len(before)}")
    assert reading.cells() == before


def test_the_demo_patient_has_been_read_once(browser, tmp_path):
    """Lesions of the first study are marked where they are, and measured."""
    from viewer.logic.demo_follow_up import make_patient

    from AnatomicalEmbedding.phantom.followup import VISIBLE

    with Running(tmp_path, "--demo-follow-up") as program:
        demo = Reading(browser, program)
        demo.page.set_default_timeout(90_000)  # the phantom is made first
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
