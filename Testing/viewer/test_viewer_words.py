"""Test words in the browser: the place in all scans, the sentences of a report, the name at the crosshair."""

import numpy as np
import pytest

pytest.importorskip(
    "trame_slicer",
    reason="runs in an environment with trame-slicer[standalone]; `make test` makes it",
)


def shaded(page, view: str) -> int:
    """Pixels of a view that have the colour of a region's border."""
    red, green, blue = np.moveaxis(page.picture(view), 2, 0)
    return int(((blue - red > 60) & (blue - green > 20)).sum())


def enter(page, text: str) -> None:
    page.page.keyboard.press("Control+f")
    page.page.keyboard.type(text)
    page.page.keyboard.press("Enter")


def wait_title(page, title: str) -> None:
    page.page.locator("[data-test=words] b", has_text=title).wait_for()


def test_words_are_shown_in_all_scans_until_escape_and_enter_shows_the_next_place(page, pictures):
    assert shaded(page, "scan0coronal") == 0
    enter(page, "cyst of the liver and brain")
    wait_title(page, "1 of 2: liver")
    page.page.locator("[data-place]", has_text="found (").nth(1).wait_for()
    assert shaded(page, "scan0coronal") > 100
    assert shaded(page, "scan1axial") > 100
    page.page.screenshot(path=pictures / "words.png")
    page.page.keyboard.press("Enter")
    wait_title(page, "2 of 2: brain")
    page.page.locator("[data-place]", has_text="not in this scan").nth(1).wait_for()
    page.page.keyboard.press("Escape")
    page.wait("!document.querySelector('[data-test=words]')")
    assert shaded(page, "scan0coronal") == 0


def test_the_crosshair_names_its_place_after_quick_moves_too(page):
    enter(page, "liver")
    page.page.locator("[data-place]", has_text="found (").nth(1).wait_for()
    page.press("crosshair")
    for step in range(12):
        page.page.mouse.move(*page.at("scan0axial", 0.3 + 0.02 * step, 0.45))
    page.page.mouse.move(*page.at("scan0axial", 0.5, 0.5))
    page.page.locator("[data-test=named]", has_text="liver, ").wait_for()
    page.press("crosshair")
    page.wait("!document.querySelector('[data-test=named]')")
