"""Run each scenario once in the test kit, with the real panels, logic, scene and engine."""

import importlib.util
import os
import sys
from pathlib import Path

import pytest
import slicer
from run import Scenario

IN_SLICER = Path(__file__).resolve().parents[1] / "in_slicer"
SCENARIOS = sorted((IN_SLICER / "scenarios").glob("*.py"))
NOT_ON_KIT = {"install"}  # of Slicer's Extensions Manager
QUICK = {
    "cancel_and_close",
    "cohort_places",
    "edit_points",
    "follow_up_reading",
    "follow_up_scene",
    "landmarks_scene",
    "late_answers",
    "measure",
    "placing",
    "tutorial",
}
DRIVEN = [
    pytest.param(path.stem, marks=() if path.stem in QUICK else pytest.mark.long)
    for path in SCENARIOS
    if path.stem not in NOT_ON_KIT
]

ON_KIT = {"MOST_MS": 60_000.0, "STEPS": 20}  # how quick this machine is shows nothing about Slicer


def load(path):
    spec = importlib.util.spec_from_file_location(f"in_slicer_{path.stem}", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _put_on_path(command, monkeypatch):
    """Slicer's own Python, as a command."""
    command.parent.mkdir()
    command.write_text(f'#!/bin/sh\nexec "{sys.executable}" "$@"\n')
    command.chmod(0o755)
    monkeypatch.setenv("PATH", str(command.parent), prepend=os.pathsep)


@pytest.fixture
def start(kit, tmp_path, map_folder, monkeypatch):
    """start(): a person at the kit's application, freshly started. Maps are kept from test to test."""
    _put_on_path(tmp_path / "bin" / "PythonSlicer", monkeypatch)
    from kit_user import KitUser

    from AnatomicalEmbeddingLib.shared.panels import ModuleSettings

    pictures = Path(__file__).resolve().parents[2] / "build" / "scenarios"
    pictures.mkdir(parents=True, exist_ok=True)

    def run():
        kit.reset(tmp_path / "Slicer.ini")
        ModuleSettings.setValue("cacheFolder", str(map_folder))
        ModuleSettings.setValue("device", "cpu")
        return KitUser(kit, tmp_path, pictures)

    yield run
    if hasattr(slicer, "dicomDatabase"):
        del slicer.dicomDatabase


@pytest.mark.parametrize("name", DRIVEN)
def test_a_scenario_from_end_to_end(start, name):
    path = IN_SLICER / "scenarios" / f"{name}.py"
    scenario = load(path)
    for constant, here in ON_KIT.items():
        if hasattr(scenario, constant):
            setattr(scenario, constant, here)
    for function in Scenario.read(path).runs:
        getattr(scenario, function)(start())
