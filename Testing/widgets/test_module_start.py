"""Test that starting and opening the modules does not load torch or SimpleITK, which take seconds to load."""

import subprocess
import sys
from pathlib import Path

import pytest

SOURCES = Path(__file__).parents[2] / "SlicerModules"
MODULES = ("AnatomicalLandmarks", "AnatomicalROI", "LesionFollowUp", "AnatomicalEmbeddingTraining")


@pytest.mark.usefixtures("drawing")
def test_neither_start_nor_opening_loads_what_takes_long(tmp_path):
    code = (
        "import sys; sys.path[:0] = sys.argv[1:4]; from slicer_kit import install; kit = install();"
        "kit.reset(sys.argv[4]); from engines import add_ct; add_ct('A'); add_ct('B');"
        f"[(kit.open(kit.load_module(module)), kit.process_events()) for module in {MODULES}];"
        "print([name for name in ('torch', 'SimpleITK') if name in sys.modules]); kit.close_all()"
    )
    here = Path(__file__).parent
    words = [sys.executable, "-c", code, here.parent, SOURCES, here, tmp_path / "Slicer.ini"]
    done = subprocess.run(words, capture_output=True, text=True, check=True)
    assert done.stdout.split("\n")[-2] == "[]"
