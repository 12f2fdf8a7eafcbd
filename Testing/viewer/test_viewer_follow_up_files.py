"""Files of the follow-up page: the zip that leaves it, records that come back, and the scene for Slicer."""

import json

import pytest

pytest.importorskip("trame_slicer", reason="runs in an environment with trame-slicer[standalone]; `make test` makes it")

from follow_up_reader import place

from AnatomicalEmbedding.followup.lesions import Study
from AnatomicalEmbedding.followup.record import FollowUp
from AnatomicalEmbedding.followup.record_file import to_json

ELSEWHERE = FollowUp().with_studies([Study("x", "prior")]).mark("x", (1, 2, 3))


@pytest.fixture(scope="module", autouse=True)
def read(reading):
    """L1 confirmed in the current study, measured in the prior; L2 proposed in the current one, with a nasty name."""
    reading.mark_and_confirm("L1", 0.5, 0.45)
    reading.choose("L1", 0)
    reading.close_up()
    reading.draw("l", "act-long-axis", reading.view_of("prior"), (0.45, 0.5), (0.55, 0.5))
    reading.wait_cell("L1", 0, r"\d mm")
    reading.mark(reading.view_of("prior"), 0.35, 0.5)
    reading.wait_cell("L2", 1, "proposed|uncertain")
    reading.page.fill("[data-test=lesion-name]", "cnow <b>")
    reading.key("Enter")
    reading.wait("document.querySelector('[data-lesion=L2] th').textContent.includes('cnow <b>')")


@pytest.fixture
def record(reading, tmp_path):
    """What the page exports now."""
    path = tmp_path / "case.followup.json"
    path.write_bytes(reading.exported(tmp_path)["follow-up.followup.json"])
    return path


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
    assert [lesion["id"] for lesion in record["lesions"]] == ["L1", "L2"]
    assert [study["date"] for study in record["studies"]] == ["2024-01-15", "2024-07-11"]


def test_a_record_comes_back(reading, record):
    """Removed by hand, then loaded from the file that was exported."""
    before = reading.cells()
    for lesion in before:
        reading.choose(lesion, 0)
        reading.press("act-remove")
        reading.wait(f"!document.querySelector('[data-lesion={lesion}]')")
    reading.load(record)
    reading.wait(f"document.querySelectorAll('[data-lesion]').length === {len(before)}")
    assert reading.cells() == before
    assert reading.wait_sentence("new lesions") == "case.followup.json: new lesions: L1, L2 cnow <b>."
    reading.dismiss_all()


def test_what_was_entered_since_stays_and_undo_takes_a_record_back(reading, record):
    reading.choose("L1", 1)
    reading.key("n")
    reading.wait_cell("L1", 1, "disappeared")
    reading.choose("L2", 0)
    reading.press("act-remove")
    reading.wait("!document.querySelector('[data-lesion=L2]')")
    before = reading.cells()
    reading.load(record)
    reading.wait("!!document.querySelector('[data-lesion=L2]')")
    assert "disappeared" in reading.cells()["L1"][1]
    said = reading.wait_sentence("differs from")
    assert said == ("1 finding differs from that of case.followup.json and was kept as it is here: L1 in 2024-07-11.")
    reading.dismiss_all()
    reading.key("Control+z")
    reading.wait("!document.querySelector('[data-lesion=L2]')")
    assert reading.cells() == before
    reading.key("Control+z")
    reading.wait("!!document.querySelector('[data-lesion=L2]')")
    reading.key("Control+z")
    reading.wait_cell("L1", 1, "confirmed")


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (b"no json", "case.followup.json: is not JSON"),
        (b"{}", "not a follow-up"),
        (json.dumps(to_json(ELSEWHERE)).encode(), "case.followup.json: is about none of the scans loaded"),
        (b" " * (5 * 2**20), "4 MB at most"),
    ],
)
def test_a_file_that_is_no_record_of_the_patient_is_refused(reading, tmp_path, content, sentence):
    before = reading.cells()
    path = tmp_path / "case.followup.json"
    path.write_bytes(content)
    reading.load(path)
    said = reading.wait_sentence(sentence)
    assert str(reading.running.temporary) not in said
    assert reading.cells() == before
    reading.dismiss_all()


def test_slicer_finds_the_follow_up_in_the_exported_scene(reading, tmp_path):
    from reading import read_bundle

    from AnatomicalEmbeddingLib.followup.RecordNode import readRecord
    from AnatomicalEmbeddingLib.followup.StudyOrder import patients
    from AnatomicalEmbeddingLib.shared.SceneNodes import nodesOf

    rows = reading.table(tmp_path)
    scene = read_bundle(reading.export("scene", tmp_path), tmp_path)
    (patient,) = patients(scene)
    assert (patient.uid, patient.name) == ("P1", "Test Patient")
    assert [study.dateText for study in patient.studies] == ["2024-01-15", "2024-07-11"]
    (node,) = [node for node in nodesOf(scene, "vtkMRMLTextNode") if node.GetAttribute("AnatomicalEmbedding.FollowUp")]
    assert [lesion.id for lesion in readRecord(node).lesions] == ["L1", "L2"]
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
