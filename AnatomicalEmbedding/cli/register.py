"""anatemb register: align one scan to another."""

from __future__ import annotations

import argparse
import json
import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import VolumeError
from ..files import write_text
from ..registration import DEFORMABLE, KINDS
from ..scan.points import PointList, read_points, write_markups
from . import console

if TYPE_CHECKING:
    import SimpleITK as sitk

    from ..embedding.map import EmbeddingMap
    from ..registration.transform import Registration
    from ..scan.volume import Volume

_ALWAYS = ("transform.h5", "moving_on_fixed.nii.gz", "registration.json")
_FIELD, _REPORT = "displacement.nii.gz", "report.html"
_LABELS, _POINTS = "labels_on_fixed.nii.gz", "points_in_moving.mrk.json"


def add_to(commands: argparse._SubParsersAction) -> None:
    parser = commands.add_parser(
        "register",
        help="align one scan to another: rigid, affine or deformable",
        description="Finds where every point of FIXED lies in MOVING. The two scans may show different parts of the "
        "body. Writes to the output folder: transform.h5 (open it in Slicer and apply it to MOVING; ANTs can use it as "
        "initial transform), MOVING resampled to the voxels of FIXED, registration.json and report.html.",
    )
    add = parser.add_argument
    add("fixed", type=Path, metavar="FIXED", help="CT file or DICOM folder of the scan that is not moved")
    add("moving", type=Path, metavar="MOVING", help="CT file or DICOM folder of the scan that is aligned to FIXED")
    kind = "rigid; affine; coarse (smooth, from matches); deformable (refined with the voxels; default)"
    add("--kind", choices=KINDS, default=DEFORMABLE, help=kind)
    add("--labels", type=Path, metavar="FILE", help="label map of MOVING; it is resampled to FIXED too")
    add("--points", type=Path, metavar="FILE", help="points of FIXED (.mrk.json or .csv); they are found in MOVING")
    add("--field", action="store_true", help="also write the displacement of every voxel of FIXED")
    console.complete(parser, run, "output", "report", series=True)


def run(options: argparse.Namespace) -> None:
    from ..scan.sources import distinct_names

    results = [options.output / name for name in (*_ALWAYS, _FIELD, _REPORT, _LABELS, _POINTS)]
    console.check_kept([options.fixed, options.moving, options.points, options.labels], results)
    points = read_points(options.points) if options.points else None
    scans = (options.fixed, options.moving)
    fixed, moving = (
        replace(console.read_scan(path, options.series), name=name)
        for path, name in zip(scans, distinct_names(scans), strict=True)
    )
    labels = _read_labels(options.labels, moving) if options.labels else None
    if points is not None:
        console.check_inside(fixed, options.fixed, points.labels, points.points_ras)
    console.check_report(options)
    console.make_folder(options.output)
    model = console.open_model(options)
    maps = [console.embed(model, volume, options) for volume in (fixed, moving)]
    from ..registration.register import register
    from ..scan.image_files import write_image

    start = time.perf_counter()
    with console.progress_bar("registration", options.json) as progress:
        found = register((maps[0], maps[1]), (fixed, moving), options.kind, model.device, progress)
    facts = _facts(found, maps[0], time.perf_counter() - start)
    carried = beyond = None
    if points is not None:
        carried = PointList(points.labels, found.transform_points(points.points_ras))
        beyond = ~moving.contains(carried.points_ras)
        facts["points_outside_moving"] = [label for label, gone in zip(points.labels, beyond, strict=True) if gone]
    folder = options.output
    written = [folder / name for name in _ALWAYS]
    found.write(written[0])
    found.warp(moving, fixed).write(written[1])
    write_text(written[2], json.dumps(facts, indent=1) + "\n")
    if options.field:
        written.append(folder / _FIELD)
        found.write_field(written[-1], fixed)
    if not options.no_report:
        from ..reports.scan_pages import write_registration_report

        written.append(write_registration_report(folder / _REPORT, fixed, moving, found, _in_words(facts)))
    if labels is not None:
        written.append(folder / _LABELS)
        write_image(found.warp_labels(labels, fixed), written[-1])
    if carried is not None:
        written.append(folder / _POINTS)
        write_markups(written[-1], carried, missing=beyond.tolist())
    if options.json:
        console.print_json(facts | {"files": list(map(str, written))})
        return
    console.print_table(["registration", ""], _in_words(facts).items())
    if outside := facts.get("points_outside_moving"):
        console.say(f"points outside {moving.name}, marked as missing: {', '.join(outside)}")
    console.say("written: " + ", ".join(path.name for path in written) + f" in {options.output}")


def _read_labels(path: Path, moving: Volume) -> sitk.Image:
    import numpy as np

    from ..scan.geometry import image_affine
    from ..scan.image_files import read_image

    image, _ = read_image(path)
    same = image.GetSize() == moving.shape[::-1] and np.allclose(image_affine(image), moving.ijk_to_ras, atol=0.01)
    if not same:
        raise VolumeError(f"{path}: has another voxel grid than the moving scan; resample this label map to the scan.")
    return image


def _facts(found: Registration, fixed_map: EmbeddingMap, seconds: float) -> dict[str, Any]:
    folding = found.folding(fixed_map)
    return {
        "kind": found.kind,
        "fixed": found.fixed,
        "moving": found.moving,
        "seconds": round(seconds, 2),
        "matches_used": found.used,
        "matches_asked": found.tried,
        "affine_ras_fixed_to_moving": found.affine.tolist(),
        "jacobian_percentiles_1_99": [round(folding.low, 3), round(folding.high, 3)],
        "jacobian_smallest": round(folding.smallest, 3),
        "folded_share": folding.share,
        "doubt": folding.doubt,
    }


def _in_words(facts: dict[str, Any]) -> dict[str, str]:
    low, high = facts["jacobian_percentiles_1_99"]
    return {
        "kind": str(facts["kind"]),
        "matches": f"{facts['matches_used']} of {facts['matches_asked']} points found in the moving scan",
        "volume change": f"by a factor of {low:.2f} to {high:.2f} (98 % of the body)",
        "turned inside out": f"{100 * facts['folded_share']:.2f} % of the body",
        "time": f"{facts['seconds']:.1f} s, embedding not included",
        **({"doubt": facts["doubt"]} if facts["doubt"] else {}),
    }
