"""What the tests of the scenarios share: the way to them, and a Slicer that is a shell script."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

IN_SLICER = Path(__file__).resolve().parents[1] / "in_slicer"
sys.path.append(str(IN_SLICER))


@pytest.fixture
def fake_slicer(tmp_path, monkeypatch):
    """fake_slicer(body): a program in place of Slicer, a shell script. $RESULT is the file that a scenario writes when
    it ends, $FUNCTION its function.
    """
    if sys.platform == "win32":
        pytest.skip("shell scripts are no programs on Windows")
    monkeypatch.setenv("DISPLAY", ":0")  # no Xvfb for a script that draws nothing

    def make(body: str) -> Path:
        path = tmp_path / "home" / "Slicer"
        path.parent.mkdir(exist_ok=True)
        script = [
            "#!/bin/sh",
            'while [ "$1" != "--python-script" ]; do echo "$1"; shift; done',
            'case "$3" in *.py) echo "Ignore script specified using --python-script"; exit 1;; esac',  # as Slicer does
            'FUNCTION=$3 RESULT="$5/$3.json"',
            body,
        ]
        path.write_text("\n".join(script) + "\n", encoding="utf-8")
        path.chmod(0o755)
        return path

    return make


@pytest.fixture
def scenario(tmp_path):
    """scenario(text): a file of a scenario, whose text nobody runs here."""

    def make(text: str = "def run(user): ...\n", name: str = "made_up") -> Path:
        path = tmp_path / f"{name}.py"
        path.write_text(text, encoding="utf-8")
        return path

    return make


@pytest.fixture
def kit(tmp_path):
    """The kit as after a start of Slicer; the test fails on VTK errors and on exceptions in slots and observers."""
    from slicer_kit import started

    with started(tmp_path / "Slicer.ini") as kit:
        yield kit
        kit.close_all()
        errors = [line for line in kit.take_errors().splitlines() if not _is_of_no_screen(line)]
        assert not errors, "\n".join(errors)


def _is_of_no_screen(line: str) -> bool:
    """Qt without a screen says that it cannot raise windows or give them the keyboard, as menus ask for."""
    return line in ("", "Qt warnings:") or line.startswith("This plugin does not support ")
