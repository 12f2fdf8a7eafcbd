"""Zoom and pan by the mouse: what the page shows is the picture before, moved or made larger by what the mouse did."""

import io

import numpy as np
import pytest

pytest.importorskip("trame_slicer", reason="runs in an environment with trame-slicer[standalone]; `make test` makes it")

from PIL import Image

VIEW = "scan0axial"


@pytest.fixture
def large(page):
    """One view alone, fitted."""
    page.place_mode(False)
    page.press("fit")
    page.page.click(f"[data-view={VIEW}] .corner")
    page.wait("document.querySelectorAll('.cell').length === 1")
    yield page
    page.page.click(".corner")
    page.wait("document.querySelectorAll('.cell').length === 6")
    page.press("fit")


def shown(page) -> np.ndarray:
    """(rows, columns) grey levels of the middle of the view, once the picture has come to rest."""
    box = page.page.locator(f"[data-view={VIEW}]").bounding_box()
    clip = {"x": box["x"] + 40, "y": box["y"] + 60, "width": box["width"] - 80, "height": box["height"] - 120}
    before = None
    for _ in range(40):
        page.page.wait_for_timeout(150)
        now = page.page.screenshot(clip=clip)
        if now == before:
            break
        before = now
    return np.asarray(Image.open(io.BytesIO(now)).convert("L"), dtype=float)


def difference(a: np.ndarray, b: np.ndarray) -> float:
    return float(np.abs(a - b).mean())


def moved(picture: np.ndarray, right: int, down: int) -> tuple[slice, slice]:
    """Where, in a picture moved by so many pixels, what was visible before still is."""
    rows, columns = picture.shape
    return slice(max(0, down), rows + min(0, down)), slice(max(0, right), columns + min(0, right))


def zoomed(picture: np.ndarray, factor: float) -> np.ndarray:
    """A picture made larger around its middle, cut to its size."""
    rows, columns = picture.shape
    height, width = rows / factor, columns / factor
    box = ((columns - width) / 2, (rows - height) / 2, (columns + width) / 2, (rows + height) / 2)
    return np.asarray(Image.fromarray(picture).resize((columns, rows), Image.Resampling.BILINEAR, box=box))


@pytest.mark.parametrize(("button", "key"), [("middle", ""), ("left", "Shift")])
def test_a_drag_moves_the_picture_with_the_mouse(large, button, key):
    before = shown(large)
    x, y = large.at(VIEW, 0.5, 0.5)
    right, down = 60, -35
    large.drag((x, y), (x + right, y + down), button, key)
    after = shown(large)
    where = moved(after, right, down)
    was = moved(before, -right, -down)
    assert difference(before, after) > 5
    assert difference(before[was], after[where]) < 0.2 * difference(before, after)


def test_a_right_drag_zooms_around_the_middle_and_fit_undoes_it(large):
    before = shown(large)
    x, y = large.at(VIEW, 0.5, 0.5)
    large.drag((x, y), (x, y + 80), "right")
    after = shown(large)
    factors = np.geomspace(1.02, 3, 60)
    fits = [difference(zoomed(before, factor), after) for factor in factors]
    assert factors[np.argmin(fits)] > 1.1
    assert min(fits) < 0.3 * difference(before, after)
    large.press("fit")
    assert difference(before, shown(large)) < 1
