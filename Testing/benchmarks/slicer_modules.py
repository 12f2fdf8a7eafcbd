"""Measure the speed of the Slicer modules: loading, the answers after a click, and the crosshair.

python Testing/benchmarks/slicer_modules.py

The modules run on slicer-core and the test kit, not in Slicer itself.
"""

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path

import numpy as np

_TESTING = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(_TESTING), str(_TESTING.parent / "SlicerModules")]

MODULES = ("AnatomicalLandmarks", "AnatomicalROI", "LesionFollowUp", "AnatomicalEmbeddingTraining")
TARGETS, CLICKS = 5, 50


def main() -> None:
    from slicer_kit import install

    kit = install()
    with tempfile.TemporaryDirectory() as folder:
        kit.reset(Path(folder) / "Slicer.ini")
        for name in MODULES:
            started = time.perf_counter()
            kit.load_module(name)
            print(f"load {name}: {1000 * (time.perf_counter() - started):.0f} ms")
        _show("click, answers in 5 embedded scans, table and lists included", _clicks(kit, folder))
        kit.reset()
        _one_patient(kit, folder)
        kit.reset()


def _clicks(kit, folder: str) -> list[float]:
    """Milliseconds from the event of a placed point to all answers in the scene and in the panel's table."""
    import slicer
    import vtk

    from AnatomicalEmbedding.phantom import make_phantom
    from AnatomicalEmbeddingLib.shared.panels import ModuleSettings

    ModuleSettings.setValue("cacheFolder", folder)
    seeds = range(20_001, 20_002 + TARGETS)
    patients = [
        make_phantom(seed, spacing=(2.0, 2.0, 3.0), coverage_mm=(150.0, 600.0)) for seed in seeds
    ]
    for n, patient in enumerate(patients):
        slicer.util.addVolumeFromArray(
            patient.volume.voxels, patient.volume.ijk_to_ras, name=f"CT-{n + 1}"
        )
    panel = kit.open("AnatomicalLandmarks")
    panel.session.store.request(panel.crosshair.volumes)
    kit.spin(lambda: not panel.session.store.busy, 600)
    points = panel.ui.pointsSelector.addNode()
    rng = np.random.default_rng(0)
    known = list(patients[0].points_ras.values())
    taken = []
    for n in range(CLICKS):
        point = known[n % len(known)] + rng.normal(0, 3, 3)
        started = time.perf_counter()
        points.AddControlPointWorld(vtk.vtkVector3d(*point))
        taken.append(1000 * (time.perf_counter() - started))
        if n % 10 == 9:  # a list of ten points is usual
            points.RemoveAllControlPoints()
    moves = []
    for n in range(CLICKS):
        started = time.perf_counter()
        panel.crosshair.follow(panel.logic.template, known[n % len(known)])
        moves.append(1000 * (time.perf_counter() - started))
    _show("crosshair, one move followed in 5 scans", moves)
    kit.close(panel)
    return taken


def _one_patient(kit, folder: str) -> None:
    """The crosshair in four scans of one patient: by matching, and by the correspondences."""
    import slicer
    from scans import add_bent_copy, add_patient, finish, patient, put_under_one_patient, relate

    from AnatomicalEmbeddingLib.shared.panels import ModuleSettings

    ModuleSettings.setValue("cacheFolder", folder)
    kit.load_module("AnatomicalLandmarks")
    volumes = [add_patient(0), *(add_bent_copy(f"copy {seed}", seed) for seed in (5, 6, 7))]
    put_under_one_patient(slicer.mrmlScene, *volumes)
    panel = kit.open("AnatomicalLandmarks")
    crosshair = panel.crosshair
    store = panel.session.store
    relations = panel.session.relations
    store.request(crosshair.volumes)
    finish(store, 600)
    known = list(patient(0).points_ras.values())
    for name in ("matched", "registered"):
        moves = []
        for n in range(CLICKS):
            started = time.perf_counter()
            crosshair.follow(volumes[0], known[n % len(known)])
            moves.append(1000 * (time.perf_counter() - started))
        _show(f"crosshair, one move followed in 4 scans of one patient, {name}", moves)
        relate(relations, 600)
    ready = [relations.computed(volumes[0], target) is not None for target in volumes[1:]]
    print(f"registered: {sum(ready)} of {len(ready)}")
    kit.close(panel)


def _show(what: str, taken: list[float]) -> None:
    print(
        f"{what}: median {np.median(taken):.0f} ms, 95th percentile {np.percentile(taken, 95):.0f} ms"
    )


if __name__ == "__main__":
    main()
