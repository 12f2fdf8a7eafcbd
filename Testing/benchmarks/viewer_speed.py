"""How long the browser viewer takes: until the page is usable, from a click to drawn answers, crosshair updates.

.venv-views/bin/python Testing/benchmarks/viewer_speed.py
"""

from __future__ import annotations

import statistics
import sys
import tempfile
import time
from pathlib import Path

_TESTING = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(_TESTING / "viewer"), str(_TESTING), str(_TESTING.parent)]

from browsing import Page, Running, open_browser  # noqa: E402

from AnatomicalEmbedding.phantom import make_phantom  # noqa: E402

_SEEDS = (71, 72, 73, 74)
_CLICKS, _MOVES = 12, 60
_WATCH = """() => {
    window.drawn = {};
    for (const cell of document.querySelectorAll('.cell')) {
        const tag = cell.dataset.view;
        window.drawn[tag] = [];
        new MutationObserver(() => window.drawn[tag].push(performance.now())).observe(
            cell.querySelector('img'), {attributes: true, attributeFilter: ['src']});
    }
    addEventListener('pointerup', () => { window.released = performance.now(); }, true);
    addEventListener('mouseup', () => { window.released = performance.now(); }, true);
}"""


def main() -> None:
    with tempfile.TemporaryDirectory() as name, open_browser() as browser:
        folder = Path(name)
        (folder / "demo").mkdir()
        start = time.monotonic()
        with Running(folder / "demo", "--demo") as program:
            page = Page(browser, program)
            page.wait("document.querySelectorAll('.row .cell img').length === 6")
            print(f"--demo, nothing cached: both scans shown after {time.monotonic() - start:.1f} s", flush=True)
            page.wait_ready(2)
            print(f"--demo: both embedded after {time.monotonic() - start:.1f} s", flush=True)
            _measure_clicks(page)
            page.close()
        paths = []
        for seed in _SEEDS:
            paths.append(folder / f"scan{seed}.nii.gz")
            make_phantom(seed, spacing=(2.5, 2.5, 3.0), coverage_mm=(150.0, 480.0)).volume.write(paths[-1])
        with Running(folder, *map(str, paths)) as program:
            page = Page(browser, program)
            page.wait_ready(4)
            page.wait("document.querySelectorAll('.row .cell img').length === 12")
            _measure_crosshair(page)
            page.close()


def _measure_clicks(page: Page) -> None:
    """From the release of the mouse to new pictures in all views of the other scan."""
    page.place_mode()
    page.page.evaluate(_WATCH)
    took = []
    for n in range(_CLICKS):
        page.page.mouse.move(*page.at("scan0axial", 0.4 + 0.015 * n, 0.44))
        page.page.wait_for_timeout(700)  # the preview of the point is drawn sharp
        page.page.evaluate("() => { for (const tag in window.drawn) window.drawn[tag] = []; }")
        page.click("scan0axial", 0.4 + 0.015 * n, 0.45)
        page.wait("['axial', 'sagittal', 'coronal'].every((o) => window.drawn['scan1' + o].length)")
        page.wait(f"document.querySelectorAll('[data-point]').length === {n + 1}")
        took.append(
            page.page.evaluate(
                "() => Math.max(...['axial', 'sagittal', 'coronal'].map((o) => window.drawn['scan1' + o][0])) "
                "- window.released"
            )
        )
    print(f"click to answers drawn: median {statistics.median(took):.0f} ms, worst {max(took):.0f} ms", flush=True)


def _measure_crosshair(page: Page) -> None:
    """New pictures a second in the views of the other scans while the mouse moves."""
    page.press("crosshair")
    page.page.mouse.move(*page.at("scan0coronal", 0.5, 0.2))
    page.page.evaluate(_WATCH)
    start = time.monotonic()
    for n in range(_MOVES):
        page.page.mouse.move(*page.at("scan0coronal", 0.5, 0.2 + 0.6 * n / _MOVES))
        page.page.wait_for_timeout(30)
    seconds = time.monotonic() - start
    drawn = page.page.evaluate("() => window.drawn")
    rates = [len(times) / seconds for tag, times in drawn.items() if tag.endswith("axial") and "scan0" not in tag]
    print(f"crosshair, 4 scans: {min(rates):.1f} updates a second in the other scans", flush=True)


if __name__ == "__main__":
    main()
