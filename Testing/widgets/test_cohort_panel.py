"""Test the section "Cohort" of Anatomical Landmarks: places in many scans; a double click loads a scan."""

from scans import patient


def write_places(folder, count: int = 2) -> str:
    lines = ["scan,status,probability,expected_error_mm,r,a,s"]
    for number in range(count):
        path = folder / f"patient_{number}.nii"
        patient(number).volume.write(path)
        r, a, s = patient(number).points_ras["carina"]
        chance = ("matched,0.93,4.1", "uncertain,,")[number]
        lines.append(f"{path},{chance},{r:.2f},{a:.2f},{s:.2f}")
    lines.append(f"{folder / 'head.nii'},absent,0.01,,,,")
    (folder / "places.csv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    return str(folder / "places.csv")


def cells(table) -> list[list[str]]:
    return [
        [table.item(row, column).text() for column in range(table.columnCount)]
        for row in range(table.rowCount)
    ]


def open_places(kit, panel, path):
    kit.dialogs.answer("open_file", str(path))
    kit.click(panel.ui.cohortButton)


def test_a_bad_table_is_a_sentence_and_the_next_one_is_taken(kit, tmp_path):
    panel = kit.open(kit.load_module("AnatomicalLandmarks"))
    panel.ui.cohortSection.collapsed = False
    bad = tmp_path / "bad.csv"
    bad.write_text("a,b\n1,2\n")
    open_places(kit, panel, bad)
    assert "bad.csv: this file has other columns" in panel.ui.cohortLabel.text
    open_places(kit, panel, write_places(tmp_path))
    assert "bad.csv" not in panel.ui.cohortLabel.text
    assert panel.ui.cohortTable.rowCount == 2
    (tmp_path / "patient_0.nii").unlink()
    panel.ui.cohortTable.cellDoubleClicked.emit(0, 0)
    kit.spin(lambda: panel.hits.loading is None, 30)
    assert "patient_0.nii: this scan does not exist any more" in panel.ui.cohortLabel.text
