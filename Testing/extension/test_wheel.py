"""Test the wheel: its size, its files, and the command line as pip installs it, without the repository."""

import os
import subprocess
import sys
import zipfile
from importlib.util import find_spec
from pathlib import Path

import pytest
from stage_install import ROOT

MOST_BYTES = 30_000_000
MADE_BY_DEMO = {
    "matches.csv",
    "report.html",
    "target.mrk.json",
    "target.nii.gz",
    "template.mrk.json",
    "template.nii.gz",
}

pytestmark = pytest.mark.skipif(
    find_spec("hatchling") is None, reason="hatchling, which builds the wheel, is missing"
)


def run(folder: Path, *words: object, **environment: str) -> str:
    """Run Python in a folder and return its stdout."""
    command = [sys.executable, *map(str, words)]
    done = subprocess.run(
        command, cwd=folder, env=os.environ | environment, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    run(
        ROOT,
        "-m",
        "pip",
        "wheel",
        "--quiet",
        "--no-deps",
        "--no-build-isolation",
        "--wheel-dir",
        folder,
        ".",
    )
    return next(folder.glob("*.whl"))


def test_the_wheel_is_small_and_holds_every_module(wheel):
    assert wheel.stat().st_size <= MOST_BYTES
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
    folders = (
        "AnatomicalEmbedding",
        "SlicerModules/AnatomicalEmbeddingLib",
        "SlicerModules/AnatomicalEmbeddingViewer",
    )
    for folder in folders:
        files = {
            path
            for path in (ROOT / folder).rglob("*")
            if path.suffix in (".py", ".j2", ".toml", ".html", ".js")
        }
        assert {path.relative_to((ROOT / folder).parent).as_posix() for path in files} <= names
    cards = {path.name for path in (ROOT / "Resources/Models").glob("*.json")}
    assert {f"AnatomicalEmbedding/Resources/Models/{name}" for name in cards} <= names
    tables = {path.name for path in (ROOT / "Resources/Phantom").iterdir()}
    assert {f"AnatomicalEmbedding/Resources/Phantom/{name}" for name in tables} <= names
    assert not [name for name in names if "Screenshots" in name or "SampleData" in name]


@pytest.mark.long
def test_the_demo_runs_from_the_wheel_alone(wheel, tmp_path):
    site = tmp_path / "site"
    work = tmp_path / "work"
    work.mkdir()
    run(work, "-m", "pip", "install", "--quiet", "--no-deps", "--target", site, wheel)
    alone = {"PYTHONPATH": str(site), "ANATEMB_CACHE": str(work / "cache")}
    assert run(
        work, "-c", "import AnatomicalEmbedding as a; print(a.__file__)", **alone
    ).startswith(str(site))
    anatemb = ("-c", "import sys; from AnatomicalEmbedding.cli import main; sys.exit(main())")
    assert "median error" in run(work, *anatemb, "demo", **alone)
    assert {path.name for path in (work / "demo-output").iterdir()} == MADE_BY_DEMO
    for weights in ("auto", "ct-open"):
        assert "liver" in run(
            work,
            *anatemb,
            "locate",
            "demo-output/target.nii.gz",
            "--model",
            weights,
            "-o",
            weights,
            **alone,
        )
