"""anatemb match: find the same anatomical points in other scans; write files that Slicer opens, and a report."""

from __future__ import annotations

import argparse
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ..errors import PointsError
from ..matching.status import ABSENT
from ..registration import BY_MATCH, BY_REGISTRATION
from ..scan.points import PointList, parse_point, read_points, write_markups
from . import console
from .scans import Scans

if TYPE_CHECKING:
    from ..embedding.map import EmbeddingMap
    from ..matching.match import Matches
    from ..scan.volume import Volume

COLUMNS = (
    "label", "target", "r", "a", "s", "status", "expected_error_mm", "probability", "score", "levels", "found_by",
)  # fmt: skip
_REPORT_TARGETS = 8
_TABLE_NAME = "matches.csv"


class Answer(NamedTuple):
    """The matches in one target scan. volume: the target scan for the report; None if the report leaves it out.

    found_by: BY_MATCH or BY_REGISTRATION.
    """

    path: str
    name: str
    matches: Matches
    volume: Volume | None
    found_by: str = BY_MATCH


def add_to(commands: argparse._SubParsersAction) -> None:
    parser = commands.add_parser(
        "match",
        help="find points of one scan in other scans",
        description="Finds the points of TEMPLATE in every TARGET. Writes one .mrk.json per target (opens in Slicer), "
        "matches.csv and report.html to the output folder. All coordinates are RAS mm. A target that cannot be used is "
        "reported and skipped.",
    )
    add = parser.add_argument
    add("template", type=Path, metavar="TEMPLATE", help="CT file or DICOM folder in which the points lie")
    files = "points file (.mrk.json, or .csv with label,r,a,s), then the target scans; with --point, only targets"
    add("files", nargs="+", metavar="POINTS TARGET", help=files)
    add("--point", action="append", default=[], metavar="X,Y,Z", help="a point in RAS mm; may be repeated")
    add = parser.add_mutually_exclusive_group().add_argument
    about = "register the scans, which show one patient (default: only if they have the same DICOM Patient ID)"
    add("--same-patient", action="store_true", default=None, help=about)
    about = "do not register the scans, even if they have the same DICOM Patient ID"
    add("--different-patients", action="store_false", dest="same_patient", default=None, help=about)
    console.complete(parser, run, "output", "report", "effort", series=True)


def run(options: argparse.Namespace) -> None:
    from ..registration.patient_scans import MappedScan, answers, find_correspondence

    points, targets = _points_and_targets(options)
    held = console.held_series(options.template) if options.series else set()
    scans = Scans(options, targets, [uid for uid in options.series if uid not in held])
    inputs = [] if options.point else [Path(options.files[0])]
    results = [f"{name}.mrk.json" for name in scans.sources]
    console.check_kept(inputs, [options.output / name for name in (*results, _TABLE_NAME)])
    template = console.read_scan(options.template, options.series)
    console.check_inside(template, options.template, points.labels, points.points_ras)
    console.check_report(options)
    console.check_folder(options.output)
    model = console.open_model(options)
    template_map = console.embed(model, template, options)
    found: list[Answer] = []
    for path, name, volume, target_map in scans.embedded(model):
        with scans.skipping():
            mapped = MappedScan(template, template_map), MappedScan(volume, target_map)
            field = find_correspondence(*mapped, options.same_patient, model.cache)
            (matches,) = answers(template_map, points.points_ras, [target_map], [field], options.effort)
            found_by = BY_MATCH if field is None else BY_REGISTRATION
            shown = not options.no_report and len(found) < _REPORT_TARGETS
            found.append(Answer(path, name, matches, _with_faults(volume, target_map) if shown else None, found_by))
    if not found:
        scans.check()
    written = write_answers(
        options.output, _with_faults(template, template_map), points, found, model.name, report=not options.no_report
    )
    rows = csv_rows(points, found)
    table = [[row[0], scans.names[row[1]], *row[2:6], row[6] and f"{row[6]:.0f}", row[9]] for row in rows]
    header = ["label", "target", "R mm", "A mm", "S mm", "status", "error mm", "levels"]
    scans.finish({"matches": console.as_records(COLUMNS, rows)}, (header, table), written)


def write_answers(
    folder: Path, template: Volume, points: PointList, answers: list[Answer], model_name: str, report: bool = True,
) -> list[Path]:  # fmt: skip
    """Write matches.csv, report.html and, for each target, a .mrk.json file into `folder`. Returns the paths."""
    folder.mkdir(parents=True, exist_ok=True)
    written = [folder / f"{answer.name}.mrk.json" for answer in answers]
    for path, (_, name, matches, _, _) in zip(written, answers, strict=True):
        found = PointList(points.labels, matches.points_ras, descriptions(matches))
        write_markups(path, found, name, None if matches.status is None else (matches.status == ABSENT).tolist())
    written.append(folder / _TABLE_NAME)
    console.write_table(written[-1], COLUMNS, csv_rows(points, answers))
    if report:
        from ..reports.matches import write_report

        shown = [(a.name, a.volume, a.matches) for a in answers if a.volume is not None]
        title = f"Points of {template.name or 'the template'} in {len(shown)} scan{'s' if len(shown) > 1 else ''}"
        page = folder / "report.html"
        written.append(write_report(page, template, points, shown, title, model_name))
    return written


def descriptions(matches: Matches) -> tuple[str, ...]:
    """Return a sentence about each match, to be stored with its point; () if the weights have no calibration."""
    if matches.status is None:
        return ()
    from ..embedding.levels import level_sentence

    def described(row: dict[str, Any]) -> str:
        if row["status"] == ABSENT:
            return "absent: not in this scan"
        doubt = f"; {level_sentence(row['levels'])}" if row["levels"] else ""
        error, share = row["expected_error_mm"], row["probability"]
        return f"{row['status']}: expected error {error:.0f} mm, {100 * share:.0f} % within 10 mm{doubt}"

    return tuple(described(row) for row in matches.table())


def csv_rows(points: PointList, answers: list[Answer]) -> list[list[Any]]:
    """Return the rows of matches.csv with the columns COLUMNS; unknown values are ""."""
    digits = {"r": 3, "a": 3, "s": 3, "expected_error_mm": 2, "probability": 4, "score": 4}

    def cell(name: str, value: Any) -> Any:
        return "" if value is None else round(value, digits[name]) if name in digits else value

    return [
        [label, answer.path, *(cell(name, found[name]) for name in COLUMNS[2:-1]), answer.found_by]
        for answer in answers
        for label, found in zip(points.labels, answer.matches.table(), strict=True)
    ]


def _with_faults(volume: Volume, embedding: EmbeddingMap) -> Volume:
    return replace(volume, notes=(*volume.notes, *embedding.faults))


def _points_and_targets(options: argparse.Namespace) -> tuple[PointList, list[str]]:
    if options.point:
        if Path(options.files[0]).suffix.lower() in (".json", ".csv"):
            raise PointsError(f"{options.files[0]}: this file and --point both give points; give only one of them.")
        points = np.array([parse_point(text) for text in options.point])
        return PointList(tuple(f"P-{n + 1}" for n in range(len(points))), points), options.files
    points_file, targets = options.files[0], options.files[1:]
    if not targets:
        raise PointsError(f"{points_file}: no target scan follows this file; give template, points file, then targets.")
    return read_points(points_file), targets
