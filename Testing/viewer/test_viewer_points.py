"""Test points in the browser: place, match, drag, rename, delete, undo and export."""

import csv
import json
import zipfile

import numpy as np
import pytest

from AnatomicalEmbedding.matching.match import match

pytest.importorskip(
    "trame_slicer",
    reason="runs in an environment with trame-slicer[standalone]; `make test` makes it",
)


def exported(page, folder) -> dict[str, dict[str, np.ndarray]]:
    """RAS mm of each point, by scan and label, in the exported files (LPS)."""
    found = {}
    with zipfile.ZipFile(page.export("points", folder)) as archive:
        for name in archive.namelist():
            points = json.loads(archive.read(name))["markups"][0]["controlPoints"]
            found[name.removesuffix(".mrk.json")] = {
                p["label"]: np.array(p["position"]) * (-1, -1, 1)
                for p in points
                if p["positionStatus"] == "defined"
            }
    return found


def test_a_click_has_the_engines_answer_and_the_table_states_it(
    page, scan_files, pictures, tmp_path
):
    from AnatomicalEmbedding import Volume, load_model

    point = page.add_point("scan0axial", 0.5, 0.45)
    page.page.screenshot(path=pictures / "click.png")
    places = exported(page, tmp_path)
    model = load_model(device="cpu")
    scans = [model.embed(Volume.read(path)) for path in scan_files]
    truth = match(scans[0], places["prior"][point["label"]][None], scans[1])
    assert np.linalg.norm(places["current"][point["label"]] - truth.points_ras[0]) < 0.5
    answer = point["answers"][0]
    assert (answer["scan"], answer["status"]) == ("current", truth.status[0])
    assert float(answer["error"].split()[1]) == pytest.approx(truth.expected_error_mm[0], abs=1)


def test_dragging_a_point_moves_its_answer(page, tmp_path):
    page.add_point("scan0axial", 0.6, 0.56)  # away from the point before it, which is in the middle
    page.place_mode(False)
    label = page.points()[0]["label"]
    place = page.points()[0]["place"]
    before = exported(page, tmp_path)
    view = "scan0coronal"  # the click has centred all views on the point
    start = page.at(view, 0.5, 0.5)
    end = page.at(view, 0.42, 0.5)
    page.page.mouse.move(start[0] - 30, start[1])
    page.page.mouse.move(*start)
    # the point is under the mouse
    page.wait(f"window.trame.state.get('{view}_active_view_cursor') === 'pointer'")
    page.drag(start, end)
    page.wait(f"document.querySelector('[data-point] .place').textContent !== {json.dumps(place)}")
    after = exported(page, tmp_path)
    moved = after["prior"][label] - before["prior"][label]
    assert abs(moved[0]) > 10
    assert abs(moved[2]) < 4
    assert np.linalg.norm(after["current"][label] - before["current"][label]) > 5


def test_rename_delete_undo_and_redo(page):
    present = "!!document.querySelector(\"[data-point='Lesion A']\")"
    count = len(page.points())
    page.page.locator("[data-point] input").first.fill("Lesion A")
    page.page.keyboard.press("Enter")
    page.wait(present)
    page.page.click("[data-point='Lesion A'] tr.point button")
    page.wait("!" + present)
    page.page.keyboard.press("Control+z")
    page.wait(present)
    page.page.keyboard.press("Control+Shift+z")
    page.wait("!" + present)
    assert page.page.locator("[data-test=redo]").is_disabled()
    page.press("undo")
    page.wait(present)
    assert len(page.points()) == count


def test_the_table_and_the_report_hold_the_points(page, tmp_path):
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


def test_the_page_answers_while_a_scene_is_written_and_slicer_opens_it_with_the_same_points(
    page, short_scan, tmp_path
):
    from browsing import read_bundle

    from AnatomicalEmbedding import Volume

    places = exported(page, tmp_path)
    voxels = short_scan.voxels.repeat(6, 0).repeat(6, 1).repeat(6, 2)
    # noise takes seconds to compress
    voxels += np.random.default_rng(3).integers(-60, 60, voxels.shape, np.int16)
    Volume(voxels, short_scan.ijk_to_ras @ np.diag([1 / 6, 1 / 6, 1 / 6, 1])).write(
        tmp_path / "large.nii"
    )
    page.send(tmp_path / "large.nii")
    page.page.locator("li[data-scan=large]").wait_for()
    page.press("cancel")
    page.press("export")
    with page.page.expect_download() as waiting:
        page.page.click("[data-test=export-scene]")
        writing = page.page.locator("[data-test=exporting]")
        writing.wait_for()
        page.press("grid")
        page.wait("document.querySelectorAll('.cell').length === 3")
        assert writing.is_visible()  # the server has answered before it has written all
    writing.wait_for(state="detached")
    waiting.value.save_as(tmp_path / "scene.mrb")
    scene = read_bundle(tmp_path / "scene.mrb", tmp_path)
    found = {}
    volumes = {}
    for n in range(scene.GetNumberOfNodesByClass("vtkMRMLMarkupsFiducialNode")):
        node = scene.GetNthNodeByClass(n, "vtkMRMLMarkupsFiducialNode")
        for k in range(node.GetNumberOfControlPoints()):
            at = np.array(node.GetNthControlPointPositionWorld(k))
            found.setdefault(node.GetNthControlPointLabel(k), []).append(at)
    for label, place in (each for by_label in places.values() for each in by_label.items()):
        assert min(np.linalg.norm(place - at) for at in found[label]) < 1e-3
    for n in range(scene.GetNumberOfNodesByClass("vtkMRMLScalarVolumeNode")):
        node = scene.GetNthNodeByClass(n, "vtkMRMLScalarVolumeNode")
        volumes[node.GetName()] = node.GetImageData().GetDimensions()
    assert volumes["large"] == voxels.shape[::-1]
    assert {"prior", "current"} <= volumes.keys()


def test_a_landmark_set_is_placed_in_all_scans_in_one_step(page, pictures, tmp_path):
    from scans import patient

    before = len(page.points())
    page.page.locator("[data-test=sets]").select_option("trunk")
    page.page.locator("[data-point='kidney upper pole left'] .answer:not(.pending)").wait_for()
    page.page.screenshot(path=pictures / "landmark-set.png")
    name = "kidney upper pole left"
    for number, scan in enumerate(("prior", "current")):
        truth = patient(number).points_ras["kidney_left_upper_pole"]
        # the kidneys of synthetic patients are simple: their poles lie a little elsewhere
        assert np.linalg.norm(exported(page, tmp_path)[scan][name] - truth) < 20
    page.press("undo")
    page.wait(f"document.querySelectorAll('[data-point]').length === {before}")
