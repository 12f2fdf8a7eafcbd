"""Draw Resources/Screenshots/slice-views.png: a point clicked in one synthetic patient and its answer in another.

.venv-views/bin/python Testing/views/make_picture.py
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

_TESTING = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(_TESTING), str(_TESTING.parent / "SlicerModules"), str(_TESTING.parent)]

import slicer.util  # noqa: E402
from mouse_views import MouseView, make_application  # noqa: E402
from scans import add_points, finish, make_store  # noqa: E402
from vtkmodules.vtkFiltersCore import vtkImageAppend  # noqa: E402
from vtkmodules.vtkIOImage import vtkPNGReader, vtkPNGWriter  # noqa: E402

from AnatomicalEmbedding.phantom import make_phantom  # noqa: E402
from AnatomicalEmbeddingLib.scene.landmarks.LandmarkLogic import LandmarkLogic  # noqa: E402

OUTPUT = _TESTING.parent / "Resources" / "Screenshots" / "slice-views.png"
_SEEDS, _POINT = (20_001, 20_002), "carina"


def main() -> None:
    app = make_application()
    patients = [make_phantom(seed, spacing=(1.5, 1.5, 2.0), coverage_mm=(190.0, 600.0)) for seed in _SEEDS]
    volumes = []
    for patient, name in zip(patients, ("Template", "Target"), strict=True):
        node = slicer.util.addVolumeFromArray(patient.volume.voxels, patient.volume.ijk_to_ras, name=name)
        node.CreateDefaultDisplayNodes()
        node.GetDisplayNode().SetAndObserveColorNodeID("vtkMRMLColorTableNodeGrey")
        node.GetDisplayNode().SetAutoWindowLevel(False)
        node.GetDisplayNode().SetWindowLevel(500, 40)
        volumes.append(node)
    views = [
        [MouseView(app, f"{volume.GetName()}{o}", volume, o) for o in ("Axial", "Sagittal", "Coronal")]
        for volume in volumes
    ]
    with tempfile.TemporaryDirectory() as folder:
        store = make_store(app.scene, Path(folder))
        logic = LandmarkLogic(app.scene, store)
        logic.setScans(volumes[0], volumes[1:])
        logic.prepare()
        finish(store, 600)
        logic.setPoints(add_points(app.scene, {_POINT: patients[0].points_ras[_POINT]}))
        for node in (logic.points, logic.answersIn(volumes[1]).node):
            node.GetDisplayNode().SetTextScale(5.0)
        logic.jumpTo(logic.rows()[0].pointId)
        _write([[_grabbed(view, Path(folder) / f"{view.tag}.png") for view in row] for row in views])
        logic.close()
        store.close()


def _grabbed(view: MouseView, path: Path):
    view.picture(path)
    reader = vtkPNGReader()
    reader.SetFileName(str(path))
    reader.Update()
    return reader.GetOutput()


def _write(rows: list[list]) -> None:
    """Rows from top to bottom as one picture."""
    column = vtkImageAppend()
    column.SetAppendAxis(1)
    for pictures in reversed(rows):  # VTK counts from the bottom
        row = vtkImageAppend()
        for picture in pictures:
            row.AddInputData(picture)
        row.Update()
        column.AddInputData(row.GetOutput())
    writer = vtkPNGWriter()
    writer.SetFileName(str(OUTPUT))
    writer.SetInputConnection(column.GetOutputPort())
    writer.Write()


if __name__ == "__main__":
    main()
