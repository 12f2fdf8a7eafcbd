"""Test the views: the patient's orientation, and what the mouse, the toolbar and the crosshair change."""

import re

import numpy as np
import pytest

pytest.importorskip(
    "trame_slicer",
    reason="runs in an environment with trame-slicer[standalone]; `make test` makes it",
)

# HU of the outermost fifth; 200 inside
SIDES = {"R": -100, "L": -60, "A": -20, "P": 20, "S": 60, "I": 100}
EXPECTED = {
    "axial": {"left": "R", "right": "L", "top": "A", "bottom": "P"},
    "sagittal": {"left": "A", "right": "P", "top": "S", "bottom": "I"},
    "coronal": {"left": "R", "right": "L", "top": "S", "bottom": "I"},
}
SLICE = "window.trame.state.get('slices').scan{}axial.value"


def marked_cube(directions: np.ndarray):
    """A cube with its sides marked; directions: (3, 3) of i, j and k in RAS."""
    from AnatomicalEmbedding import Volume

    cells = 40
    mm = 5.0
    matrix = np.eye(4)
    matrix[:3, :3] = directions * mm
    matrix[:3, 3] = -matrix[:3, :3] @ np.full(3, (cells - 1) / 2)
    k, j, i = np.indices((cells,) * 3)
    ras = np.stack([i, j, k], -1) @ matrix[:3, :3].T + matrix[:3, 3]
    axis = np.abs(ras).argmax(-1)
    outside = np.abs(ras).max(-1) > 0.6 * cells * mm / 2
    positive = np.take_along_axis(ras, axis[..., None], -1)[..., 0] > 0
    values = np.array([[SIDES[letter] for letter in pair] for pair in ("LR", "PA", "IS")])
    return Volume(
        np.where(outside, values[axis, positive.astype(int)], 200).astype(np.int16), matrix
    )


def written_letters(page, view: str) -> dict[str, str]:
    """The letter that is seen in the middle of each edge of a view."""
    cell = page.page.locator(f"[data-view={view}]")
    found = {}
    box = cell.bounding_box()
    for letter in cell.locator(".edge").all():
        at = letter.bounding_box()
        across = (at["x"] + at["width"] / 2 - box["x"]) / box["width"]
        down = (at["y"] + at["height"] / 2 - box["y"]) / box["height"]
        distances = {"left": across, "right": 1 - across, "top": down, "bottom": 1 - down}
        edge = min(distances, key=distances.get)
        assert distances[edge] < 0.2
        assert abs((down if edge in ("left", "right") else across) - 0.5) < 0.03
        found[edge] = letter.inner_text()
    return found


def seen_sides(page, view: str) -> dict[str, str]:
    """The side of the cube at each edge of the picture, by its brightness."""
    grey = page.picture(view).mean(axis=2)
    filled = grey > 15  # outside of the cube there is nothing but the ruler
    rows, columns = (
        np.flatnonzero(filled.sum(axis) > filled.sum(axis).max() / 2) for axis in (1, 0)
    )
    low = np.array([rows.min(), columns.min()])
    high = np.array([rows.max(), columns.max()])
    middle = (low + high) // 2
    found = {}
    for edge, axis, share in (
        ("left", 1, 0.1),
        ("right", 1, 0.9),
        ("top", 0, 0.1),
        ("bottom", 0, 0.9),
    ):
        at = middle.copy()
        at[axis] = low[axis] + share * (high - low)[axis]
        # window 400, level 40
        value = np.median(grey[at[0] - 2 : at[0] + 3, at[1] - 2 : at[1] + 3]) / 255 * 400 - 160
        found[edge] = min(SIDES, key=lambda letter: abs(SIDES[letter] - value))
        assert abs(SIDES[found[edge]] - value) < 12
    return found


def move(page, view: str, across: float, down: float) -> None:
    x, y = page.at(view, across, down)
    page.page.mouse.move(x - 6, y)
    page.page.mouse.move(x, y)


def enlarge(page, view: str, cells: int = 1) -> None:
    page.page.click(f"[data-view={view}] .corner")
    page.wait(f"document.querySelectorAll('.cell').length === {cells}")


@pytest.mark.parametrize(
    "directions",
    [np.diag([-1.0, -1.0, 1.0]), np.array([[0.0, 0.0, 1.0], [-1.0, 0.0, 0.0], [0.0, -1.0, 0.0]])],
    ids=["axial slices", "sagittal slices"],
)
def test_letters_are_those_of_the_picture(page, pictures, tmp_path, directions):
    marked_cube(directions).write(tmp_path / "cube.nii.gz")
    page.send(tmp_path / "cube.nii.gz")
    page.wait("document.querySelectorAll('.cell img').length === 9")
    for view, letters in EXPECTED.items():
        enlarge(page, f"scan2{view}")
        assert written_letters(page, f"scan2{view}") == seen_sides(page, f"scan2{view}") == letters
        page.page.screenshot(path=pictures / f"letters-{view}.png")
        enlarge(page, f"scan2{view}", 9)
    page.remove("cube")


def test_the_wheel_moves_the_other_scan_only_while_they_are_linked(page):
    for linked in (True, False):
        page.press("fit")
        page.page.wait_for_timeout(800)
        start = [page.page.evaluate(SLICE.format(n)) for n in (0, 1)]
        move(page, "scan0axial", 0.5, 0.5)
        for _ in range(6):
            page.page.mouse.wheel(0, -100)
            page.page.wait_for_timeout(150)
        page.wait(f"Math.abs({SLICE.format(0)} - {start[0]}) > 15")
        if linked:
            page.wait(f"Math.abs({SLICE.format(1)} - {start[1]}) > 15")
        else:
            page.page.wait_for_timeout(1000)
            assert page.page.evaluate(SLICE.format(1)) == start[1]
        page.press("link")


def test_a_drag_and_a_preset_change_the_window_of_all_scans(page):
    text = "document.querySelector('[data-test=window-values]').textContent"
    assert page.page.evaluate(text).split() == ["W", "400", "L", "40"]
    before = page.picture("scan1axial")
    page.press("adjust")
    page.drag(page.at("scan0axial", 0.5, 0.5), page.at("scan0axial", 0.7, 0.7))
    page.wait(f"!/W 400 +L 40/.test({text})")
    assert np.abs(page.picture("scan1axial") - before).mean() > 1
    page.press("adjust")
    page.page.click("text=Lung")
    page.wait(f"/W 1500 +L -600/.test({text})")
    page.page.click("text=Soft tissue")
    page.wait(f"/W 400 +L 40/.test({text})")


def test_the_crosshair_moves_all_views_but_the_one_under_the_mouse(page, pictures):
    page.press("crosshair")
    page.page.mouse.move(*page.at("scan0coronal", 0.5, 0.25))
    page.page.wait_for_timeout(1000)
    page.watch_pictures()
    # a hand's breadth each: the matched slice is another one every time
    for down in 0.35, 0.5, 0.65:
        before = page.page.evaluate(SLICE.format(1))
        page.page.mouse.move(*page.at("scan0coronal", 0.5, down))
        page.wait(f"{SLICE.format(1)} !== {before}")
    page.wait("window.pictures.scan1axial > 0 && window.pictures.scan0axial > 0")
    assert page.page.evaluate("window.pictures.scan0coronal") == 0
    page.page.screenshot(path=pictures / "crosshair.png")
    page.press("crosshair")
    page.wait("!document.querySelector('[data-test=crosshair]').classList.contains('on')")


def test_a_view_states_its_slice_and_the_hu_under_the_mouse(page, scan_files, tmp_path):
    from test_viewer_points import exported

    from AnatomicalEmbedding import Volume

    label = page.add_point("scan0axial", 0.45, 0.5)["label"]
    page.place_mode(False)
    move(page, "scan0axial", 0.5, 0.5)  # all views are centred on the point
    about = page.page.locator("[data-view=scan0axial] [data-test=about]", has_text="HU")
    about.wait_for()
    text = about.inner_text()
    volume = Volume.read(scan_files[0])
    place = exported(page, tmp_path)["prior"][label]
    i, j, k = np.round((np.linalg.inv(volume.ijk_to_ras) @ [*place, 1])[:3]).astype(int)
    number, count = map(int, re.match(r"(\d+) / (\d+)", text).groups())
    assert count == volume.shape[0]
    assert abs(number - (k + 1)) <= 1
    near = volume.voxels[k, j - 1 : j + 2, i - 1 : i + 2]
    assert near.min() <= int(re.search(r"(-?\d+) HU", text).group(1)) <= near.max()


def test_the_axial_view_shows_the_level_of_the_spine(page):
    page.wait("document.querySelector('[data-view=scan0axial] [data-test=level]')")
    level = page.page.inner_text("[data-view=scan0axial] [data-test=level]").strip()
    assert set(level.split(" or ")) <= {
        *(f"T{n}" for n in range(1, 13)),
        *(f"L{n}" for n in range(1, 6)),
    }
    beside = page.page.inner_text("[data-view=scan0coronal] [data-test=level]").strip()
    assert beside == f"axial slice: {level}"
