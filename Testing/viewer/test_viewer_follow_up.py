"""Follow-up in the browser: lesions marked, proposed, confirmed, moved, measured and described."""

import numpy as np
import pytest

pytest.importorskip("trame_slicer", reason="runs in an environment with trame-slicer[standalone]; `make test` makes it")

from follow_up_reader import DAYS, place


def test_studies_are_in_the_order_of_their_dicom_dates(reading):
    dates = reading.page.locator(".studies input[type=text]")
    assert [dates.nth(n).input_value() for n in range(2)] == ["2024-01-15", "2024-07-11"]
    assert reading.page.locator(".studies .name").all_inner_texts() == ["prior", "current"]
    assert reading.page.locator(".row h2 b").all_inner_texts() == ["prior", "current"]
    assert "Press New lesion" in reading.page.locator("[data-test=follow-next]").inner_text()


def test_a_lesion_is_proposed_where_it_is_in_the_other_study_and_confirmed_by_key(reading, tmp_path):
    reading.mark(reading.view_of("prior"), 0.28, 0.4)  # away from the spine, where levels may be uncertain
    assert "proposed" in reading.wait_cell("L1", 1, "proposed|uncertain")
    assert reading.cells()["L1"][0] == "✓ baseline"
    assert reading.page.locator("[data-test=todo]").inner_text().startswith("1 proposed")
    rows = reading.table(tmp_path)
    assert rows["L1", "current"]["flags"] == "UNCONFIRMED"
    assert rows["L1", "current"]["reviewed"] == "no"
    assert rows["L1", "prior"]["flags"] == ""
    assert np.linalg.norm(place(rows["L1", "prior"]) - place(rows["L1", "current"])) < 10
    reading.key("j")
    reading.page.locator("[data-lesion=L1] [data-cell='1'].here").wait_for()
    reading.key("c")
    reading.wait_cell("L1", 1, "confirmed")
    assert "every place" in reading.page.locator("[data-test=todo]").inner_text()
    assert not reading.state("crosshair")  # C of the toolbar
    confirmed = reading.table(tmp_path)["L1", "current"]
    assert confirmed["flags"] == ""
    assert (place(confirmed) == place(rows["L1", "current"])).all()


def test_a_proposal_is_moved_to_where_the_user_clicks(reading, tmp_path):
    reading.mark(reading.view_of("prior"), 0.35, 0.5)
    reading.wait_cell("L2", 1, "proposed|uncertain")
    reading.choose("L2", 1)
    reading.close_up()
    before = place(reading.table(tmp_path)["L2", "current"])
    view = reading.view_of("current")
    reading.begin("m", "act-move")
    reading.click(view, 0.6, 0.5)  # the proposal is in the middle
    reading.wait_cell("L2", 1, "moved")
    after = place(reading.table(tmp_path)["L2", "current"])
    assert after - before == pytest.approx([-0.1 * reading.mm_across(view), 0, 0], abs=1.5)


def test_not_visible_undone_and_done_again(reading):
    reading.choose("L2", 1)
    reading.key("n")
    reading.wait_cell("L2", 1, "disappeared")
    reading.key("Control+z")
    reading.wait_cell("L2", 1, "moved")
    reading.key("Control+Shift+z")
    reading.wait_cell("L2", 1, "disappeared")
    reading.press("undo")
    reading.wait_cell("L2", 1, "moved")


def shown_sums(reading) -> list[str]:
    return reading.page.locator("[data-response=sum] td").all_inner_texts()


def test_axes_drawn_are_sizes_and_sums_follow(reading, tmp_path):
    """Nothing is summed before every target is measured in the study; what is missing is said."""
    mm = {}
    for lesion, shares in {"L1": (0.1, 0.2), "L2": (0.12, 0.15)}.items():
        for column, (study, share) in enumerate(zip(DAYS, shares, strict=True)):
            reading.choose(lesion, column)
            reading.close_up()
            view = reading.view_of(study)
            mm[lesion, study] = share * reading.mm_across(view)
            reading.draw("l", "act-long-axis", view, (0.5 - share / 2, 0.5), (0.5 + share / 2, 0.5))
            reading.wait_cell(lesion, column, r"\d mm")
            if (lesion, study) == ("L1", "prior"):
                assert shown_sums(reading) == ["–", "–"]
                assert "L2" in reading.page.locator("[data-test=missing]").inner_text()
    rows = reading.table(tmp_path)
    for key, length in mm.items():
        assert float(rows[key]["long_axis_mm"]) == pytest.approx(length, abs=1.5)
    sums = [sum(float(rows[lesion, study]["long_axis_mm"]) for lesion in ("L1", "L2")) for study in DAYS]
    assert shown_sums(reading) == [f"{total:.1f} mm" for total in sums]
    assert reading.page.locator("[data-response=category] td").all_inner_texts() == ["baseline", "PD"]
    assert reading.page.locator("[data-test=chart] svg text", has_text="sum of targets").count() == 1
    reading.draw("s", "act-short-axis", reading.view_of("current"), (0.5, 0.47), (0.5, 0.53))
    reading.wait_cell("L2", 1, r"\d.×.\d+ mm")


def test_a_carried_over_axis_counts_once_it_is_accepted(reading, tmp_path):
    reading.mark(reading.view_of("prior"), 0.4, 0.4)
    reading.wait_cell("L3", 1, "proposed|uncertain")
    reading.choose("L3", 0)
    view = reading.view_of("prior")
    reading.draw("l", "act-long-axis", view, (0.45, 0.5), (0.55, 0.5))
    reading.wait_cell("L3", 0, r"\d mm")
    length = reading.cells()["L3"][0].split()[-2]
    assert f"({length})" in reading.wait_cell("L3", 1, rf"\({length}\)")
    reading.choose("L3", 1)
    reading.key("c")
    reading.wait_cell("L3", 1, "confirmed")
    assert reading.table(tmp_path)["L3", "current"]["flags"] == "SIZE UNCONFIRMED"
    reading.key("a")
    reading.wait_cell("L3", 1, rf"{length} mm")
    assert reading.table(tmp_path)["L3", "current"]["flags"] == ""


def test_keys_do_nothing_while_a_name_is_typed(reading, tmp_path):
    reading.choose("L3", 1)
    before = reading.cells()
    reading.page.click("[data-test=lesion-name]")
    reading.page.keyboard.type("cnow <b>")
    reading.page.keyboard.press("Enter")
    reading.wait("document.querySelector('[data-lesion=L3] th').textContent.includes('cnow <b>')")
    assert reading.cells() == before
    reading.page.fill("[data-test=lesion-site]", "=liver")
    reading.page.keyboard.press("Enter")
    reading.page.uncheck("[data-test=lesion-target]")
    reading.wait("document.querySelector('[data-lesion=L3] th small').textContent === 'non-target · =liver'")
    row = reading.table(tmp_path)["L3", "current"]
    assert (row["name"], row["site"], row["target"]) == ("cnow <b>", "'=liver", "no")


def test_merged_with_another_and_a_part_of_another(reading, tmp_path):
    reading.choose("L3", 1)
    reading.page.select_option("[data-test=lesion-merge]", "L2")
    reading.wait_cell("L3", 1, "merged with L2")
    reading.page.select_option("[data-test=lesion-split]", "L1")
    reading.wait("document.querySelector('[data-lesion=L3] th').title.includes('L1')")
    row = reading.table(tmp_path)["L3", "current"]
    assert (row["merged_with"], row["split_from"]) == ("L2", "L1")
    reading.key("o")
    reading.wait_cell("L3", 1, "outside scan")


def test_what_cannot_be_done_says_why(reading):
    reading.choose("L1", 1)
    assert "off" in reading.page.get_attribute("[data-test=act-confirm]", "class")
    reading.key("c")
    assert "L1" in reading.wait_sentence("reviewed here already")
    reading.dismiss_all()


def test_escape_gives_the_mouse_back(reading):
    before = reading.cells()
    reading.begin("w", "act-new")
    reading.key("Escape")
    reading.page.locator("[data-test=act-new]:not(.on)").wait_for()
    reading.click(reading.view_of("prior"), 0.3, 0.3)
    reading.page.wait_for_timeout(300)
    assert reading.cells() == before


def test_the_page_comes_back_as_it_was(reading):
    before = reading.cells()
    reading.page.reload()
    reading.wait(f"document.querySelectorAll('[data-lesion]').length === {len(before)}")
    assert reading.cells() == before
    assert reading.page.locator("[data-test=tab-lesions].on").count() == 1
    reading.wait("document.querySelectorAll('.row .cell img').length === 6")


def test_keys_are_the_toolbar_s_on_the_other_pages(reading):
    before = reading.cells()
    reading.press("tab-points")
    reading.page.locator("[data-test=tab-points].on").wait_for()
    for on in (True, False):
        reading.key("c")
        reading.wait(f"window.trame.state.get('crosshair') === {str(on).lower()}")
    reading.press("tab-lesions")
    reading.wait(f"document.querySelectorAll('[data-lesion]').length === {len(before)}")
    assert reading.cells() == before
