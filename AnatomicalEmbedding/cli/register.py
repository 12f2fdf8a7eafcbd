"""anatemb register: align one scan to another."""

from __future__ import annotations

import argparse
import json
import math
import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from ..errors import VolumeError
from ..files import write_text
from ..registration import DEFORMABLE, KINDS
from ..scan.points import PointList, write_markups
from . import arguments, console

if TYPE_CHECKING:
    from ..dicom.source import SourceSeries
    from ..embedding.map import EmbeddingMap
    from ..registration.transform import Registration
    from ..scan.label_map import LabelMap
    from ..scan.volume import Volume

_TRANSFORM = "transform.h5"
_INITIAL = "initial_transform.h5"
_FACTS = "registration.json"
_MOVING = "moving_on_fixed.nii.gz"
_FIELD = "displacement.nii.gz"
_REPORT = "report.html"
_DICOM = "registration.dcm"
_LABELS = "labels_on_fixed.nii.gz"
_SEGMENTS = "labels_on_fixed.seg.nrrd"
_POINTS = "points_in_moving.mrk.json"
_RESULTS = (
    *(_TRANSFORM, _INITIAL, _FACTS, _MOVING, _FIELD),
    *(_REPORT, _DICOM, _LABELS, _SEGMENTS, _POINTS),
)


def add_to(commands: argparse._SubParsersAction) -> None:
    parser = commands.add_parser(
        "register",
        help="align one scan to another: rigid, affine or deformable",
        description="Finds where every point of FIXED lies in MOVING. The two scans may show different parts of the "
        "body. Writes to the output folder: transform.h5 (open it in Slicer and apply it to MOVING), "
        "initial_transform.h5 (the same transform, from which elastix and ANTs can start), MOVING resampled to the "
        "voxels of FIXED, registration.json and report.html. With --dicom, registration.dcm is a DICOM Spatial "
        "Registration, or Deformable Spatial Registration.",
    )
    arguments.add_path(
        parser, "fixed", "FIXED", "CT file or DICOM folder of the scan that is not moved"
    )
    arguments.add_path(
        parser, "moving", "MOVING", "CT file or DICOM folder of the scan that is aligned to FIXED"
    )
    kind = "rigid; affine; deformable (refined with the voxels; default)"
    parser.add_argument("--kind", choices=KINDS, default=DEFORMABLE, help=kind)
    help_text = (
        "label map, .seg.nrrd, DICOM SEG or RTSTRUCT of MOVING; it is resampled to FIXED too"
    )
    arguments.add_path(parser, "--labels", "FILE", help_text)
    help_text = "points of FIXED (.mrk.json, .csv or DICOM SR); they are found in MOVING"
    arguments.add_path(parser, "--points", "FILE", help_text)
    parser.add_argument(
        "--field", action="store_true", help="also write the displacement of every voxel of FIXED"
    )
    help_text = "use this registration (DICOM, .h5 or .tfm) instead of a new one; write the resampled results only"
    arguments.add_path(parser, "--transform", "FILE", help_text)
    arguments.complete(parser, run, "output", "report", "dicom", "series")


class _Inputs(NamedTuple):
    """The two scans; points of the fixed scan and labels of the moving scan, or None."""

    fixed: Volume
    moving: Volume
    points: PointList | None
    labels: LabelMap | None


def run(options: argparse.Namespace) -> None:
    from ..dicom.source import source_at

    inputs = _read_inputs(options)
    if options.transform is not None:
        from ..registration.transform import Registration

        registration = Registration.read(options.transform)
        console.make_folder(options.output)
        _print(options, {}, *_resample(options.output, registration, inputs))
        return
    series = []
    if options.dicom:
        for path in (options.fixed, options.moving):
            series.append(source_at(path, console.chosen_series(path, options.series)))
    console.check_report(options)
    console.make_folder(options.output)
    registration, facts = _register(inputs, options)
    written, beyond = _resample(options.output, registration, inputs)
    facts["points_outside_moving"] = beyond
    written = [*_write(registration, facts, inputs.fixed, options), *written]
    if not options.no_report:
        from ..reports.scan_pages import write_registration_report

        scans = (inputs.fixed, inputs.moving)
        page = options.output / _REPORT
        written.append(write_registration_report(page, *scans, registration, _in_words(facts)))
    if series:
        written.append(options.output / _DICOM)
        _write_dicom(registration, inputs.fixed, series, written[-1])
    console.store(options, written)
    _print(options, facts, written, beyond)


def _read_inputs(options: argparse.Namespace) -> _Inputs:
    """Read the inputs. Raises AnatomicalEmbeddingError if one is wrong, or would be overwritten."""
    from ..dicom.sr import read_any_points
    from ..scan.sources import distinct_names

    results = [options.output / name for name in _RESULTS]
    files = [options.fixed, options.moving, options.points, options.labels, options.transform]
    console.refuse_overwriting(files, results)
    points = read_any_points(options.points) if options.points else None
    fixed_name, moving_name = distinct_names((options.fixed, options.moving))
    fixed = replace(console.read_scan(options.fixed, options.series), name=fixed_name)
    moving = replace(console.read_scan(options.moving, options.series), name=moving_name)
    labels = _read_labels(options.labels, moving) if options.labels else None
    if points is not None:
        console.check_inside(fixed, options.fixed, points.labels, points.points_ras)
    return _Inputs(fixed, moving, points, labels)


def _register(inputs: _Inputs, options: argparse.Namespace) -> tuple[Registration, dict[str, Any]]:
    """Register the scans. Returns the registration, and the facts for registration.json."""
    from ..registration.register import register

    model = console.open_model(options)
    fixed_map = console.embed(model, inputs.fixed, options.json)
    moving_map = console.embed(model, inputs.moving, options.json)
    scans = (inputs.fixed, inputs.moving)
    maps = (fixed_map, moving_map)
    start = time.perf_counter()
    with console.progress_bar("registration", options.json) as progress:
        registration = register(maps, scans, options.kind, model.device, progress)
    return registration, _facts(registration, fixed_map, time.perf_counter() - start)


def _write(
    registration: Registration, facts: dict[str, Any], fixed: Volume, options: argparse.Namespace
) -> list[Path]:
    """Write the transform, the facts and, with --field, the displacement. Returns the paths."""
    written = [options.output / name for name in (_TRANSFORM, _INITIAL, _FACTS)]
    registration.write(written[0])
    registration.write(written[1], as_initial=True)
    write_text(written[2], json.dumps(facts, indent=1) + "\n")
    if options.field:
        written.append(options.output / _FIELD)
        registration.write_field(written[-1], fixed)
    return written


def _resample(
    folder: Path, registration: Registration, inputs: _Inputs
) -> tuple[list[Path], list[str]]:
    """Write the moving scan and its labels on the grid of the fixed scan, and the points in the moving scan.

    Returns the paths, and the labels of the points that lie outside the moving scan.
    """
    from ..scan.geometry import to_image
    from ..scan.image_files import write_image
    from ..structures.segments import write_segments

    written = [folder / _MOVING]
    outside = []
    registration.warp(inputs.moving, inputs.fixed).write(written[0])
    if inputs.labels is not None:
        labels = registration.warp_labels(inputs.labels, inputs.fixed)
        flat = folder / _LABELS
        written.append(flat)
        write_image(to_image(labels.voxels, labels.ijk_to_ras), flat)
        # a label map without a list of names has no names to store in a segmentation
        if labels.values:
            whole = folder / _SEGMENTS
            written.append(whole)
            write_segments(whole, labels)
            console.report_overlaps(labels, flat, whole)
    points = inputs.points
    if points is not None:
        carried = PointList(points.labels, registration.transform_points(points.points_ras))
        beyond = (~inputs.moving.contains(carried.points_ras)).tolist()
        outside = [label for label, gone in zip(points.labels, beyond, strict=True) if gone]
        written.append(folder / _POINTS)
        write_markups(written[-1], carried, missing=beyond)
    return written, outside


def _print(
    options: argparse.Namespace, facts: dict[str, Any], written: list[Path], outside: list[str]
) -> None:
    """Print the results. facts: of the new registration. outside: labels of the points that are not in the scan."""
    if options.json:
        results = {"points_outside_moving": outside} | console.as_files(written)
        console.print_json(facts | results)
        return
    if facts:
        console.print_table(["registration", ""], _in_words(facts).items())
    if outside:
        console.say(f"points outside {options.moving}, marked as missing: {', '.join(outside)}")
    console.say_written(written)


def _write_dicom(
    registration: Registration, fixed: Volume, series: list[SourceSeries], path: Path
) -> None:
    """Write the registration as a DICOM object. series: the images of the fixed scan, and of the moving scan."""
    from ..dicom.registrations import write_displacements, write_matrix
    from ..registration.transform import coarse_grid

    comment = f"{registration.kind}; error: {registration.used} matches, median {registration.distance_mm:.1f} mm apart"
    fixed_series, moving_series = series
    if registration.field is None:
        kind = registration.kind.upper()
        write_matrix(registration.affine, kind, fixed_series, moving_series, comment, path)
    else:
        field = registration.displacements(coarse_grid(fixed))
        write_displacements(field, fixed_series, moving_series, comment, path)


def _read_labels(path: Path, moving: Volume) -> LabelMap:
    """Read labels of the moving scan, with the names that the file, or the list of names beside it, gives them."""
    from ..scan.image_files import image_suffix
    from ..scan.label_map import LabelMap
    from ..structures import label_files

    has_names = label_files.has_own_names(path) or label_files.list_of_names(path).exists()
    if image_suffix(path) and not has_names:
        labels = LabelMap(*label_files.read_label_image(path), {})
    else:
        labels = label_files.read_labels(path, lambda: moving)
    if labels.voxels.min() < 0:
        raise VolumeError(
            f"{path}: looks like a scan, because it has negative values; give a label map."
        )
    if not label_files.has_own_names(path):
        label_files.check_same_grid(path, labels, moving.shape, moving.ijk_to_ras, moving.name)
    return labels.renamed(labels.texts)


def _facts(registration: Registration, fixed_map: EmbeddingMap, seconds: float) -> dict[str, Any]:
    """Return the facts for registration.json. seconds: time of the registration without embedding."""
    folding = registration.folding(fixed_map)
    spine_mm = None if math.isnan(registration.spine_mm) else round(registration.spine_mm, 2)
    return {
        "kind": registration.kind,
        "fixed": registration.fixed,
        "moving": registration.moving,
        "seconds": round(seconds, 2),
        "matches_used": registration.used,
        "matches_asked": registration.tried,
        "matches_median_distance_mm": round(registration.distance_mm, 2),
        "spines_distance_mm": spine_mm,
        "affine_ras_fixed_to_moving": registration.affine.tolist(),
        "jacobian_percentiles_1_99": [round(folding.low, 3), round(folding.high, 3)],
        "jacobian_smallest": round(folding.smallest, 3),
        "folded_share": folding.share,
        "quality": registration.quality,
        "doubt": " ".join(filter(None, [registration.doubt, folding.doubt])),
    }


def _in_words(facts: dict[str, Any]) -> dict[str, str]:
    """Return the facts that a reader needs, in words: name -> text."""
    low, high = facts["jacobian_percentiles_1_99"]
    words = {
        "kind": str(facts["kind"]),
        "matches": f"{facts['matches_used']} of {facts['matches_asked']} points found in the moving scan",
        "quality": facts["quality"],
        "volume change": f"by a factor of {low:.2f} to {high:.2f} (98 % of the body)",
        "turned inside out": f"{100 * facts['folded_share']:.2f} % of the body",
        "time": f"{facts['seconds']:.1f} s, embedding not included",
    }
    if facts["doubt"]:
        words["doubt"] = facts["doubt"]
    return words
