"""anatemb landmarks: make a set of landmarks from marked scans, and find the landmarks in other scans."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import numpy as np

from ..errors import AnatomicalEmbeddingError, PointsError
from . import arguments, console
from .scans import Scans, StoredScans

if TYPE_CHECKING:
    from ..embedding.inference import Model
    from ..embedding.map import EmbeddingMap
    from ..landmarks.drawing import Drawing
    from ..landmarks.landmark_set import Landmark, LandmarkSet
    from ..matching.match import Matches
    from ..scan.points import Measurement
    from ..scan.volume import Volume

COLUMNS = ("scan", "label", "r", "a", "s", "status", "expected_error_mm", "probability", "examples")
MEASUREMENT_COLUMNS = ("scan", "name", "kind", "quantity", "value", "margin", "unit", "status")
_CHECK_COLUMNS = ("label", "examples", "error_mm", "worst_scan", "worst_mm", "contradicts")
_TABLES = ("landmarks.csv", "measurements.csv", "report.html")
_PICTURED = 50  # scans with pictures in the report, which then has up to 10 MB
_SHORT = 12  # characters of a scan's hash in tables


def add_to(commands: argparse._SubParsersAction) -> None:
    parser = commands.add_parser(
        "landmarks",
        help="make a set of landmarks from marked scans, and find them in other scans",
        description="A landmark set is one file NAME.landmarks.json: named points with examples in several scans. More "
        "examples give more exact answers. The file holds no picture and no name of a patient, so it can be shared.",
    )
    steps = parser.add_subparsers(title="steps", metavar="STEP", required=True)
    marked = (
        "Each scan SCAN.nii.gz or DICOM folder SCAN needs its points beside it: SCAN.mrk.json or SCAN.NAME.mrk.json, "
        "as 3D Slicer writes them, or SCAN.csv with the columns label,r,a,s. Points of one label are examples of one "
        "landmark. Lines, angles, curves, planes and boxes of one NAME are examples of one markup."
    )

    make = steps.add_parser(
        "make", help="make a set from a folder of marked scans", description=marked
    )
    make.add_argument("scans", nargs="+", metavar="FOLDER", help=arguments.SCANS_HELP)
    arguments.add_path(make, "-o --output", "SET", "file NAME.landmarks.json", required=True)
    make.add_argument(
        "--terms", default="", metavar="TEXT", help="terms under which the set may be shared"
    )
    arguments.complete(make, run_make, "series")

    add = steps.add_parser("add", help="add marked scans to a set", description=marked)
    arguments.add_path(add, "set", "SET", "the set; it is changed")
    arguments.complete(add, run_add, "scans", "series")

    run = steps.add_parser(
        "run",
        help="find the landmarks of a set in scans",
        description="Writes landmarks.csv, measurements.csv if the set has lines, angles or curves, report.html, and, "
        "for every SCAN, NAME.mrk.json (opens in Slicer). Instead of scans, the folder of a cohort can be given "
        "(`anatemb cohort run`); then the maps of its scans are used, and the report has no pictures. All coordinates "
        "are RAS mm. A scan that cannot be used is reported and skipped.",
    )
    set_help = "file NAME.landmarks.json, or a set that is shipped: pelvis, trunk"
    arguments.add_path(run, "set", "SET", set_help)
    arguments.complete(run, run_run, "scans", "output", "report", "dicom", "series")

    check = steps.add_parser(
        "check",
        help="check the examples of a set",
        description="Prints, for each landmark, the mean error of its examples when each is left out, and the example "
        "that is farthest from the others. An example that contradicts the others has no say in answers. Scans are "
        "named by the start of their hash, because a set holds no names.",
    )
    arguments.add_path(check, "set", "SET", set_help)
    arguments.complete(check, run_check, model=False)


def _drawing_paths(scan: Path) -> list[Path]:
    from ..landmarks.drawing import drawing_paths
    from ..scan.image_files import display_name

    return drawing_paths(scan.parent, display_name(scan))


def run_make(options: argparse.Namespace) -> None:
    from ..landmarks.landmark_set import LandmarkSet

    _extend(options, LandmarkSet(terms=options.terms), options.output)


def run_add(options: argparse.Namespace) -> None:
    from ..landmarks.landmark_set import read_landmark_set

    _extend(options, read_landmark_set(options.set), options.set)


def _extend(options: argparse.Namespace, landmark_set: LandmarkSet, path: Path) -> None:
    """Add the marked scans of a command to a landmark set, and write the set."""
    from ..landmarks.landmark_set import SUFFIX, make_landmark_set

    if not path.name.endswith(SUFFIX):
        raise AnatomicalEmbeddingError(
            f"{path}: a landmark set of your own is a file; call it NAME{SUFFIX}."
        )
    model = _open_model(options, landmark_set)
    scans = Scans(options)
    marks = {name: _drawing_paths(Path(scan.path)) for name, scan in scans.sources.items()}
    for name, files in marks.items():
        if not files:
            label = scans.sources.pop(name).label
            console.warn(f"{label}: has no points beside it, and is left out.")
    names: dict[str, str] = {}
    # maps of hundreds of scans do not fit into memory
    with TemporaryDirectory() as folder:
        marked = _marked_scans(scans, marks, model, names)
        landmark_set = make_landmark_set(marked, landmark_set, Path(folder))
    if not names:
        raise PointsError(
            "no scan has points beside it; save the points of NAME.nii.gz as NAME.mrk.json."
        )
    landmark_set.write(path)
    _print_check(options, landmark_set, names)
    console.say(f"wrote {path}", options.json)
    scans.check()


def _marked_scans(
    scans: Scans, marks: dict[str, list[Path]], model: Model, names: dict[str, str]
) -> Iterator[tuple[EmbeddingMap, Drawing]]:
    """Yield the map and the drawing of each scan.

    Args:
        scans: the scans.
        marks: name of a scan -> files with its points.
        model: the weights.
        names: hash of a scan -> its name; each scan is added to it.
    """
    from ..landmarks.drawing import read_drawing
    from ..scan.image_files import display_name

    for path, name, volume, embedding in scans.embedded(model):
        drawing = read_drawing(marks[name], display_name(Path(scans.sources[name].path)))
        points = drawing.points
        console.check_inside(volume, Path(path), points.labels, points.points_ras)
        names[embedding.provenance.scan_hash] = name
        yield embedding, drawing


def run_run(options: argparse.Namespace) -> None:
    from ..landmarks.landmark_set import SUFFIX, read_landmark_set
    from ..landmarks.markups import measurements
    from ..reports.landmarks import scan_row, write_landmarks_report
    from .match import present_points, write_matches

    landmark_set = read_landmark_set(options.set)
    model = _open_model(options, landmark_set)
    landmark_set.check(model.weights_hash, model.name)
    scans, maps = _open_scans(options, model)
    console.check_output(options)
    marks = [path for scan in scans.paths for path in _drawing_paths(scan)]
    results = [*_TABLES, *(f"{name}.mrk.json" for name in scans.sources)]
    inputs = [options.set, *scans.paths, *marks]
    console.refuse_overwriting(inputs, [options.output / name for name in results])
    console.make_folder(options.output)
    labels = landmark_set.names
    rows = []
    measured = []
    pictured: list[dict[str, Any]] = []
    written = []
    for path, name, volume, embedding in maps:
        with scans.skipping():
            matches = landmark_set.find(embedding)
            values = measurements(landmark_set.markups, labels, matches)
            drawing = landmark_set.draw(embedding, matches)
            markups = options.output / f"{name}.mrk.json"
            points = write_matches(markups, name, drawing, matches, embedding.unit_mm)
            written.append(markups)
            present = present_points(points, matches, [], embedding.unit_mm)
            written += scans.write_points_report(name, *present, values)
            if not options.no_report:
                picture = volume if len(pictured) < _PICTURED else None
                pictured.append(scan_row(name, labels, matches, values, picture))
            rows += _landmark_rows(path, landmark_set, matches)
            measured += [_measurement_row(path, value) for value in values]
    written += scans.write_table("landmarks", COLUMNS, rows)
    written += scans.write_table("measurements", MEASUREMENT_COLUMNS, measured)
    if pictured:
        title = f"Landmarks of {options.set.name.removesuffix(SUFFIX)}"
        page = options.output / "report.html"
        written.append(write_landmarks_report(page, title, model.name, pictured))
    records: dict[str, Sequence[object]] = {
        "landmarks": console.as_records(COLUMNS, rows),
        "measurements": console.as_records(MEASUREMENT_COLUMNS, measured),
    }
    header, shown_rows = (MEASUREMENT_COLUMNS, measured) if measured else (COLUMNS, rows)
    table = [[scans.names[str(row[0])], *row[1:]] for row in shown_rows]
    scans.finish(records, (header, table), written)


def _open_scans(
    options: argparse.Namespace, model: Model
) -> tuple[Scans, Iterator[tuple[str, str, Volume | None, EmbeddingMap]]]:
    """Return the scans of the command, and the path, name, volume and map of each; a cohort has maps, no volumes."""
    from ..cohort.store import MANIFEST_NAME

    folders = [Path(scan) for scan in options.scans if Path(scan, MANIFEST_NAME).is_file()]
    if not folders:
        scans = Scans(options)
        return scans, scans.embedded(model)
    if len(options.scans) > 1:
        raise AnatomicalEmbeddingError(
            f"{folders[0]}: is a cohort; give one cohort, or scans, but not both."
        )
    stored = StoredScans(options, folders[0])
    return stored, stored.maps()


def _landmark_rows(path: str, landmark_set: LandmarkSet, matches: Matches) -> list[list[object]]:
    """Return the rows of landmarks.csv for one scan."""
    rows = []
    for landmark, row in zip(landmark_set.landmarks, matches.table(), strict=True):
        cells = [console.cell(row[column], 3) for column in COLUMNS[2:8]]
        rows.append([path, landmark.name, *cells, int(landmark.weights.sum())])
    return rows


def _measurement_row(path: str, measurement: Measurement) -> list[object]:
    columns = MEASUREMENT_COLUMNS[1:]
    return [path, *(console.cell(getattr(measurement, column), 2) for column in columns)]


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
        worst_scan = worst_mm = ""
        if np.isfinite(deviations).any():
            worst = int(np.nanargmax(deviations))
            worst_scan = scans[worst]
            worst_mm = f"{deviations[worst]:.1f}"
        wrong = _contradicting(landmark, scans)
        rows.append([landmark.name, len(scans), error, worst_scan, worst_mm, ", ".join(wrong)])
    if options.json:
        console.print_json({"landmarks": console.as_records(_CHECK_COLUMNS, rows)})
    else:
        console.print_table(_CHECK_COLUMNS, rows)


def _contradicting(landmark: Landmark, scans: Sequence[str]) -> list[str]:
    """Return the scans whose examples have no say in answers. scans: names of the scans of all examples."""
    texts = []
    for scan, weight, name in zip(scans, landmark.weights, landmark.exchanged_names(), strict=True):
        if not weight:
            texts.append(f"{scan} (exchanged with {name}?)" if name else scan)
    return texts


def _open_model(options: argparse.Namespace, landmark_set: LandmarkSet) -> Model:
    """Load the weights of a landmark set, unless the user has chosen others."""
    name = landmark_set.model if options.model == "auto" else options.model
    return console.open_model(options, name)
