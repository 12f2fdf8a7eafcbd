"""Draw Resources/Screenshots/viewer-words.png: a place found by words in two synthetic patients, by the viewer's page.

.venv-views/bin/python Testing/viewer/make_words_picture.py
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

_TESTING = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(each) for each in (_TESTING / "viewer", _TESTING, _TESTING.parent / "tools", _TESTING.parent)]

from browsing import Page, Running, open_browser  # noqa: E402

OUTPUT = _TESTING.parent / "Resources" / "Screenshots" / "viewer-words.png"
_REPORT = (
    "Mass in the upper pole of the left kidney, 3 cm. Liver and spleen are normal.\n"
    "No rib fracture. No metastasis in the brain."
)
_PATIENCE_MS = 300_000  # the phantoms are made first


def main() -> None:
    with tempfile.TemporaryDirectory() as folder, open_browser() as browser, Running(Path(folder), "--demo") as program:
        page = Page(browser, program, (1280, 720))
        page.page.set_default_timeout(_PATIENCE_MS)
        page.wait_ready(2)
        page.press("report")
        page.page.fill("[data-test=report-text]", _REPORT)
        page.press("report-read")
        page.page.locator(".report li button").first.click()
        page.page.locator("[data-place]", has_text="found (").nth(1).wait_for()
        page.page.mouse.move(1200, 700)
        page.page.wait_for_timeout(5000)  # the last pictures have come
        page.page.screenshot(path=OUTPUT)
        page.close()


if __name__ == "__main__":
    main()
