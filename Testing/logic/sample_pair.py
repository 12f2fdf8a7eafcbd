"""Make the pair of synthetic patients that ships as sample data: python Testing/logic/sample_pair.py writes the files.

The pair ships as files, because making it needs torch, and a new user may not have installed torch yet.
"""

from __future__ import annotations

import hashlib
import json
import sys
from pathlib import Path

import numpy as np
from PIL import Image, ImageDraw

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
ICONS = ROOT / "SlicerModules" / "Resources" / "Icons"
_THUMBNAIL = (260, 280)
_SPACING_MM = 4.0
_DOT = "#2fbf52"
_DARKEST_HU, _BRIGHTEST_HU = -350.0, 450.0


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


def write_thumbnails(folder: Path) -> None:
    """The pair with some of its points, and slices of a patient at the level of each public scan."""
    first, second = make_pair(1.5)
    pair = Image.new("RGB", _THUMBNAIL)
    for patient, left in ((first, 0), (second, 131)):
        pair.paste(_coronal(patient, (129, 280)), (left, 0))
    pair.save(folder / "SamplePhantomPair.png", optimize=True)
    for name, point in (
        ("SampleChest", "carina"),
        ("SampleHeart", "heart_apex"),
        ("SampleLiver", "liver_dome"),
    ):
        level = first.points_ras[point][2] - (30.0 if point == "liver_dome" else 0.0)
        _axial(first, level, _THUMBNAIL).save(folder / f"{name}.png", optimize=True)


def _coronal(patient: Phantom, size: tuple[int, int]) -> Image.Image:
    to_index = np.linalg.inv(patient.volume.ijk_to_ras)
    indices = {
        name: (to_index @ [*p, 1.0])[:3]
        for name, p in patient.points_ras.items()
        if name in POINT_NAMES
    }
    row = round(float(np.median([index[1] for index in indices.values()])))
    picture, scale, left, top = _fitted(patient.volume.voxels[::-1, row, :], size)
    draw = ImageDraw.Draw(picture)
    for i, _j, k in indices.values():
        x = left + (i + 0.5) * scale
        y = top + (len(patient.volume.voxels) - k - 0.5) * scale
        draw.ellipse([x - 3, y - 3, x + 3, y + 3], fill=_DOT, outline="black")
    return picture


def _axial(patient: Phantom, level_mm: float, size: tuple[int, int]) -> Image.Image:
    k = round(float((np.linalg.inv(patient.volume.ijk_to_ras) @ [0, 0, level_mm, 1])[2]))
    return _fitted(patient.volume.voxels[k], size)[0]


def _fitted(slice_hu: np.ndarray, size: tuple[int, int]) -> tuple[Image.Image, float, float, float]:
    """A grey picture of the slice in the middle of a black one of the size; and its scale, left and top."""
    grey = np.clip((slice_hu - _DARKEST_HU) / (_BRIGHTEST_HU - _DARKEST_HU), 0, 1) * 255
    scale = min(size[0] / slice_hu.shape[1], size[1] / slice_hu.shape[0])
    inner = (round(slice_hu.shape[1] * scale), round(slice_hu.shape[0] * scale))
    picture = Image.new("RGB", size)
    left = (size[0] - inner[0]) // 2
    top = (size[1] - inner[1]) // 2
    picture.paste(
        Image.fromarray(grey.astype(np.uint8)).resize(inner, Image.Resampling.LANCZOS), (left, top)
    )
    return picture, scale, left, top


if __name__ == "__main__":
    write_pair(FOLDER)
    write_checksums(FOLDER)
    write_thumbnails(ICONS)
    sys.exit(0)
