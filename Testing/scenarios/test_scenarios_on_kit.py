"""Scenarios read once from end to end by the test kit: their panels, logic, scene and engine are the real ones."""

import importlib.util
from pathlib import Path

import pytest
import slicer

IN_SLICER = Path(__file__).resolve().parents[1] / "in_slicer"
SCENARIOS = sorted((IN_SLICER / "scenarios").glob("*.py"))


def load(path):
    spec = importlib.util.spec_from_file_location(f"in_slicer_{path.stem}", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def user(kit, tmp_path, map_folder):
    """A person at the kit's application, whose maps are kept from test to test."""
    from kit_user import KitUser

    from AnatomicalEmbeddingLib.Panels import ModuleSettings

    ModuleSettings.setCacheFolder(str(map_folder))
    ModuleSettings.setDevice("cpu")
    pictures = Path(__file__).resolve().parents[2] / "build" / "scenarios"
    pictures.mkdir(parents=True, exist_ok=True)
    made = KitUser(kit, tmp_path)
    made.pictures = pictures
    yield made
    made.views.close()
    if hasattr(slicer, "dicomDatabase"):
        del slicer.dicomDatabase


@pytest.mark.parametrize("path", [*SCENARIOS, IN_SLICER / "bench.py"], ids=lambda path: path.stem)
def test_every_scenario_can_be_loaded(kit, path):
    assert callable(load(path).run if path.parent.name == "scenarios" else load(path).run_scenes)


@pytest.mark.parametrize("name", ["tutorial", "follow_up", "late_answers", "edit_points", "crosshair", "landmarks_scene", "follow_up_pairs", "follow_up_scene", "follow_up_reading", "align", "set_up", "self_tests", "boxes", "cut_organ", "enter_and_leave", "cancel_and_close", "placing", "side_by_side", "main_thread"])
def test_a_scenario_from_end_to_end(user, name):
    load(IN_SLICER / "scenarios" / f"{name}.py").run(user)
