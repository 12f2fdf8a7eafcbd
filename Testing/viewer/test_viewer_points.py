"""Points by the mouse in the browser: placed, answered, dragged, renamed, deleted, undone, exported."""

import csv
import json
import zipfile

import numpy as np
import pytest

from AnatomicalEmbedding.matching.match import match

pytest.importorskip("trame_slicer", reason="runs in an environment with trame-slicer[standalone]; `make test` makes it")


def lps(file) -> dict[str, np.ndarray]:
    """Label -> RAS mm of a .mrk.json."""
    points = json.loads(file)["markups"][0]["controlPoints"]
    return {p["label"]: np.array(p["position"]) * (-1, -1, 1) for p in points if p["positionStatus"] == "defined"}


def exported(page, folder) -> dict[str, dict[str, np.ndarray]]:
    with zipfile.ZipFile(page.export("points", folder)) as archive:
        return {name.removesuffix(".mrk.json"): lps(archive.read(name)) for name in archive.namelist()}


def test_a_click_is_answered_in_the_other_scan_where_it_belongs(page, scan_files, pictures, tmp_path):
    """What the page exports is what the engine answers to the very point that was clicked."""
    from AnatomicalEmbedding import Volume, load_model

    page.add_point("scan0axial", 0.5, 0.45)
    page.page.screenshot(path=pictures / "click.png")
    point = page.points()[0]
    assert point["answers"][0]["scan"] == "current"
    assert point["answers"][0]["status"] in ("matched", "uncertain")
    assert point["answers"][0]["error"].startswith("±")
    places = exported(page, tmp_path)
    model = load_model(device="cpu")
    scans = [model.embed(Volume.read(path)) for path in scan_files]
    truth = match(scans[0], places["prior"]["P1"][None], scans[1]).points_ras[0]
    assert np.linalg.norm(places["current"]["P1"] - truth) < 0.5


def test_several_points_in_a_row_without_pressing_place_again(page):
    before = len(page.points())
    page.add_point("scan0axial", 0.4, 0.5)
    page.add_point("scan0coronal", 0.45, 0.4)
    assert len(page.points()) == before + 2
    latest = page.page.locator("[data-point]").first  # the views show it, the table says so
    assert "selected" in latest.get_attribute("class").split()
    assert page.page.locator("[data-point].selected").count() == 1


def test_a_picture_that_has_not_changed_is_not_sent(page):
    """The point under the mouse, while one is placed, asks all views to be drawn; it is seen in one scan only."""
    page.place_mode()
    page.page.mouse.move(*page.at("scan0axial", 0.3, 0.3))
    page.page.wait_for_timeout(1000)
    page.watch_pictures()
    for step in range(5):
        page.page.mouse.move(*page.at("scan0axial", 0.3 + 0.05 * step, 0.3))
        page.page.wait_for_timeout(100)
    page.wait("window.pictures.scan0axial > 1")
    assert page.page.evaluate("window.pictures.scan1axial + window.pictures.scan1sagittal") == 0


def test_dragging_a_point_moves_its_answer(page, tmp_path):
    page.add_point("scan0axial", 0.6, 0.56)  # away from the point before it, which is in the middle
    page.place_mode(False)
    label, place = page.points()[0]["label"], page.points()[0]["place"]
    before = exported(page, tmp_path)
    view = "scan0coronal"  # the click has centred all views on the point
    start, end = page.at(view, 0.5, 0.5), page.at(view, 0.42, 0.5)
    mouse = page.page.mouse
    mouse.move(start[0] - 30, start[1])
    mouse.move(*start)
    page.wait(f"window.trame.state.get('{view}_active_view_cursor') === 'pointer'")  # the point is under the mouse
    mouse.down()
    mouse.move((start[0] + end[0]) / 2, start[1], steps=4)
    mouse.move(*end, steps=4)
    mouse.up()
    page.wait(f"document.querySelector('[data-point] .place').textContent !== {json.dumps(place)}")
    after = exported(page, tmp_path)
    moved = after["prior"][label] - before["prior"][label]
    assert abs(moved[0]) > 10
    assert abs(moved[2]) < 4
    assert np.linalg.norm(after["current"][label] - before["current"][label]) > 5


def test_rename_delete_undo_and_redo(page):
    label = page.points()[0]["label"]
    page.page.fill(f"[data-point='{label}'] input", "Lesion A")
    page.page.keyboard.press("Enter")
    page.wait("!!document.querySelector(\"[data-point='Lesion A']\")")
    count = len(page.points())
    page.page.click("[data-point='Lesion A'] tr.point button")
    page.wait(f"document.querySelectorAll('[data-point]').length === {count - 1}")
    page.press("undo")
    page.wait("!!document.querySelector(\"[data-point='Lesion A']\")")
    assert len(page.points()) == count
    page.press("redo")
    page.wait("!document.querySelector(\"[data-point='Lesion A']\")")
    assert len(page.points()) == count - 1
    page.page.keyboard.press("Control+z")
    page.wait("!!document.querySelector(\"[data-point='Lesion A']\")")
    page.page.keyboard.press("Control+Shift+z")
    page.wait("!document.querySelector(\"[data-point='Lesion A']\")")
    assert page.page.locator("[data-test=redo]").is_disabled()
    page.press("undo")
    page.wait("!!document.querySelector(\"[data-point='Lesion A']\")")
    assert len(page.points()) == count


def test_not_visible_by_hand_and_matched_again(page):
    row = page.page.locator("[data-point] .answer").first
    row.locator("button").click()
    page.page.locator("[data-point] .answer.removed").first.wait_for()
    assert page.points()[0]["answers"][0]["words"] == "not visible"
    page.page.locator("[data-point] .answer.removed button").first.click()
    page.wait("document.querySelectorAll('[data-point] .answer.removed').length === 0")


def test_another_template_has_points_of_its_own(page):
    before = page.points()
    page.page.check("li[data-scan=current] input[type=radio]")
    page.wait("document.querySelectorAll('[data-point]').length === 0")
    page.page.check("li[data-scan=prior] input[type=radio]")
    page.wait(f"document.querySelectorAll('[data-point]').length === {len(before)}")
    assert page.points() == before


def test_the_table_and_the_report(page, tmp_path):
    rows = list(csv.DictReader(page.export("table", tmp_path).open()))
    places = exported(page, tmp_path)
    for row in rows:
        if row["r"]:
            at = [float(row[axis]) for axis in "ras"]
            assert np.abs(places[row["scan"]][row["label"]] - at).max() < 1e-3
    assert {row["scan"] for row in rows} == {"prior", "current"}
    report = page.export("report", tmp_path).read_text()
    assert "Lesion A" in report
    assert "<script" not in report


def test_the_scene_reopens_with_the_same_points(page, tmp_path):
    import slicer
    from reading import read_bundle

    places = exported(page, tmp_path)
    scene = read_bundle(page.export("scene", tmp_path), tmp_path)
    assert slicer.vtkMRMLScene is type(scene)
    found = {}
    for n in range(scene.GetNumberOfNodesByClass("vtkMRMLMarkupsFiducialNode")):
        node = scene.GetNthNodeByClass(n, "vtkMRMLMarkupsFiducialNode")
        for k in range(node.GetNumberOfControlPoints()):
            if node.GetNthControlPointPositionStatus(k) == node.PositionDefined:
                at = np.array(node.GetNthControlPointPositionWorld(k))
                found.setdefault(node.GetNthControlPointLabel(k), []).append(at)
    for by_label in places.values():
        for label, place in by_label.items():
            assert min(np.linalg.norm(place - at) for at in found[label]) < 1e-3
    volumes = [
        scene.GetNthNodeByClass(n, "vtkMRMLScalarVolumeNode")
        for n in range(scene.GetNumberOfNodesByClass("vtkMRMLScalarVolumeNode"))
    ]
    assert {"prior", "current"} <= {volume.GetName() for volume in volumes if volume.GetImageData()}
