"""Test scans with unusual anatomy or wrong headers: real scans are changed in known ways, checked and matched.

    python Testing/benchmarks/anatomy.py [SCAN...] [--picture FILE] [--points 60]

Each changed scan is read as a file, checked as `anatemb info --check` checks it, and matched with the unchanged scan.
The verdict for a scan is the first of these words whose condition is met:

    refused   an error in one sentence
    handled   half of the answers are within 10 mm of the truth, and of the matched answers at most a tenth is more
              than 20 mm off
    flagged   a note or the orientation check reports the scan, or fewer than half of the answers are matched
    NOT       in all other cases
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
import SimpleITK as sitk
from odd_scans import INPUTS, Change
from PIL import Image, ImageDraw

from AnatomicalEmbedding.embedding.coverage import body_points
from AnatomicalEmbedding.embedding.inference import Model, load_model
from AnatomicalEmbedding.embedding.map import EmbeddingMap
from AnatomicalEmbedding.errors import AnatomicalEmbeddingError
from AnatomicalEmbedding.matching.match import match
from AnatomicalEmbedding.phantom import make_phantom
from AnatomicalEmbedding.scan.geometry import transform_points
from AnatomicalEmbedding.scan.volume import Volume

HANDLED_MM, FAR_MM, FAR_SHARE, CERTAIN_SHARE = 10.0, 20.0, 0.1, 0.5


@dataclass(frozen=True)
class Seen:
    """Of one input of one scan. reported: what was flagged, or the error. errors_mm: of the answers that have a truth.
    certain: which of these are reported as matched.
    """

    reported: tuple[str, ...]
    refused: bool = False
    errors_mm: np.ndarray = field(default_factory=lambda: np.empty(0))
    certain: np.ndarray = field(default_factory=lambda: np.empty(0, bool))

    @property
    def verdict(self) -> str:
        if self.refused:
            return "refused"
        far = self.certain & (self.errors_mm > FAR_MM)
        if np.median(self.errors_mm) <= HANDLED_MM and far.sum() <= FAR_SHARE * self.certain.sum():
            return "handled"
        return "flagged" if self.reported or self.certain.mean() < CERTAIN_SHARE else "NOT"


def as_read(voxels: np.ndarray, affine: np.ndarray) -> Volume:
    """What the reader makes of a NIfTI file of these. Raises VolumeError."""
    stored = np.rint(voxels).clip(-32768, 32767).astype(np.int16)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "scan.nii"
        sitk.WriteImage(Volume(stored, affine).to_sitk(), str(path))
        return replace(Volume.read(path), path="")


def examine(
    model: Model, plain: Volume, template: EmbeddingMap, change: Change, points: int
) -> Seen:
    """Make the input, read it, check it and match points of the plain scan in it."""
    voxels, affine, moved = change(plain.voxels, plain.ijk_to_ras)
    try:
        volume = as_read(voxels, affine)
        target = model.embed(volume)
    except AnatomicalEmbeddingError as error:
        return Seen((str(error).partition(": ")[2].partition(" (")[0].partition(";")[0],), True)
    places = body_points(template)[0]
    places = np.random.default_rng(1).permutation(places)[: 20 * points]
    truth = transform_points(moved, places)
    inside = np.flatnonzero(volume.contains(truth))[:points]
    found = match(template, places[inside], target)
    errors = np.linalg.norm(found.points_ras - truth[inside], axis=1)
    reported = (*(note for note in volume.notes if note not in plain.notes), *target.faults)
    return Seen(reported, False, errors, found.status == "matched")


def rows(model: Model, scans: list[Volume], points: int) -> Iterator[str]:
    """Lines of the table."""
    templates = [model.embed(scan) for scan in scans]
    for name, change in INPUTS.items():
        seen = [
            examine(model, *each, change, points) for each in zip(scans, templates, strict=True)
        ]
        errors = " / ".join(
            "-" if one.refused else f"{np.median(one.errors_mm):.0f}" for one in seen
        )
        certain = " / ".join(
            "-" if one.refused else f"{100 * one.certain.mean():.0f} %" for one in seen
        )
        far = " / ".join(
            "-" if one.refused else f"{(one.certain & (one.errors_mm > FAR_MM)).sum()}"
            for one in seen
        )
        reported = " / ".join("; ".join(one.reported) or "-" for one in seen)
        verdicts = [one.verdict for one in seen]
        verdict = verdicts[0] if len(set(verdicts)) == 1 else " / ".join(verdicts)
        yield f"| {name} | {reported} | {errors} | {certain} | {far} | {verdict} |"


def montage(path: Path, tile: int = 190, columns: int = 6) -> None:
    """Coronal cuts through the middle of a synthetic patient, made odd in the same ways, all at one scale."""
    phantom = make_phantom(20_001, spacing=(3.0, 3.0, 3.0), coverage_mm=(120.0, 600.0)).volume
    step = 2.1 * np.ptp(phantom.bounds_ras, axis=0)[2] / tile
    sheet = Image.new("L", (columns * tile, -(-len(INPUTS) // columns) * (tile + 14)))
    draw = ImageDraw.Draw(sheet)
    for number, (name, change) in enumerate(INPUTS.items()):
        voxels, affine, _ = change(phantom.voxels, phantom.ijk_to_ras)
        volume = Volume(np.asarray(voxels, np.float32), affine)
        middle = volume.bounds_ras.mean(axis=0)
        across = (np.arange(tile) - tile / 2) * step
        x, z = np.meshgrid(middle[0] - across, middle[2] - across)
        plane = np.stack([x, np.full_like(x, middle[1]), z], axis=-1).reshape(-1, 3)
        low, high = (
            np.percentile(voxels, [2, 99.5]) if name.endswith(("MR", "PET")) else (-800, 500)
        )
        grey = (
            np.interp(volume.sample(plane), [low, high], [0, 255])
            .reshape(tile, tile)
            .astype(np.uint8)
        )
        corner = number % columns * tile, number // columns * (tile + 14)
        sheet.paste(Image.fromarray(grey), (corner[0], corner[1] + 14))
        draw.text((corner[0] + 3, corner[1] + 1), name, fill=255)
    sheet.save(path)


def main() -> int:
    """Exit status 1 where an input is neither refused, flagged nor handled."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("scans", nargs="*", type=Path, metavar="SCAN")
    parser.add_argument("--points", type=int, default=60, help="of each scan")
    parser.add_argument(
        "--picture", type=Path, metavar="FILE", help="draw the inputs of a synthetic patient"
    )
    options = parser.parse_args()
    if options.picture:
        montage(options.picture)
    lines = []
    if options.scans:
        print(
            "| input | what is said | median error, mm | matched | of these, more than 20 mm off | verdict |"
        )
        print("|---|---|---|---|---|---|")
        for line in rows(
            load_model(), [Volume.read(path) for path in options.scans], options.points
        ):
            lines.append(line)
            print(line, flush=True)
    return int(any("NOT" in line for line in lines))


if __name__ == "__main__":
    sys.exit(main())
