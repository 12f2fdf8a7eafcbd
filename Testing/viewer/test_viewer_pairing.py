"""Lesions that were marked in two studies separately are paired in the browser: read, agreed to, taken back."""

import numpy as np
import pytest

pytest.importorskip("trame_slicer", reason="runs in an environment with trame-slicer[standalone]; `make test` makes it")

from follow_up_reader import place


def offered(reading) -> list[str]:
    """The sentences of the offer; none where nothing is offered."""
    return reading.page.locator("[data-test=offer] li").all_inner_texts()


def pair(reading) -> list[str]:
    reading.press("pair")
    reading.page.locator("[data-test=offer]").wait_for()
    return offered(reading)


def wait_closed(reading) -> None:
    reading.wait("!document.querySelector('[data-test=offer]')")


@pytest.fixture(scope="module")
def apart(reading):
    """L1 and L2 marked in the prior study; L3 in the current one, at the place of L1. L2 is nowhere near."""
    button = reading.page.locator("[data-test=pair]")
    assert button.is_disabled()
    reading.mark(reading.view_of("prior"), 0.5, 0.45)
    reading.wait_cell("L1", 1, "proposed|uncertain")
    assert button.is_disabled()
    assert "2024-07-11 has none of its own" in button.get_attribute("title")
    reading.mark(reading.view_of("prior"), 0.35, 0.5)
    reading.wait_cell("L2", 1, "proposed|uncertain")
    reading.choose("L1", 1)
    reading.close_up()
    reading.mark(reading.view_of("current"), 0.5, 0.5)  # where the page shows L1
    reading.wait_cell("L3", 1, "new")
    assert button.is_enabled()
    return reading


def test_the_offer_is_reported_before_anything_is_changed(apart, pictures):
    before = apart.cells()
    same, alone, *_more = pair(apart)
    apart.page.screenshot(path=pictures / "pairing.png")
    assert same.startswith("L1 in 2024-01-15 and L3 in 2024-07-11 are one lesion, L1: likely, ")
    assert alone == "L2 in 2024-01-15 has no partner in 2024-07-11: look there, and press Not visible if it has gone."
    assert apart.cells() == before
    apart.press("pair-cancel")
    wait_closed(apart)
    assert apart.cells() == before


def test_agreeing_makes_them_one_and_undo_two(apart, tmp_path):
    before, rows = apart.cells(), apart.table(tmp_path)
    pair(apart)
    apart.press("agree")
    apart.wait("!document.querySelector('[data-lesion=L3]')")
    wait_closed(apart)
    assert apart.cells().keys() == {"L1", "L2"}
    now = apart.table(tmp_path)
    assert (place(now["L1", "current"]) == place(rows["L3", "current"])).all()
    assert (place(now["L1", "prior"]) == place(rows["L1", "prior"])).all()
    assert np.linalg.norm(place(now["L1", "prior"]) - place(now["L1", "current"])) < 10, "anatomy is at the same places"
    assert now["L1", "current"]["reviewed"] == "yes"
    button = apart.page.locator("[data-test=pair]")
    assert button.is_disabled()
    assert "2024-07-11 has none of its own" in button.get_attribute("title")
    apart.key("Control+z")
    apart.wait("!!document.querySelector('[data-lesion=L3]')")
    assert apart.cells() == before
    assert button.is_enabled()


def test_an_offer_goes_with_what_it_was_made_of_and_stays_while_one_looks_around(apart):
    pair(apart)
    for lesion, column in (("L2", 0), ("L3", 1)):
        apart.choose(lesion, column)
    apart.page.reload()
    apart.page.locator("[data-test=offer]").wait_for()
    apart.choose("L1", 1)
    apart.key("n")
    apart.wait_cell("L1", 1, "disappeared")
    wait_closed(apart)
    apart.key("Control+z")
    apart.wait_cell("L1", 1, "proposed|uncertain")
    assert offered(apart) == []


def test_where_no_two_are_the_same_there_is_nothing_to_agree_to(apart):
    """L3 is taken to another place of the current study."""
    apart.choose("L3", 1)
    apart.begin("m", "act-move")
    apart.click(apart.view_of("current"), 0.05, 0.95)
    apart.page.locator("[data-test=act-move]:not(.on)").wait_for()
    assert pair(apart)[0] == "No two of these lesions are the same."
    assert apart.page.locator("[data-test=agree]").count() == 0
    assert apart.page.locator("[data-test=pair-cancel]").inner_text() == "Close"
    apart.press("pair-cancel")
    wait_closed(apart)
