"""Mutated files of every kind end as an answer that serves or as one sentence; see Testing/benchmarks/fuzz.py."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from fuzzing.reader import Reader
from fuzzing.running import fuzz

FUZZ = Path(__file__).parents[1] / "benchmarks" / "fuzz.py"
# the slower, the fewer: all of them take half a minute
CASES = {
    300: ["nifti", "nrrd", "nrrd-gz", "mha", "mha-zlib", "segments", "markups", "points csv", "rois", "record",
          "calibration", "map", "cache", "recipe"],
    100: ["nifti-gz", "labelled scan", "library", "segmenter"],
    40: ["structured report", "weights", "atlas", "text", "cohort"],
    20: ["dicom", "dicom-rle"],
}  # fmt: skip
LINUX = pytest.mark.skipif(
    not Path("/proc/self/clear_refs").exists(), reason="memory of children is measured on Linux only"
)


@LINUX
@pytest.mark.parametrize("cases", CASES)
def test_no_file_escapes(cases, tmp_path):
    """Fixed seed. 10 s of processor time and 512 MB a case, nothing left behind, no crash of a library."""
    pytest.importorskip("highdicom")
    command = [sys.executable, FUZZ, "--cases", str(cases), "--json", tmp_path / "found.json", *CASES[cases]]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600)
    assert done.stderr == ""
    found = json.loads((tmp_path / "found.json").read_text())
    assert [each["reader"] for each in found] == CASES[cases]
    assert [each["cases"] for each in found] == [cases] * len(found)
    assert [escape for each in found for escape in each["escapes"]] == []
    assert all(each["ends"]["refused"] or each["reader"] == "cache" for each in found)


def _truncate(files, _draw):
    files["a.txt"] = files["a.txt"][:3]
    return "truncated to 3 of 6 bytes"


_BROKEN = {
    "ValueError": lambda path: int("x"),
    "takes": lambda path: b"\1" * (600 << 20),
    "leaves b.txt": lambda path: path.with_name("b.txt").touch(),
    "ends the program (3)": lambda path: os._exit(3),
    "gives another answer": lambda path: None,
}


@LINUX
@pytest.mark.parametrize("problem", _BROKEN)
def test_a_reader_that_breaks_the_rules_is_found(problem):
    def use(folder):
        if (text := (folder / "a.txt").read_text()) != "123456":
            _BROKEN[problem](folder / "a.txt")
        return text if problem == "gives another answer" else "the same"

    broken = Reader("broken", lambda folder: (folder / "a.txt").write_text("123456"), _truncate, use)
    (escape,) = fuzz(broken, 1, 0).escapes
    assert problem in escape.problem
