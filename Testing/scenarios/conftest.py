"""Fixtures for scenarios: the import path, and the application of the test kit."""

import sys
from pathlib import Path

import pytest

IN_SLICER = Path(__file__).resolve().parents[1] / "in_slicer"
sys.path.append(str(IN_SLICER))


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
