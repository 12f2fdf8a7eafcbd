"""Fixtures of the viewer's tests: the running `anatemb view`, and a browser (`make test` makes the environment)."""

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
def short_scan():
    """A synthetic torso of few voxels."""
    from AnatomicalEmbedding.phantom import make_phantom

    return make_phantom(74, spacing=(5.0, 5.0, 8.0), coverage_mm=(200.0, 420.0)).volume


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


@pytest.fixture(scope="session")
def running(drawing, scan_files, tmp_path_factory):
    """The viewer with both torsos, started once for all tests."""
    from browsing import Running

    with Running(tmp_path_factory.mktemp("run"), *map(str, scan_files)) as program:
        yield program


@pytest.fixture(scope="session")
def opened_page(browser, running):
    from browsing import Page

    opened = Page(browser, running)
    opened.wait_ready(2)
    yield opened
    opened.close()


@pytest.fixture(scope="module")
def page(opened_page):
    """The page with both scans ready, as if opened anew; an error of page or program fails the module."""
    opened_page.reset()
    yield opened_page
    assert opened_page.faults == []
    assert opened_page.running.errors() == []
