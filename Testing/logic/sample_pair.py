"""Make the pair of synthetic patients that ships as sample data: python Testing/logic/sample_pair.py writes the files.

The pair ships as files, because making it needs torch, and a new user may not have installed torch yet.
"""

from __future__ import annotations

import hashlib
import json
import sys
from pathlib import Path

import numpy as np

from AnatomicalEmbedding.cli.demo import (
    POINT_NAMES,
    TARGET_MM,
    TARGET_SEED,
    TEMPLATE_MM,
    TEMPLATE_SEED,
)
from AnatomicalEmbedding.phantom import Phantom, make_phantom
from AnatomicalEmbedding.scan.points import PointList, write_markups

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "Resources" / "SampleData"
_SPACING_MM = 4.0


def make_pair(spacing_mm: float = _SPACING_MM) -> tuple[Phantom, Phantom]:
    """The two patients of `anatemb demo`; one of the points shown lies below the second one's scan."""
    patients = ((TEMPLATE_SEED, TEMPLATE_MM), (TARGET_SEED, TARGET_MM))
    first, second = (
        make_phantom(seed, (spacing_mm,) * 3, coverage_mm) for seed, coverage_mm in patients
    )
    return first, second


def write_pair(folder: Path) -> None:
    """Scans, and named points of each in RAS mm, as Slicer's files; the second one's are locked and hidden."""
    for letter, kind, patient in zip("ab", ("landmarks", "truth"), make_pair(), strict=True):
        patient.volume.write(folder / f"phantom-{letter}.nrrd")
        names = [name for name in POINT_NAMES if name in patient.points_ras]
        places = np.array([patient.points_ras[name] for name in names])
        path = folder / f"phantom-{letter}-{kind}.mrk.json"
        write_markups(
            path, PointList(tuple(names), places), name=f"Phantom {letter.upper()} {kind}"
        )
        if kind == "truth":
            _hide(path)


def _hide(path: Path) -> None:
    content = json.loads(path.read_text())
    for markup in content["markups"]:
        markup |= {"locked": True, "display": {"visibility": False}}
    path.write_text(json.dumps(content, indent=2) + "\n")


def write_checksums(folder: Path) -> None:
    """Of the files beside the list of samples, into the list."""
    path = folder / "samples.json"
    samples = json.loads(path.read_text())
    for sample in samples:
        for file in sample["files"]:
            if "path" in file:
                file["checksum"] = (
                    "SHA256:" + hashlib.sha256((folder / file["path"]).read_bytes()).hexdigest()
                )
    path.write_text(json.dumps(samples, indent=2) + "\n")


if __name__ == "__main__":
    write_pair(FOLDER)
    write_checksums(FOLDER)
    sys.exit(0)
