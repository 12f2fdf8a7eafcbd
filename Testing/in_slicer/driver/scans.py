"""Add synthetic patients to the scene, as volumes or as imported DICOM series."""

import sys
from functools import cache
from pathlib import Path

import numpy as np
import slicer

SEEDS = (71, 72, 73, 74, 75)  # no weights were trained on them
DATES = ("20240115", "20240411")
TORSO_MM = (150.0, 480.0)


@cache
def patient(number: int, coverage_mm: tuple[float, float] = TORSO_MM):
    """The torso of a synthetic patient, 4 mm, with labels and named points."""
    from AnatomicalEmbedding.phantom import make_phantom

    return make_phantom(SEEDS[number], spacing=(4.0, 4.0, 4.0), coverage_mm=coverage_mm)


def add_patient(number: int, name: str, coverage_mm: tuple[float, float] = TORSO_MM):
    """The same as a volume node."""
    return _add_shown(patient(number, coverage_mm).volume, name)


def box_of(number: int, organ: str) -> np.ndarray:
    """(2, 3) lowest and highest RAS mm of an organ's voxels in a patient's torso."""
    made = patient(number)
    label = next(value for value, name in made.label_names.items() if name == organ)
    voxels = np.argwhere(made.labels == label)[:, ::-1]
    matrix = made.volume.ijk_to_ras
    places = voxels @ matrix[:3, :3].T + matrix[:3, 3]
    return np.stack([places.min(axis=0), places.max(axis=0)])


@cache
def followed():
    """A synthetic patient with lesions, scanned on both DATES; what became of each lesion is known."""
    _find_tests()
    from synthetic_follow_up import make_follow_up

    return make_follow_up(57, len(DATES))


def visible_lesions() -> list[tuple[np.ndarray, np.ndarray]]:
    """Places, (3,) RAS mm, of the lesions that both studies of `followed` show."""
    states = [lesion.states for lesion in followed().lesions]
    return [
        (prior.point_ras, current.point_ras)
        for prior, current in states
        if prior.state == current.state == "visible"
    ]


def write_studies(folder: Path) -> Path:
    """The follow-up's studies as DICOM series below a folder, a folder each; returns the folder."""
    _find_tests("followup")
    from dicom_series import write_ct_series

    if not folder.is_dir():
        for day, volume in zip(DATES, followed().volumes, strict=True):
            write_ct_series(
                folder / day,
                volume,
                StudyDate=day,
                SeriesDescription=f"CT {day}",
                StudyDescription=day,
            )
    return folder


def write_patients(folder: Path, count: int) -> Path:
    """Synthetic patients, one study each, as DICOM series below a folder; returns the folder."""
    _find_tests("followup")
    from dicom_series import write_ct_series

    for number in range(count):
        write_ct_series(
            folder / str(number),
            patient(number).volume,
            PatientID=f"P{number}",
            SeriesDescription=f"CT {number}",
            StudyDescription="trunk",
        )
    return folder


def keep_no_maps() -> None:
    """Embed every scan anew: the scenario is about the time that this takes."""
    from AnatomicalEmbeddingLib.shared.panels import ModuleSettings

    ModuleSettings.setValue("cacheLimitMb", 0)


def specimen(seed: int):
    """A scan of 12 mm of a synthetic shape, in any rotation, and the middles of its lobes."""
    _find_tests()
    from specimens import make_specimen

    return make_specimen(seed)


def add_specimen(seed: int, name: str):
    """The same as a volume node."""
    return _add_shown(specimen(seed).volume, name)


def write_weights(path: Path) -> None:
    """Write weights for such shapes."""
    _find_tests()
    from own_kind_weights import write_shape_weights

    write_shape_weights(path)


def _add_shown(volume, name: str):
    node = slicer.util.addVolumeFromArray(volume.voxels, volume.ijk_to_ras, name=name)
    node.CreateDefaultDisplayNodes()
    slicer.app.processEvents()
    return node


def _find_tests(folder: str = "") -> None:
    """Let modules of a folder of Testing be imported, in Slicer, too."""
    testing = str(Path(__file__).resolve().parents[2] / folder)
    if testing not in sys.path:
        sys.path.append(testing)
