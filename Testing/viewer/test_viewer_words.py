"""Find by words in the browser: typed, offered, shown in all scans with the region shaded; a report; the name."""

import io

import numpy as np
import pytest

pytest.importorskip("trame_slicer", reason="runs in an environment with trame-slicer[standalone]; `make test` makes it")

from PIL import Image


def shaded(page, view: str) -> int:
    """Pixels of a view that have the colour of a region's border."""
    page.page.wait_for_timeout(600)
    box = page.page.locator(f"[data-view={view}]").bounding_box()
    clip = {"x": box["x"] + 20, "y": box["y"] + 30, "width": box["width"] - 40, "height": box["height"] - 60}
    r, g, b = np.moveaxis(np.asarray(Image.open(io.BytesIO(page.page.screenshot(clip=clip))).convert("RGB"), int), 2, 0)
    return int(((b - r > 60) & (b - g > 20)).sum())


def find(page, text: str, title: str) -> None:
    page.page.keyboard.press("Control+f")
    page.page.keyboard.type(text)
    page.page.keyboard.press("Enter")
    page.page.locator("[data-test=words] b", has_text=title).wait_for()
    page.wait(
        "![...document.querySelectorAll('[data-place]')].some((each) => /looking|prepared/.test(each.textContent))"
    )


def answers(page) -> list[str]:
    return page.page.locator("[data-place]").all_inner_texts()


@pytest.fixture
def fresh(page):
    yield page
    page.page.keyboard.press("Control+f")
    page.page.keyboard.press("Escape")
    page.wait("!document.querySelector('[data-test=words]')")


def test_words_are_shown_in_all_scans_and_enter_goes_on(fresh, pictures):
    assert shaded(fresh, "scan0coronal") == 0
    find(fresh, "cyst of the liver and brain", "1 of 2: liver")
    assert all("found (" in each for each in answers(fresh))
    assert shaded(fresh, "scan0coronal") > 100
    assert shaded(fresh, "scan1axial") > 100
    fresh.page.screenshot(path=pictures / "words.png")
    fresh.page.keyboard.press("Enter")
    fresh.page.locator("[data-test=words] b", has_text="2 of 2: brain").wait_for()
    fresh.wait(
        "[...document.querySelectorAll('[data-place]')].every((each) => /not in this scan/.test(each.textContent))"
    )
    assert shaded(fresh, "scan0coronal") == 0


def test_escape_takes_the_region_away(fresh):
    find(fresh, "liver", "liver")
    assert shaded(fresh, "scan0coronal") > 100
    fresh.page.keyboard.press("Escape")
    fresh.wait("!document.querySelector('[data-test=words]')")
    assert shaded(fresh, "scan0coronal") == 0


def test_what_is_typed_is_completed(fresh):
    fresh.page.keyboard.press("Control+f")
    fresh.page.keyboard.type("mass in the left kidn")
    offer = fresh.page.locator(".offers button", has_text="mass in the left kidney").first
    offer.click()
    fresh.page.locator("[data-test=words] b", has_text="left kidney").wait_for()
    assert fresh.page.input_value("[data-test=find]").startswith("mass in the left kidney")
    fresh.wait("!document.querySelector('.offers')")


def test_what_is_not_understood_is_a_sentence(fresh):
    fresh.page.keyboard.press("Control+f")
    fresh.page.keyboard.type("the weather")
    fresh.page.keyboard.press("Enter")
    fresh.wait_sentence("names no place that is known")
    fresh.dismiss_all()


def test_sentences_of_a_report_lead_to_their_places(fresh):
    fresh.press("report")
    fresh.page.fill("[data-test=report-text]", "The liver is large. No change. No lesion in the spleen.")
    fresh.press("report-read")
    fresh.page.locator(".report li").nth(2).wait_for()
    assert fresh.page.locator(".report li button").count() == 2
    fresh.page.locator(".report li button").nth(1).click()
    fresh.page.locator("[data-test=words] b", has_text="spleen (the text says: no such finding here)").wait_for()
    fresh.press("report")


def test_the_name_at_the_crosshair(fresh):
    find(fresh, "liver", "liver")
    fresh.place_mode(False)
    fresh.page.click(".row h2 >> nth=0")
    fresh.press("crosshair")
    x, y = fresh.at("scan0axial", 0.5, 0.5)
    fresh.page.mouse.move(x - 5, y)
    fresh.page.mouse.move(x, y)
    fresh.page.locator("[data-test=named]", has_text="liver, ").wait_for()
    fresh.press("crosshair")
    fresh.wait("!document.querySelector('[data-test=named]')")
