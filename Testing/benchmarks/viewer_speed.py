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
sys.path[:0] = [
    str(_TESTING / each)
    for each in ("viewer", "views", "followup", "", "../tools", "..", "../SlicerModules")
]

import numpy as np  # noqa: E402
from browsing import Page, Running, open_browser  # noqa: E402
from dicom_series import write_ct_series  # noqa: E402

from AnatomicalEmbedding.phantom import make_phantom  # noqa: E402
from AnatomicalEmbedding.training.warped_scans import warp_scan  # noqa: E402

_SEEDS = (71, 72, 73, 74)
_CLICKS, _MOVES, _DRAWN = 12, 150, 30
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


# an update: a frame of the page before which every view but that under the mouse has loaded a new picture
_COUNT_UPDATES = """(underMouse) => {
    window.updates = 0;
    const views = [...document.querySelectorAll('.cell')].filter((cell) => cell.dataset.view !== underMouse);
    const loaded = new Set();
    for (const cell of views) cell.querySelector('img').addEventListener('load', () => loaded.add(cell));
    const frame = () => {
        if (loaded.size === views.length) { window.updates++; loaded.clear(); }
        requestAnimationFrame(frame);
    };
    requestAnimationFrame(frame);
}"""


def main() -> None:
    with tempfile.TemporaryDirectory() as name, open_browser() as browser:
        folder = Path(name)
        (folder / "demo").mkdir()
        start = time.monotonic()
        with Running(folder / "demo", "--demo") as program:
            page = Page(browser, program)
            page.wait("document.querySelectorAll('.row .cell img').length === 6")
            print(
                f"--demo, nothing cached: both scans shown after {time.monotonic() - start:.1f} s",
                flush=True,
            )
            page.wait_ready(2)
            print(f"--demo: both embedded after {time.monotonic() - start:.1f} s", flush=True)
            _measure_clicks(page)
            page.close()
        paths = []
        for seed in _SEEDS:
            paths.append(folder / f"scan{seed}.nii.gz")
            make_phantom(seed, spacing=(2.5, 2.5, 3.0), coverage_mm=(150.0, 480.0)).volume.write(
                paths[-1]
            )
        with Running(folder, *map(str, paths)) as program:
            page = Page(browser, program)
            page.wait_ready(4)
            page.wait("document.querySelectorAll('.row .cell img').length === 12")
            _measure_crosshair(page, "4 scans")
            page.close()
        patient = make_phantom(
            _SEEDS[0], spacing=(2.5, 2.5, 3.0), coverage_mm=(150.0, 480.0)
        ).volume
        studies = [folder / "study0", folder / "study1"]
        for study, volume in zip(studies, (patient, warp_scan(patient, 5).volume), strict=True):
            write_ct_series(study, volume, PatientID="P1")
        with Running(folder, *map(str, studies)) as program:
            page = Page(browser, program)
            page.wait_ready(2)
            page.wait("document.querySelectorAll('.row .cell img').length === 6")
            page.press("crosshair")
            page.page.mouse.move(*page.at(_UNDER_MOUSE, 0.5, 0.5))
            _wait_idle(page)  # the two scans are registered
            page.press("crosshair")
            _measure_crosshair(page, "2 scans of one patient")
            page.close()
    _measure_module()


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
    print(
        f"click to answers drawn: median {statistics.median(took):.0f} ms, worst {max(took):.0f} ms",
        flush=True,
    )


def _wait_idle(page: Page) -> None:
    """Until the program uses less than a tenth of a core for two seconds."""
    spent = -1.0
    while (now := page.running.cpu_seconds()) - spent > 0.2:
        spent = now
        page.page.wait_for_timeout(2000)


def _measure_crosshair(page: Page, what: str) -> None:
    """How often all scans show a new place while the mouse moves: all views of the other scans, and both other views of
    the scan under the mouse, show a new picture in one frame of the page.
    """
    page.press("crosshair")
    box = page.page.locator(f"[data-view={_UNDER_MOUSE}]").bounding_box()
    at = [
        (box["x"] + share * box["width"], box["y"] + share * box["height"])
        for share in _shares(_MOVES)
    ]
    page.page.mouse.move(*at[0])
    page.page.wait_for_timeout(500)
    page.page.evaluate(_COUNT_UPDATES, _UNDER_MOUSE)
    start = time.monotonic()
    spent = page.running.cpu_seconds()
    for place in at:
        page.page.mouse.move(*place)
        page.page.wait_for_timeout(12)
    seconds = time.monotonic() - start
    spent = page.running.cpu_seconds() - spent
    updates = page.page.evaluate("() => window.updates")
    print(
        f"crosshair, {what}: {updates / seconds:.1f} updates of all scans a second, "
        f"{1000 * spent / max(updates, 1):.0f} ms of the viewer's CPU time each; load {os.getloadavg()[0]:.1f}",
        flush=True,
    )


def _measure_module() -> None:
    """How often the views of the Slicer module draw a new place: three views of each of two scans of one patient."""
    from mouse_views import MouseView, make_application

    application = make_application()
    from scans import (
        add_bent_copy,
        add_patient,
        finish,
        make_store,
        patient,
        put_under_one_patient,
        relate,
    )

    from AnatomicalEmbeddingLib.landmarks.AnatomicalCrosshair import AnatomicalCrosshair
    from AnatomicalEmbeddingLib.shared.maps.SceneRelations import SceneRelations

    scene = application.scene
    volumes = [add_patient(0), add_bent_copy()]
    put_under_one_patient(scene, *volumes)
    views = []
    for volume in volumes:
        volume.CreateDefaultDisplayNodes()
        views += [
            MouseView(application, f"{volume.GetName()}{each}", volume, each)
            for each in ("Axial", "Sagittal", "Coronal")
        ]
    with tempfile.TemporaryDirectory() as folder:
        store = make_store(scene, Path(folder))
        relations = SceneRelations(scene, store)
        crosshair = AnatomicalCrosshair(scene, relations)
        crosshair.volumes = volumes
        store.request(volumes)
        finish(store, 600.0)
        middle = np.mean(list(patient(0).points_ras.values()), axis=0)
        for what in ("matched", "registered"):
            start = time.monotonic()
            for share in _shares(_DRAWN):
                crosshair.follow(volumes[0], middle + [0.0, 0.0, 200.0 * (share - 0.5)])
                for view in views:
                    view.view.render()
            rate = _DRAWN / (time.monotonic() - start)
            print(
                f"module, 2 scans of one patient in 6 views, {what}: {rate:.1f} places drawn a second",
                flush=True,
            )
            relate(relations, 600.0)
        crosshair.close()
        relations.close()
        store.close()


def _shares(count: int) -> list[float]:
    """Places on a way down and up again through the middle of a view."""
    return [0.3 + 0.4 * abs(1 - 2 * n / count) for n in range(count)]


if __name__ == "__main__":
    main()
