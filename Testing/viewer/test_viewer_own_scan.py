"""Two scans in the same millimetres, as in one scanner they lie: each shows its own marks alone; wheel, window and the
values in the views.
"""

import io
import re

import numpy as np
import pytest

pytest.importorskip("trame_slicer", reason="runs in an environment with trame-slicer[standalone]; `make test` makes it")

from PIL import Image

POINT = (64, 178, 255)  # the colours of a point of the template, and of what follows the mouse
FOLLOWING = (102, 255, 0)
VALUE = "window.trame.state.get('slices').scan{}axial.value"


@pytest.fixture(scope="module")
def arguments(tmp_path_factory) -> list[str]:
    """One patient twice, the second time four centimetres to the side: answers do not cover the points."""
    from scans import patient

    from AnatomicalEmbedding import Volume

    folder, volume = tmp_path_factory.mktemp("twice"), patient(0).volume
    paths = [folder / "first.nii.gz", folder / "second.nii.gz"]
    for path, aside in zip(paths, (0.0, 40.0), strict=True):
        matrix = np.array(volume.ijk_to_ras)
        matrix[0, 3] += aside
        Volume(volume.voxels, matrix).write(path)
    return [*map(str, paths)]


@pytest.fixture
def placing(page):
    """Place mode, and a point in the first scan; both scans show its height."""
    point = page.add_point("scan0axial", 0.4, 0.45)
    page.place_mode()
    yield page
    page.place_mode(False)
    page.page.click(f"[data-point={point['label']}] tr.point button")
    page.wait("document.querySelectorAll('[data-point]').length === 0")


def picture(page, view: str) -> np.ndarray:
    """(rows, columns, 3) of what a view shows, once it has come to rest."""
    box, before = page.page.locator(f"[data-view={view}]").bounding_box(), None
    clip = {"x": box["x"] + 30, "y": box["y"] + 40, "width": box["width"] - 60, "height": box["height"] - 80}
    for _ in range(40):
        page.page.wait_for_timeout(200)
        now = page.page.screenshot(clip=clip)
        if now == before:
            break
        before = now
    return np.asarray(Image.open(io.BytesIO(now)).convert("RGB"), dtype=int)


def pixels(page, view: str, colour: tuple[int, int, int]) -> int:
    return int((np.abs(picture(page, view) - colour).max(axis=2) < 40).sum())


def over(page, view: str, across: float, down: float) -> None:
    """Move the mouse to a place of a view."""
    x, y = page.at(view, across, down)
    page.page.mouse.move(x - 6, y)
    page.page.mouse.move(x, y)


def height(page, view: str) -> float:
    return page.state("slices")[view]["value"]


def test_points_of_one_scan_are_not_drawn_over_the_other(placing, pictures):
    over(placing, "scan1axial", 0.6, 0.6)
    assert height(placing, "scan1axial") == pytest.approx(height(placing, "scan0axial"), abs=6)
    placing.page.screenshot(path=pictures / "own-scan.png")
    assert pixels(placing, "scan0axial", POINT) > 20
    assert pixels(placing, "scan1axial", POINT) == 0
    assert pixels(placing, "scan0axial", FOLLOWING) == 0


def test_a_click_in_the_other_scan_still_places_a_point(placing):
    before = len(placing.points())
    placing.click("scan1axial", 0.55, 0.5)
    placing.wait(f"document.querySelectorAll('[data-point]').length === {before + 1}")
    placing.wait("document.querySelectorAll('[data-point] .answer.pending').length === 0")
    assert placing.points()[0]["answers"][0]["status"] == "moved"
    assert pixels(placing, "scan1axial", POINT) == 0
    label = placing.points()[0]["label"]
    placing.page.click(f"[data-point={label}] tr.point button")
    placing.wait(f"document.querySelectorAll('[data-point]').length === {before}")


def test_the_wheel_takes_the_other_scan_along_until_they_are_not_linked(page):
    for linked in (True, False):
        page.press("fit")
        page.wait(
            "window.trame.state.get('slices').scan0axial.value === window.trame.state.get('slices').scan1axial.value"
        )
        start = height(page, "scan0axial")
        over(page, "scan0axial", 0.5, 0.5)
        for _ in range(6):
            page.page.mouse.wheel(0, -100)
            page.page.wait_for_timeout(150)
        page.wait(f"Math.abs({VALUE.format(0)} - {start}) > 15")
        if linked:
            page.wait(f"Math.abs({VALUE.format(0)} - {VALUE.format(1)}) < 6")
        else:
            page.page.wait_for_timeout(1000)
            assert height(page, "scan1axial") == start
        page.press("link")
    page.press("fit")


def test_a_drag_changes_the_window_of_all_scans_and_says_which(page):
    values = page.page.locator("[data-test=window-values]").first
    assert values.inner_text().split() == ["W", "400", "L", "40"]
    before = picture(page, "scan1axial")
    page.press("adjust")
    page.drag(page.at("scan0axial", 0.5, 0.5), page.at("scan0axial", 0.7, 0.7))
    page.wait("!/W 400 +L 40/.test(document.querySelector('[data-test=window-values]').textContent)")
    assert np.abs(picture(page, "scan1axial") - before).mean() > 1
    page.press("adjust")
    page.page.click("button:has-text('Soft tissue')")
    page.wait("/W 400 +L 40/.test(document.querySelector('[data-test=window-values]').textContent)")


def test_a_view_says_which_slice_it_shows_and_the_hu_under_the_mouse(page, arguments, tmp_path):
    from test_viewer_points import exported

    from AnatomicalEmbedding import Volume

    page.add_point("scan0axial", 0.45, 0.5)
    over(page, "scan0axial", 0.5, 0.5)  # all views are centred on the point
    about = page.page.locator("[data-view=scan0axial] [data-test=about]")
    page.wait("/HU/.test(document.querySelector('[data-view=scan0axial] [data-test=about]').textContent)")
    text = about.inner_text()
    volume, place = Volume.read(arguments[0]), exported(page, tmp_path)["first"]["P1"]
    i, j, k = np.round((np.linalg.inv(volume.ijk_to_ras) @ [*place, 1])[:3]).astype(int)
    number, count = map(int, re.match(r"(\d+) / (\d+)", text).groups())
    assert count == volume.shape[0]
    assert abs(number - (k + 1)) <= 1
    near = volume.voxels[k, j - 1 : j + 2, i - 1 : i + 2]
    assert near.min() <= int(re.search(r"(-?\d+) HU", text).group(1)) <= near.max()


def test_one_suggestion_and_enter_finds_it_and_the_sentence_before_goes(page):
    page.dismiss_all()
    page.page.keyboard.press("Control+f")
    page.page.keyboard.type("the weather")
    page.page.keyboard.press("Enter")
    page.wait_sentence("names no place that is known")
    page.page.keyboard.press("Control+f")
    page.page.keyboard.type("left adren")
    page.page.keyboard.press("Enter")
    page.page.locator("[data-test=words] b", has_text="left adrenal gland").wait_for()
    page.wait("document.querySelectorAll('.sentences p').length === 0")
    page.page.keyboard.press("Control+f")
    page.page.keyboard.press("Escape")


def test_the_name_comes_after_quick_moves_too(page):
    page.place_mode(False)
    page.press("crosshair")
    for _ in range(3):
        for step in range(12):
            page.page.mouse.move(*page.at("scan0axial", 0.3 + 0.03 * step, 0.45))
        page.page.mouse.move(*page.at("scan0axial", 0.35, 0.45))
        page.page.wait_for_timeout(100)
    page.page.locator("[data-test=named]", has_text=re.compile("%|no certain name")).wait_for()
    page.press("crosshair")
