"""Draw Resources/Screenshots/viewer.png: the viewer's page with two synthetic patients, points and answers.

.venv-views/bin/python Testing/viewer/make_page_picture.py
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

_TESTING = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(each) for each in (_TESTING / "viewer", _TESTING, _TESTING.parent / "tools", _TESTING.parent)]

from browsing import Page, Running, open_browser  # noqa: E402

OUTPUT = _TESTING.parent / "Resources" / "Screenshots" / "viewer.png"
_POINTS = (
    ("scan0coronal", 0.63, 0.74, "Left kidney"),
    ("scan0axial", 0.62, 0.42, "Heart"),
    ("scan0coronal", 0.27, 0.77, "Right kidney"),
    ("scan0axial", 0.48, 0.59, "Spine"),
)


def main() -> None:
    with tempfile.TemporaryDirectory() as folder, open_browser() as browser, Running(Path(folder), "--demo") as program:
        page = Page(browser, program, (1440, 860))
        page.page.set_default_timeout(90_000)  # the phantoms are made first
        page.wait_ready(2)
        for view, across, down, label in _POINTS:
            page.press("fit")
            page.add_point(view, across, down)
            page.page.locator("[data-point] input").first.fill(label)
            page.page.keyboard.press("Enter")
            page.wait(f"!!document.querySelector(\"[data-point='{label}']\")")
        page.place_mode(False)
        page.page.locator("[data-point] tr.point td.place").nth(2).click()
        page.page.mouse.move(1300, 800)
        page.page.wait_for_timeout(1500)  # the last pictures have come
        page.page.screenshot(path=OUTPUT)
        page.close()


if __name__ == "__main__":
    main()
