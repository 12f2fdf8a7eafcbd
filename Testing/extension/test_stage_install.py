"""Test that the staged extension works from its single folder, without the repository."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from stage_install import ROOT, Staged


def _start(flat: Path, cwd: Path) -> subprocess.CompletedProcess[str]:
    script = ROOT / "Testing/extension/start_staged.py"
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    environment |= {"QT_QPA_PLATFORM": "offscreen", "PYTHONDONTWRITEBYTECODE": "1"}
    return subprocess.run(
        [sys.executable, script, flat], capture_output=True, text=True, cwd=cwd, env=environment
    )


@pytest.fixture(scope="module")
def started(drawing: None, staged: Staged, tmp_path_factory: pytest.TempPathFactory) -> dict:
    """What start_staged.py found."""
    done = _start(staged.flat, tmp_path_factory.mktemp("elsewhere"))
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


def test_every_module_starts_and_opens(started: dict, staged: Staged) -> None:
    assert staged.modules
    assert started["modules"] == staged.modules
    assert all(started["titles"])
    assert started["with icon"] == staged.modules


def test_all_code_comes_from_the_staged_folder(started: dict, staged: Staged) -> None:
    assert started["files"]
    assert [path for path in started["files"] if not Path(path).is_relative_to(staged.flat)] == []


def test_no_module_loads_torch(started: dict) -> None:
    assert not started["torch at load"]


def test_the_engine_finds_its_data(started: dict) -> None:
    models = ROOT / "Resources/Models"
    files = {
        path.stem for path in models.glob("*.safetensors") if not path.stem.endswith(".calibration")
    }
    # weights for CTs
    assert set(started["weights"]) == {name for name in files if not name.startswith("film-")}
    assert started["structures"] > 0
    assert started["recipes"] == sorted(
        path.name for path in (ROOT / "Resources/Recipes").iterdir()
    )
