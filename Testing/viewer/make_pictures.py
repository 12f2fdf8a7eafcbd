"""Make viewer.png and viewer-words.png in Resources/Screenshots: the viewer's page with two synthetic patients.

.venv-views/bin/python Testing/viewer/make_pictures.py
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

_TESTING = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(each) for each in (_TESTING / "viewer", _TESTING, _TESTING.parent / "tools", _TESTING.parent)]

from browsing import Page, Running, open_browser  # noqa: E402

OUTPUT = _TESTING.parent / "Resources" / "Screenshots"
_POINTS = (
    ("scan0coronal", 0.63, 0.74, "Left kidney"),
    ("scan0axial", 0.62, 0.42, "Heart"),
    ("scan0coronal", 0.27, 0.77, "Right kidney"),
    ("scan0axial", 0.48, 0.59, "Spine"),
)
_REPORT = (
    "Mass in the upper pole of the left kidney, 3 cm. Liver and spleen are normal.\n"
    "No rib fracture. No metastasis in the brain."
)
_PATIENCE_MS = 300_000  # the phantoms are made first
_DRAWN_MS = 4000  # until the last pictures have come


def _draw_points(page: Page) -> None:
    for view, across, down, label in _POINTS:
        page.press("fit")
        page.add_point(view, across, down)
        page.page.locator("[data-point] input").first.fill(label)
        page.page.keyboard.press("Enter")
        page.wait(f"!!document.querySelector(\"[data-point='{label}']\")")
    page.place_mode(False)
    page.page.locator("[data-point] tr.point td.place").nth(2).click()


def _draw_words(page: Page) -> None:
    page.press("report")
    page.page.fill("[data-test=report-text]", _REPORT)
    page.press("report-read")
    page.page.locator(".report li button").first.click()
    page.page.locator("[data-place]", has_text="found (").nth(1).wait_for()


def main() -> None:
    for name, size, draw in (("viewer.png", (1440, 860), _draw_points), ("viewer-words.png", (1280, 720), _draw_words)):
        with tempfile.TemporaryDirectory() as folder, open_browser() as browser, Running(Path(folder), "--demo") as run:
            page = Page(browser, run, size)
            page.page.set_default_timeout(_PATIENCE_MS)
            page.wait_ready(2)
            draw(page)
            page.page.mouse.move(size[0] - 80, size[1] - 20)
            page.page.wait_for_timeout(_DRAWN_MS)
            page.page.screenshot(path=OUTPUT / name)
            page.close()


if __name__ == "__main__":
    main()
