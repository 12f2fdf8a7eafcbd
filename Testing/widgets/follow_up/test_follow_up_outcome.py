"""What the follow-up panel makes of a reading: response, trend, next step, files; and coming and going."""

import csv
import threading

import pydicom
import qt_labels
import slicer
from follow_up_actions import column
from followup.dicom_series import write_ct_series
from scans import patient


def responses(reader):
    table = reader.panel.response.table
    return [[table.item(row, n).text() for n in range(1, table.columnCount)] for row in range(4)]


def read_all(reader, sizes):
    """Confirm everything, with these long axes by lesion and study; None: not visible."""
    for lesion, lengths in sizes.items():
        for number, length in enumerate(lengths):
            reader.go(lesion, number)
            if length is None:
                reader.press("N")
            else:
                reader.measure(number, length)


# -- response


def test_sums_and_response_come_from_what_was_confirmed(prepared):
    read_all(prepared, {"L1": (30.0, 15.0, 24.0), "L2": (20.0, 15.0, None)})
    assert responses(prepared) == [
        ["50.0 mm", "30.0 mm", "24.0 mm"],
        ["–", "-40 %", "-52 %"],
        ["–", "-40 %", "-20 %"],
        ["baseline", "PR", "PR"],
    ]
    assert prepared.panel.response.table.item(3, 2).toolTip().startswith("Partial response")
    assert prepared.panel.response.missing.isHidden()


def test_what_is_missing_is_reported_for_the_study_that_one_is_at(prepared):
    read_all(prepared, {"L1": (30.0, 15.0), "L2": (20.0, 15.0)})
    prepared.go("L1", 2)
    missing = qt_labels.plain(prepared.panel.response.missing.text)
    assert missing.count("Missing: ") == 1
    assert "L1, L2: only proposed in 2024-03-01" in missing
    assert [row[2] for row in responses(prepared)] == ["–", "–", "–", "not evaluable"]
    prepared.go("L1", 1)
    assert "2024-03-01" not in qt_labels.plain(prepared.panel.response.missing.text)


# -- what to do next


def test_next_steps_of_a_reading(prepared):
    label = prepared.ui.nextStepLabel
    assert label.text.startswith("Still to review: 4. Go to each with J")
    for _ in range(4):
        prepared.press("J")
        prepared.press("C")
    assert "Measure the targets" in label.text
    read_all(prepared, {"L1": (30.0, 15.0, 24.0), "L2": (20.0, 15.0, 10.0)})
    assert "The response and the reports are below" in label.text


def test_every_disabled_button_says_what_is_missing(kit, module, reader):
    panel = reader.panel
    for _ in range(2):
        buttons = panel.actions._buttons.values()
        for button in (*buttons, reader.ui.undoButton, reader.ui.redoButton, reader.ui.exportButton):
            assert button.enabled or button.toolTip, button.objectName
            assert button.toolTip.endswith("."), button.objectName
        reader.mark("carina")


# -- files


def test_files_are_written_to_the_folder_and_unreviewed_places_are_reported(prepared, tmp_path):
    kit, ui = prepared.kit, prepared.ui
    read_all(prepared, {"L1": (30.0,)})
    assert qt_labels.plain(ui.exportLabel.text).startswith("Unreviewed proposals: 4.")
    folder = tmp_path / "out"
    folder.mkdir()
    kit.dialogs.answer("directory", str(folder))
    ui.recordBox.click()
    prepared.export()
    assert sorted(path.name for path in folder.iterdir()) == [
        "follow-up-Miller.csv",
        "follow-up-Miller.followup.json",
        "follow-up-Miller.html",
    ]
    with (folder / "follow-up-Miller.csv").open(encoding="utf-8-sig") as file:
        rows = list(csv.DictReader(file))
    assert sum(row["flags"] == "UNCONFIRMED" for row in rows) == 4
    assert "data:image" in (folder / "follow-up-Miller.html").read_text(encoding="utf-8")
    assert "Written: " in ui.exportedLabel.text


class Database:
    """What the DICOM module knows: files by instance UID."""

    isOpen = True  # noqa: N815 - Slicer's name

    def __init__(self, files) -> None:
        self.fileForInstance = files.get


def test_a_study_from_dicom_is_reported_and_the_others_are_reported(prepared, three, tmp_path, monkeypatch):
    files = write_ct_series(tmp_path / "series", patient(0).volume)
    slices = {str(pydicom.dcmread(path).SOPInstanceUID): str(path) for path in files}
    monkeypatch.setattr(slicer, "dicomDatabase", Database(slices), raising=False)
    three[0].SetAttribute("DICOM.instanceUIDs", " ".join(slices))
    prepared.go("L1", 0)
    prepared.measure(0, 20.0)
    assert prepared.ui.srBox.enabled
    folder = tmp_path / "out"
    folder.mkdir()
    prepared.kit.dialogs.answer("directory", str(folder))
    prepared.ui.csvBox.click()
    prepared.ui.reportBox.click()
    prepared.export()
    (path,) = folder.iterdir()
    assert path.name == "follow-up-Miller-2023-03-01.sr.dcm"
    assert pydicom.dcmread(path).Modality == "SR"
    assert "follow-up-Miller-2024-03-01.sr.dcm was not written" in prepared.ui.exportedLabel.text


def test_a_missing_package_is_installed_on_agreement_or_reported(prepared, tmp_path, monkeypatch):
    from AnatomicalEmbeddingLib.followup import ExportPanel
    from AnatomicalEmbeddingLib.shared.panels.PackageSetup import InstallError

    missing, asked = {"html": ["jinja2"]}, []

    def refuse(names, _folder):
        asked.append(names)
        raise InstallError("You declined.")

    monkeypatch.setattr(ExportPanel, "missingForReport", lambda kind: missing.get(kind, []))
    monkeypatch.setattr(ExportPanel, "install", refuse)
    prepared.kit.dialogs.answer("directory", str(tmp_path))
    prepared.export()
    assert asked == [["jinja2"]]
    assert "HTML report was not written: it needs jinja2. You declined." in prepared.ui.exportedLabel.text
    assert [path.name for path in tmp_path.glob("follow-up*")] == ["follow-up-Miller.csv"]
    monkeypatch.setattr(ExportPanel, "install", lambda names, _folder: missing.clear())
    prepared.export()
    assert (tmp_path / "follow-up-Miller.html").is_file()


def test_what_reports_need_is_among_the_requirements(kit):
    from slicer.packaging import load_requirements

    from AnatomicalEmbeddingLib.shared.panels import PackageSetup

    listed = {each.name for each in load_requirements(PackageSetup.REQUIREMENTS_FILE)}
    assert {"jinja2", "pillow", "highdicom"} <= listed
    assert not any(PackageSetup.missingForReport(kind) for kind in ("csv", "html", "sr", "record"))


# -- coming and going


def test_a_finished_follow_up_is_whole_again_after_loading(prepared, tmp_path):
    """Into a panel that is open: the table, the response, the export and the next step, without any preparation."""
    kit, panel = prepared.kit, prepared.panel
    read_all(prepared, {"L1": (20.0, 18.0, 12.0), "L2": (30.0, 30.0, None)})
    before, step = responses(prepared), panel.ui.nextStepLabel.text
    prepared.logic.poll()  # what the mouse placed in is gone
    path = kit.save_scene(tmp_path / "follow-up.mrb")
    kit.close_scene()
    kit.load_scene(path)
    kit.spin(lambda: prepared.table.rowCount == 2)
    kit.spin(lambda: responses(prepared) == before)
    assert panel.ui.exportButton.enabled
    assert panel.ui.nextStepLabel.text == step
    assert not panel.ui.responseSection.collapsed


def test_the_panel_closed_while_working_gives_everything_back(kit, reader):
    reader.mark("carina")
    store = reader.panel.session.store
    assert store.busy
    kit.close(reader.panel)
    assert not store.busy
    assert not reader.panel.session.attached
    assert not [thread for thread in threading.enumerate() if thread.name == "AnatomicalEmbedding"]


def test_reloading_the_module_changes_nothing(kit, module, prepared):
    prepared.go("L1", 1)
    prepared.press("C")
    before = [column(prepared.table, n) for n in range(4)]
    count = kit.scene.GetNumberOfNodes()
    kit.close(prepared.panel)
    panel = kit.open(module)
    assert [column(panel.lesionTable.widget, n) for n in range(4)] == before
    assert kit.scene.GetNumberOfNodes() == count
    kit.press(panel.lesionTable.widget, "W")
    assert panel.logic.placing.active, "the keys act once, on the new panel"
    assert not prepared.logic.placing.active


def test_a_study_that_is_gone_stays_in_the_table_with_what_was_entered(kit, prepared, three):
    prepared.go("L1", 1)
    prepared.press("C")
    kit.scene.RemoveNode(three[1])
    kit.spin(lambda: prepared.table.horizontalHeaderItem(2).text() == "2023-09-01\nnot loaded")
    assert prepared.cell(0, 2) == "✓ confirmed"
    prepared.choice.choose("L1", prepared.logic.record.studies[1].key)
    assert "This study is not loaded" in prepared.ui.notVisibleButton.toolTip
