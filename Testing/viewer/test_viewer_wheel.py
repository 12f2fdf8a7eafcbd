"""Test the viewer as `pip install` installs it from a wheel, without the files of the repository."""

import re
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

pytest.importorskip(
    "trame_slicer",
    reason="runs in an environment with trame-slicer[standalone]; `make test` makes it",
)

from browsing import ROOT, Page, Running

_NO_BACKEND = r"(No matching distribution|Could not find a version).*hatchling|ConnectionError|Network is unreachable"


def pip(*arguments: str) -> subprocess.CompletedProcess:
    command = [sys.executable, "-m", "pip", "--disable-pip-version-check", *arguments]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300)


@pytest.fixture(scope="module")
def wheel(tmp_path_factory) -> Path:
    """A wheel of this checkout; skipped where what builds it is neither installed nor to be had."""
    folder = tmp_path_factory.mktemp("wheel")
    isolation = ["--no-build-isolation"] if find_spec("hatchling") else []
    built = pip("wheel", ".", "--no-deps", "--wheel-dir", str(folder), *isolation)
    if built.returncode and re.search(_NO_BACKEND, built.stdout + built.stderr):
        pytest.skip(
            "hatchling, which builds the wheel, is not installed and cannot be downloaded here"
        )
    assert built.returncode == 0, built.stderr
    return next(folder.glob("*.whl"))


@pytest.mark.long
def test_the_demo_opens_from_the_wheel(wheel, browser, tmp_path):
    site = tmp_path / "site"
    run = tmp_path / "run"
    run.mkdir()
    installed = pip("install", "--no-deps", "--no-compile", "--target", str(site), str(wheel))
    assert installed.returncode == 0, installed.stderr
    served = site / "AnatomicalEmbeddingViewer" / "static" / "index.html"
    served.write_text(
        served.read_text().replace("<head>", '<head><meta name="from" content="wheel" />')
    )
    with Running(run, "--demo", program=site) as program:
        page = Page(browser, program)
        page.wait("document.querySelectorAll('.row .cell img').length === 6")
        page.wait("document.querySelectorAll('[data-structure], .structures label').length > 0")
        assert page.page.locator("meta[name=from]").get_attribute("content") == "wheel"
        page.close()
        assert page.faults == []
        assert program.stop() == 0
    assert program.errors() == [], program.log
