"""anatemb landmarks: make a set of landmarks from marked scans, and find the landmarks in other scans."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from ..errors import AnatomicalEmbeddingError, PointsError
from . import console
from .scans import Scans

if TYPE_CHECKING:
    from ..embedding.inference import Model
    from ..embedding.map import EmbeddingMap
    from ..landmarks.landmark_set import LandmarkSet
    from ..scan.points import PointList

COLUMNS = ("scan", "label", "r", "a", "s", "status", "expected_error_mm", "probability", "examples")
_CHECK_COLUMNS = ("label", "examples", "error_mm", "worst_scan", "worst_mm", "contradicts")
_SHORT = 12  # characters of a scan's hash in tables


def add_to(commands: argparse._SubParsersAction) -> None:
    parser = commands.add_parser(
        "landmarks",
        help="make a set of landmarks from marked scans, and find them in other scans",
        description="A landmark set is one file NAME.landmarks.json: named points with examples in several scans. More "
        "examples give more exact answers. The file holds no picture and no name of a patient, so it can be shared.",
    )
    steps = parser.add_subparsers(title="steps", metavar="STEP", required=True)
    marked = "Each scan NAME.nii.gz or DICOM folder NAME needs its points beside it: NAME.mrk.json, as 3D Slicer "
    marked += "writes it, or NAME.csv with the columns label,r,a,s. Points of one label are examples of one landmark."

    make = steps.add_parser(
        "make", help="make a set from a folder of marked scans", description=marked
    )
    make.add_argument("scans", nargs="+", metavar="FOLDER", help=console.SCANS_HELP)
    make.add_argument(
        "-o", "--output", type=Path, required=True, metavar="SET", help="file NAME.landmarks.json"
    )
    make.add_argument(
        "--terms", default="", metavar="TEXT", help="terms under which the set may be shared"
    )
    console.complete(make, run_make, series=True)

    add = steps.add_parser("add", help="add marked scans to a set", description=marked)
    add.add_argument("set", type=Path, metavar="SET", help="the set; it is changed")
    add.add_argument("scans", nargs="+", metavar="SCAN", help=console.SCANS_HELP)
    console.complete(add, run_add, series=True)

    run = steps.add_parser(
        "run",
        help="find the landmarks of a set in scans",
        description="Writes landmarks.csv and, for every SCAN, NAME.mrk.json (opens in Slicer). All coordinates are "
        "RAS mm. A scan that cannot be used is reported and skipped.",
    )
    run.add_argument("set", type=Path, metavar="SET", help="file NAME.landmarks.json")
    run.add_argument("scans", nargs="+", metavar="SCAN", help=console.SCANS_HELP)
    console.complete(run, run_run, "output", "dicom", series=True)

    check = steps.add_parser(
        "check",
        help="check the examples of a set",
        description="Prints, for each landmark, the mean error of its examples when each is left out, and the example "
        "that is farthest from the others. An example that contradicts the others has no say in answers. Scans are "
        "named by the start of their hash, because a set holds no names.",
    )
    check.add_argument("set", type=Path, metavar="SET", help="file NAME.landmarks.json")
    console.complete(check, run_check, model=False)


def _marked_scans(scans: Scans, model: Model) -> Iterator[tuple[str, EmbeddingMap, PointList]]:
    """Yield the name, the map and the points of each scan that has points beside it."""
    from ..scan.points import read_points

    for path, name, volume, embedding in scans.embedded(model):
        marks = _points_path(Path(scans.sources[name].path))
        if marks is not None:
            points = read_points(marks)
            console.check_inside(volume, Path(path), points.labels, points.points_ras)
            yield name, embedding, points


def _points_path(scan: Path) -> Path | None:
    from ..scan.image_files import display_name

    paths = [scan.with_name(f"{display_name(scan)}{suffix}") for suffix in (".mrk.json", ".csv")]
    return next((path for path in paths if path.is_file()), None)


def run_make(options: argparse.Namespace) -> None:
    from ..landmarks.landmark_set import SUFFIX, LandmarkSet

    if not options.output.name.endswith(SUFFIX):
        raise AnatomicalEmbeddingError(
            f"{options.output}: a landmark set is a file; call it NAME{SUFFIX}."
        )
    _extend(options, LandmarkSet(terms=options.terms), options.output)


def run_add(options: argparse.Namespace) -> None:
    from ..landmarks.landmark_set import read_landmark_set

    _extend(options, read_landmark_set(options.set), options.set)


def _extend(options: argparse.Namespace, landmark_set: LandmarkSet, path: Path) -> None:
    """Add the marked scans of a command to a landmark set, and write the set."""
    from ..landmarks.landmark_set import make_landmark_set

    model = _open_model(options, landmark_set)
    scans = Scans(options)
    for source in scans.sources.values():
        if _points_path(Path(source.path)) is None:
            console.warn(f"{source.label}: has no points beside it, and is left out.")
    marked = list(_marked_scans(scans, model))  # scans are read once; their maps stay in memory
    if not marked:
        raise PointsError(
            "no scan has points beside it; save the points of NAME.nii.gz as NAME.mrk.json."
        )
    result = make_landmark_set([scan[1:] for scan in marked], landmark_set)
    result.write(path)
    names = {embedding.provenance.scan_hash: name for name, embedding, _points in marked}
    _print_check(options, result, names)
    console.say(f"wrote {path}", options.json)
    scans.check()


def run_run(options: argparse.Namespace) -> None:
    from ..landmarks.landmark_set import read_landmark_set
    from ..scan.points import PointList
    from .match import present_points, write_matches

    landmark_set = read_landmark_set(options.set)
    model = _open_model(options, landmark_set)
    landmark_set.check(model.weights_hash, model.name)
    scans = Scans(options)
    console.check_folder(options.output)
    marks = [_points_path(Path(source.path)) for source in scans.sources.values()]
    results = ["landmarks.csv", *(f"{name}.mrk.json" for name in scans.sources)]
    inputs = [options.set, *scans.paths, *marks]
    console.refuse_overwriting(inputs, [options.output / name for name in results])
    console.make_folder(options.output)
    counts = [int(landmark.weights().sum()) for landmark in landmark_set.landmarks]
    rows: list[list[object]] = []
    written: list[Path] = []
    for path, name, _volume, embedding in scans.embedded(model):
        matches = landmark_set.find(embedding)
        table = matches.table()
        for label, row, count in zip(landmark_set.names, table, counts, strict=True):
            values = ["" if row[column] is None else row[column] for column in COLUMNS[2:8]]
            rounded = [round(value, 3) if isinstance(value, float) else value for value in values]
            rows.append([path, label, *rounded, count])
        written.append(options.output / f"{name}.mrk.json")
        write_matches(written[-1], name, landmark_set.names, matches)
        points = PointList(landmark_set.names, matches.points_ras)
        written += scans.write_points_report(name, *present_points(points, matches, []))
    written += scans.write_table("landmarks", COLUMNS, rows)
    table_rows = [[scans.names[str(row[0])], *row[1:]] for row in rows]
    scans.finish({"landmarks": console.as_records(COLUMNS, rows)}, (COLUMNS, table_rows), written)


def run_check(options: argparse.Namespace) -> None:
    from ..landmarks.landmark_set import read_landmark_set

    _print_check(options, read_landmark_set(options.set), {})


def _print_check(
    options: argparse.Namespace, landmark_set: LandmarkSet, names: dict[str, str]
) -> None:
    """Print how well the examples of each landmark agree. names: hash of a scan -> its name."""
    rows = []
    for landmark in landmark_set.landmarks:
        scans = [names.get(example.scan, example.scan[:_SHORT]) for example in landmark.examples]
        errors = [example.left_out_mm[0] for example in landmark.examples if example.left_out_mm]
        error = f"{np.mean(errors):.1f}" if errors else ""
        deviations = landmark.deviations_mm()
        worst = int(np.nanargmax(deviations)) if np.isfinite(deviations).any() else None
        farthest = ("", "") if worst is None else (scans[worst], f"{deviations[worst]:.1f}")
        wrong = [scan for scan, weight in zip(scans, landmark.weights(), strict=True) if not weight]
        rows.append([landmark.name, len(scans), error, *farthest, ", ".join(wrong)])
    if options.json:
        console.print_json({"landmarks": console.as_records(_CHECK_COLUMNS, rows)})
    else:
        console.print_table(_CHECK_COLUMNS, rows)


def _open_model(options: argparse.Namespace, landmark_set: LandmarkSet) -> Model:
    """Load the weights of a landmark set, unless the user has chosen others."""
    return console.open_model(
        options, landmark_set.model if options.model == "auto" and landmark_set.model else None
    )
