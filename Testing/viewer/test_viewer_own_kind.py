"""Test the viewer with weights for scans of any one kind: small objects, whose axes and values are not those of CTs."""

import numpy as np
import pytest
from browsing import Page, Running
from own_kind_weights import write_shape_weights
from specimens import SIDE, SPACING_MM, make_specimen

NAMES = ("first", "second")


@pytest.fixture(scope="module")
def specimens_page(browser, tmp_path_factory):
    """The page with two specimens."""
    folder = tmp_path_factory.mktemp("own_kind")
    write_shape_weights(folder / "shape.safetensors")
    scans = [folder / f"{name}.nii.gz" for name in NAMES]
    for seed, path in enumerate(scans, 100):
        make_specimen(seed).volume.write(path)
    with Running(folder, *map(str, scans), "--model", str(folder / "shape.safetensors")) as program:
        page = Page(browser, program)
        page.wait_ready(len(NAMES))
        page.wait("window.trame.state.get('own_kind') === true")
        yield page
        assert page.faults == []
        assert program.errors() == []
        page.close()


def test_an_answer_is_stated_in_fractions_of_a_millimetre(specimens_page, pictures):
    point = specimens_page.add_point("scan0axial", 0.5, 0.5)
    assert np.abs([float(text) for text in point["place"].split()]).max() < SIDE * SPACING_MM / 2
    error_mm = point["answers"][0]["error"].removeprefix("± ").removesuffix(" mm")
    assert len(error_mm.partition(".")[2]) == 2
    specimens_page.picture("scan1axial")  # waits until it no longer changes
    specimens_page.page.screenshot(path=pictures / "own_kind.png")


def test_nothing_on_the_page_speaks_of_patients_or_hounsfield_units(specimens_page):
    for place in (".edge", "[data-test=find]", "[data-test=tab-boxes]", "[data-test=sets]"):
        assert specimens_page.page.locator(place).count() == 0
    assert "Soft tissue" not in specimens_page.page.inner_text(".bar")
    x, y = specimens_page.at("scan0axial", 0.5, 0.5)
    specimens_page.page.mouse.move(x + 3, y)
    specimens_page.wait("document.querySelector('.hu') !== null")
    assert "HU" not in specimens_page.page.inner_text("body")
