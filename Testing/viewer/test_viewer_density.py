"""The same page on a screen of small pixels: sharper, and nothing smaller."""

import io

import numpy as np
import pytest

pytest.importorskip("trame_slicer", reason="runs in an environment with trame-slicer[standalone]; `make test` makes it")

VIEW = "scan0axial"


def blue(page, density: float) -> float:
    """How many of the page's pixels the point covers, its name included."""
    from PIL import Image

    shot = Image.open(io.BytesIO(page.page.locator(f"[data-view={VIEW}] img").screenshot())).convert("RGB")
    red, green, blue = np.moveaxis(np.asarray(shot).astype(int), -1, 0)
    return ((blue - red > 100) & (blue > green)).sum() / density**2


@pytest.mark.long
def test_points_are_as_large_on_a_screen_of_small_pixels(browser, running):
    from browsing import Page

    covered = {}
    for density in (1.0, 2.0):
        page = Page(browser, running, density=density)
        page.wait_ready(2)
        if not page.points():
            page.add_point(VIEW, 0.5, 0.45)
            page.place_mode(False)
        page.wait(
            f"document.querySelector('[data-view={VIEW}] img').naturalWidth >= "
            f"{density} * document.querySelector('[data-view={VIEW}] img').width - 2"
        )
        page.page.mouse.move(*page.at(VIEW, 0.1, 0.1))
        page.page.wait_for_timeout(700)
        covered[density] = blue(page, density)
        page.close()
        assert page.faults == []
    assert covered[1.0] > 40
    assert covered[2.0] == pytest.approx(covered[1.0], rel=0.3)
