"""Check DICOM objects with the program dciodvfy."""

import subprocess
from pathlib import Path

import pytest
from system_packages import find_program


def check(path: Path, kind: str = "Comprehensive3DSR") -> list[str]:
    """What dciodvfy finds wrong. kind: its name for the kind of object."""
    program = find_program("dicom3tools")
    if program is None:
        pytest.skip("no dciodvfy: the first lines of `make test` name the missing packages")
    done = subprocess.run([program, path], capture_output=True, text=True, check=False)
    lines = (done.stdout + done.stderr).splitlines()
    assert kind in lines  # it knows what it looked at
    return [line for line in lines if line.startswith("Error")]
