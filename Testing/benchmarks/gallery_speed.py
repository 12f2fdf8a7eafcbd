"""Measure the gallery of a cohort in the browser viewer: time to the first pictures, and how smoothly it scrolls.

.venv-views/bin/python Testing/benchmarks/gallery_speed.py STORE [--scans 300]

STORE is a cohort whose scan files still exist. The maps of its first scans, as many as `--scans` says, are copied into
a new store, so that no picture is cached.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import sys
import tempfile
import time
from pathlib import Path

_TESTING = Path(__file__).resolve().parents[1]
sys.path[:0] = [
    str(each)
    for each in (_TESTING / "viewer", _TESTING, _TESTING.parent / "tools", _TESTING.parent)
]

from browsing import Running, open_browser  # noqa: E402

from AnatomicalEmbedding.cohort.manifest import EMBEDDED  # noqa: E402
from AnatomicalEmbedding.cohort.store import Store  # noqa: E402

_WORDS = "left kidney"
_WATCH = """
    window.loaded = [];
    document.addEventListener('load', (event) => {
        if (event.target.tagName === 'IMG') window.loaded.push(performance.now());
    }, true);
"""
_VISIBLE_DRAWN = """() => {
    const seen = [...document.querySelectorAll('figure img')].filter((image) => {
        const box = image.getBoundingClientRect();
        return box.bottom > 0 && box.top < innerHeight;
    });
    return seen.length > 0 && seen.every((image) => image.complete && image.naturalWidth > 0);
}"""
_COUNT_FRAMES = """() => {
    window.frames_ms = [];
    let last = performance.now();
    const frame = (now) => { window.frames_ms.push(now - last); last = now; requestAnimationFrame(frame); };
    requestAnimationFrame(frame);
}"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("store", type=Path)
    parser.add_argument("--scans", type=int, default=300)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name, open_browser() as browser:
        folder = Path(name)
        count = _taken(options.store, folder / "gallery", options.scans)
        with Running(folder, "--cohort", str(folder / "gallery")) as program:
            page = browser.new_page(viewport={"width": 1400, "height": 860})
            page.add_init_script(_WATCH)
            page.goto(program.url)
            found = {"scans": count, "opened": _pictures(page), "scrolling": _scroll(page)}
            page.evaluate("() => { window.loaded = []; window.started = performance.now(); }")
            page.fill("#words", _WORDS)
            page.click("[data-test=find]")
            page.wait_for_function("window.gallery.searched", timeout=120_000)
            found["found_after_s"] = round(
                page.evaluate("(performance.now() - window.started) / 1000"), 2
            )
            found["found"] = _pictures(page)
            found["memory_mb"] = round(program.memory_mb())
            page.close()
    print(json.dumps(found | {"load": round(os.getloadavg()[0], 1)}), flush=True)


def _taken(store: Path, target: Path, count: int) -> int:
    """Make a store of the first maps of another; how many."""
    with Store(store) as known, Store(target, create=True) as made:
        rows = list(known.manifest.rows(EMBEDDED))[:count]
        facts = {row.id: facts for row, facts in known.manifest.embedded()}
        files = known.manifest.map_files()
        made.manifest.set_about(known.manifest.about)
        made.manifest.add(row.source for row in rows)
        for new, row in zip(made.manifest.rows(), rows, strict=True):
            sha256, size = files[row.scan_hash]
            made.map_path(row.scan_hash).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(known.map_path(row.scan_hash), made.map_path(row.scan_hash))
            values = {
                "scan_hash": row.scan_hash,
                "sha256": sha256,
                "size": size,
                "facts": facts[row.id],
            }
            made.manifest.finish(new.id, EMBEDDED, **values)
    return len(rows)


def _pictures(page) -> dict[str, float]:
    """Seconds, from the page's start or the search's, to the first picture and to all that are on the screen."""
    page.wait_for_function(_VISIBLE_DRAWN, timeout=120_000)
    first, now = page.evaluate(
        "() => [window.loaded[0], performance.now()].map((each) => (each - (window.started || 0)) / 1000)"
    )
    cards = page.locator("figure").count()
    return {"cards": cards, "first_s": round(first, 2), "screen_s": round(now, 2)}


def _scroll(page) -> dict[str, float]:
    """Through all pictures by the wheel, once: the time between two frames, and pictures left to come at the end."""
    page.mouse.move(700, 500)
    page.evaluate(_COUNT_FRAMES)
    at_end = "() => { const all = document.getElementById('cards');"
    at_end += " return all.scrollTop + all.clientHeight >= all.scrollHeight - 2; }"
    start = time.monotonic()
    while not page.evaluate(at_end) and time.monotonic() - start < 60:
        page.mouse.wheel(0, 120)
        page.wait_for_timeout(30)
    frames = sorted(page.evaluate("() => window.frames_ms"))
    arrived = time.monotonic()
    page.wait_for_function(_VISIBLE_DRAWN, timeout=120_000)
    return {
        "seconds": round(arrived - start, 1), "frames": len(frames), "median_ms": round(frames[len(frames) // 2], 1),
        "p95_ms": round(frames[int(0.95 * len(frames))], 1), "longest_ms": round(frames[-1], 1),
        "last_screen_after_s": round(time.monotonic() - arrived, 2),
    }  # fmt: skip


if __name__ == "__main__":
    main()
