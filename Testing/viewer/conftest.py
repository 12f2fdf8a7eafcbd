"""Fixtures of the viewer's tests: `anatemb view` as a program, and a browser (`make test` makes the environment)."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

_ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(Path(__file__).parent), str(_ROOT / "Testing" / "engine")]


@pytest.fixture(scope="session")
def scan_files(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Two synthetic torsos as files."""
    from scans import patient

    folder = tmp_path_factory.mktemp("scans")
    paths = [folder / "prior.nii.gz", folder / "current.nii.gz"]
    for number, path in enumerate(paths):
        patient(number).volume.write(path)
    return paths


@pytest.fixture(scope="session")
def pictures() -> Path:
    """Where the tests leave screenshots."""
    folder = _ROOT / "build" / "viewer"
    folder.mkdir(parents=True, exist_ok=True)
    return folder


@pytest.fixture(scope="session")
def browser(drawing):
    from browsing import open_browser

    with open_browser() as opened:
        yield opened


@pytest.fixture(scope="module")
def arguments(scan_files) -> list[str]:
    """What the viewer is started with: both torsos. A module may have others."""
    return [*map(str, scan_files)]


@pytest.fixture(scope="module")
def running(drawing, arguments, tmp_path_factory):
    """The viewer; its log must hold no error."""
    from browsing import Running

    with Running(tmp_path_factory.mktemp("run"), *arguments) as program:
        yield program
        assert program.errors() == []


@pytest.fixture(scope="module")
def page(browser, running, arguments):
    """The page, with all scans ready; what it does wrong fails the module."""
    from browsing import Page

    opened = Page(browser, running)
    opened.wait_ready(sum(each.endswith(".nii.gz") for each in arguments))
    yield opened
    opened.close()
    assert opened.faults == []


@pytest.fixture(scope="session")
def studies(tmp_path_factory) -> Path:
    """Folder of two DICOM studies of one patient, `prior` and `current`."""
    from follow_up_reader import write_studies

    folder = tmp_path_factory.mktemp("studies")
    write_studies(folder)
    return folder


@pytest.fixture(scope="module")
def reading(browser, studies, tmp_path_factory):
    """The follow-up page with both studies, ready."""
    from follow_up_reader import open_reading

    with open_reading(browser, studies, tmp_path_factory.mktemp("run")) as opened:
        yield opened
