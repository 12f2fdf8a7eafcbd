"""Measure the browser viewer: time until the page can be used, time from a click to its answers, crosshair updates.

.venv-views/bin/python Testing/benchmarks/viewer_speed.py
"""

from __future__ import annotations

import os
import statistics
import sys
import tempfile
import time
from pathlib import Path

_TESTING = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(each) for each in (_TESTING / "viewer", _TESTING, _TESTING.parent / "tools", _TESTING.parent)]

from browsing import Page, Running, open_browser  # noqa: E402

from AnatomicalEmbedding.phantom import make_phantom  # noqa: E402

_SEEDS = (71, 72, 73, 74)
_CLICKS, _MOVES = 12, 150
_UNDER_MOUSE = "scan0coronal"
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


_COUNT_UPDATES = """(underMouse) => {
    window.updates = 0;
    const views = [...document.querySelectorAll('.cell')].filter((cell) => cell.dataset.view !== underMouse);
    let waiting = new Set(views);
    for (const cell of views) {
        new MutationObserver(() => {
            waiting.delete(cell);
            if (!waiting.size) { window.updates++; waiting = new Set(views); }
        }).observe(cell.querySelector('img'), {attributes: true, attributeFilter: ['src']});
    }
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
        across = 0.5 + (0.04 if n % 2 else -0.04)  # every click brings its place to the middle
        page.page.mouse.move(*page.at("scan0axial", across, 0.44))
        page.page.wait_for_timeout(700)  # the preview of the point is drawn sharp
        page.page.evaluate("() => { for (const tag in window.drawn) window.drawn[tag] = []; }")
        page.click("scan0axial", across, 0.45 + 0.1 * (n % 2))
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
    """How often all scans show a new place while the mouse moves: an update counts when the page shows new pictures in
    all views of the other scans, and in both other views of the scan under the mouse.
    """
    page.press("crosshair")
    box = page.page.locator(f"[data-view={_UNDER_MOUSE}]").bounding_box()
    at = [(box["x"] + share * box["width"], box["y"] + share * box["height"]) for share in _shares(_MOVES)]
    page.page.mouse.move(*at[0])
    page.page.wait_for_timeout(500)
    page.page.evaluate(_COUNT_UPDATES, _UNDER_MOUSE)
    start, spent = time.monotonic(), page.running.cpu_seconds()
    for place in at:
        page.page.mouse.move(*place)
        page.page.wait_for_timeout(30)
    seconds, spent = time.monotonic() - start, page.running.cpu_seconds() - spent
    updates = page.page.evaluate("() => window.updates")
    print(
        f"crosshair, 4 scans: {updates / seconds:.1f} updates of all scans a second, "
        f"{1000 * spent / max(updates, 1):.0f} ms of the viewer's CPU time each; load {os.getloadavg()[0]:.1f}",
        flush=True,
    )


def _shares(count: int) -> list[float]:
    """Places on a way down and up again through the middle of a view."""
    return [0.3 + 0.4 * abs(1 - 2 * n / count) for n in range(count)]


if __name__ == "__main__":
    main()
