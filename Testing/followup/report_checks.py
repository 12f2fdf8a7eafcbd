"""Compare structured reports, and check DICOM objects with the program dciodvfy."""

from __future__ import annotations

import math
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest
from system_packages import find_program

from AnatomicalEmbedding.followup.lesions import NO_SIZE, Finding


def is_near(one: Sequence[float], other: Sequence[float]) -> bool:
    return math.dist(one, other) < 1e-3


def assert_same_finding(back: Finding, found: Finding) -> None:
    assert (back.state, back.into) == (found.state, found.into)
    assert (back.point_ras is None) == (found.point_ras is None)
    assert found.point_ras is None or is_near(back.point_ras, found.point_ras)
    size = found.size if found.visible and found.size.confirmed else NO_SIZE
    assert back.size.confirmed == size.confirmed
    assert back.size.volume_ml == pytest.approx(size.volume_ml, abs=1e-3)
    for axis, true in ((back.size.long_axis, size.long_axis), (back.size.short_axis, size.short_axis)):
        assert (axis is None) == (true is None)
        assert true is None or all(is_near(*ends) for ends in zip(axis, true, strict=True))


def check(path: Path, kind: str = "Comprehensive3DSR") -> list[str]:
    """What dciodvfy finds wrong. kind: its name for the kind of object."""
    program = find_program("dicom3tools")
    if program is None:
        pytest.skip("no dciodvfy: the first lines of `make test` name the missing packages")
    done = subprocess.run([program, path], capture_output=True, text=True, check=False)
    lines = (done.stdout + done.stderr).splitlines()
    assert kind in lines  # it knows what it looked at
    return [line for line in lines if line.startswith("Error")]
