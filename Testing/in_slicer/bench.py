"""Measure speed inside 3D Slicer. `run.py SLICER --bench` runs this script and writes the figures as a table.

The scans are synthetic patients of 512 x 512 x 150 voxels. The views draw pictures, so all figures include the time of
OpenGL, which runs on the CPU if the computer has no GPU.
"""

import statistics
import sys
import time
from pathlib import Path

import slicer
from driver.heartbeat import Heartbeat
from driver.landmarks import answer, new_list
from driver.scans import add_large, add_patient, add_studies, keep_no_maps
from driver.waiting import pause

CLICKS, CROSSHAIR_SECONDS, SCENES, UPDATES = 10, 6.0, 20, 200
ENDS_AT_WORK = True


def run_two_scans(user):
    _measure(user, 2)


def run_four_scans(user):
    _measure(user, 4)


def run_one_patient(user):
    """The crosshair in scans of one patient, with their correspondences: the logic alone, then with its pictures."""
    scans = add_studies(4)
    panel = user.open("AnatomicalLandmarks")
    user.prepare(panel)
    user.click(panel.ui.gridButton)
    panel.session.relations.request(scans[0], scans[1:])
    started = time.perf_counter()
    user.wait(lambda: not panel.session.relations.busy, 600, "all correspondences are found")
    user.figures["correspondences of 4 scans of one patient"] = (
        f"{time.perf_counter() - started:.0f} s"
    )
    user.tick(panel.ui.crosshairCheckBox)
    view = user.views.nodes(scans[0])[0]
    middle = _middle(scans[0])
    manager = slicer.app.layoutManager()
    manager.pauseRender()  # else a view draws at once where 16 ms have passed since it was asked to
    started = time.perf_counter()
    for n in range(UPDATES):
        panel.crosshair.follow(scans[0], middle + [n % 41 - 20, n % 31 - 15, 0.0], view)
    taken = time.perf_counter() - started
    manager.resumeRender()
    moves = []
    panel.crosshair.moved.connect(lambda *_: moves.append(None))
    drawn = _crosshair(user, panel, scans)
    user.figures["crosshair, 4 scans of one patient"] = (
        f"{UPDATES / taken:.0f} updates a second of the logic alone; {len(moves) / CROSSHAIR_SECONDS:.0f} with {drawn}"
    )


def run_scenes(user):
    """Memory after many scenes that were opened, worked in and closed."""
    panel = user.open("AnatomicalLandmarks")
    after = []
    for _ in range(SCENES):
        prior = add_patient(0, "Prior")
        current = add_patient(1, "Current")
        pause(0.3)
        if panel.preparation.button.enabled:
            user.prepare(panel)
        user.click(panel.ui.gridButton)
        _place(panel, new_list(panel), prior, _middle(prior))
        user.wait(lambda current=current: answer(panel, current) is not None)
        user.close_scene()
        after.append(_memory_mb())
    if after[0] is not None:
        user.figures[f"memory after the first and after {SCENES} scenes"] = (
            f"{after[0]:.0f} and {after[-1]:.0f} MB"
        )


def _measure(user, count):
    """Figures with so many scans side by side."""
    keep_no_maps()
    scans = add_large(count)
    panel = user.open("AnatomicalLandmarks")
    pause(3.0)
    with Heartbeat() as at_rest:
        pause(3.0)
    with Heartbeat() as beat:
        started = time.perf_counter()
        user.prepare(panel)
        taken = time.perf_counter() - started
    what = f"{count} scans of 512 x 512 x 150"
    user.figures[f"preparing {what}"] = f"{taken:.0f} s"
    user.figures[f"main thread held at most while {what} are prepared (at rest)"] = (
        f"{beat.longest_ms:.0f} ms ({at_rest.longest_ms:.0f} ms)"
    )
    with Heartbeat() as beat:
        started = time.perf_counter()
        user.click(panel.ui.gridButton)
        slicer.util.forceRenderAllViews()
        taken = time.perf_counter() - started
        pause(1.0)
    user.figures[f"Show side by side, {what}: press to pictures (main thread held at most)"] = (
        f"{1000 * taken:.0f} ms ({beat.longest_ms:.0f} ms)"
    )
    user.picture(f"{count}-scans")
    user.figures[f"click to answers shown, {what}"] = _clicks(panel, scans)
    user.figures[f"crosshair, {what}"] = _crosshair(user, panel, scans)


def _clicks(panel, scans):
    """Milliseconds from the event of a placed point until all answers are drawn."""
    points = new_list(panel)
    times = []
    for n in range(CLICKS):
        started = time.perf_counter()
        _place(panel, points, scans[0], _middle(scans[0]) + [3.0 * n, -2.0 * n, 4.0 * n])
        while any(answer(panel, scan, n) is None for scan in scans[1:]):
            slicer.app.processEvents()
        slicer.util.forceRenderAllViews()
        times.append(1000 * (time.perf_counter() - started))
        pause(0.1)
    points.RemoveAllControlPoints()
    return f"median {statistics.median(times):.0f} ms, longest {max(times):.0f} ms"


def _crosshair(user, panel, scans):
    """Pictures a second of a scan that follows the mouse, while the mouse moves all the time."""
    user.tick(panel.ui.crosshairCheckBox)
    window = user.views.of(scans[-1]).sliceView().renderWindow()
    drawn = []
    tag = window.AddObserver("EndEvent", lambda *_: drawn.append(time.perf_counter()))
    moves = user.views.wave(scans[0], CROSSHAIR_SECONDS)
    window.RemoveObserver(tag)
    user.tick(panel.ui.crosshairCheckBox, False)
    return f"{len(drawn) / CROSSHAIR_SECONDS:.1f} pictures a second ({moves / CROSSHAIR_SECONDS:.0f} moves a second)"


def _place(panel, points, volume, place):
    import vtk

    index = points.AddControlPointWorld(vtk.vtkVector3d(*place))
    points.SetNthControlPointAssociatedNodeID(index, volume.GetID())


def _middle(volume):
    import numpy as np

    bounds = [0.0] * 6
    volume.GetRASBounds(bounds)
    return np.array([(bounds[2 * n] + bounds[2 * n + 1]) / 2 for n in range(3)])


def _memory_mb():
    """Resident memory of Slicer, MB; None where the system does not say."""
    if sys.platform != "linux":
        return None
    lines = Path("/proc/self/status").read_text(encoding="utf-8").splitlines()
    return next(int(line.split()[1]) / 1024 for line in lines if line.startswith("VmRSS"))
