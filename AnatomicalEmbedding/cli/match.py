"""anatemb match: find the same anatomical points in other scans; write files that Slicer opens, and a report."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ..errors import PointsError
from ..files import write_table
from ..landmarks.drawing import Drawing, read_drawing, write_drawing
from ..landmarks.markups import Markup
from ..matching.status import ABSENT, MATCHED_MM, decimals
from ..registration import BY_MATCH
from ..scan.geometry import transform_points
from ..scan.markups import write_file
from ..scan.points import PointList, parse_point
from ..spine.levels import level_sentence
from . import arguments, console
from .scans import Scans

if TYPE_CHECKING:
    from ..embedding.inference import Model
    from ..matching.match import Matches
    from ..relations.relate import RelatedScan
    from ..relations.relation import Relation
    from ..scan.volume import Volume

COLUMNS = (
    "label",
    "target",
    "r",
    "a",
    "s",
    "status",
    "expected_error_mm",
    "probability",
    "score",
    "levels",
    "found_by",
)
_DIGITS = {"r": 3, "a": 3, "s": 3, "expected_error_mm": 2, "probability": 4, "score": 4}
_REPORT_TARGETS = 8  # targets with pictures in the report; by hand, for a small file
_TABLE_NAME = "matches.csv"


class Answer(NamedTuple):
    """The matches in one target scan. volume: the target scan for the report; None if the report leaves it out.

    found_by: BY_MATCH or BY_REGISTRATION. pixels: (N, 2) pixels x, y of the answers in a film, or None. lines: markups
    of the lines through a CT that places of a film show.
    """

    path: str
    name: str
    matches: Matches
    volume: Volume | None
    found_by: str = BY_MATCH
    pixels: np.ndarray | None = None
    lines: Sequence[dict[str, Any]] = ()


def add_to(commands: argparse._SubParsersAction) -> None:
    parser = commands.add_parser(
        "match",
        help="find points of one scan in other scans",
        usage="%(prog)s TEMPLATE POINTS TARGET [TARGET ...] -o DIR [options]",
        description="Finds the points of TEMPLATE in every TARGET. Writes one .mrk.json per target (opens in Slicer), "
        "matches.csv and report.html to the output folder; with --dicom also DICOM reports, NAME.sr.dcm. All "
        "coordinates are RAS mm. A target that cannot be used is reported and skipped. Scans are CTs or films "
        "(radiographs: PNG, TIFF, DICOM). A point of a CT is found in a film of the patient, and a place of a film as "
        "a line through the patient's CT.",
    )
    add = parser.add_argument
    arguments.add_path(
        parser, "template", "TEMPLATE", "CT file or DICOM folder in which the points lie"
    )
    files = (
        "points file (.mrk.json, .csv with label,r,a,s, or with label,x,y in pixels of a film, DICOM SR), then the "
        "target scans; with --point, only targets"
    )
    add("files", nargs="+", metavar="POINTS TARGET", help=files)
    add(
        "--point",
        action="append",
        default=[],
        metavar="X,Y,Z",
        help="a point in RAS mm; may be repeated",
    )
    arguments.add_film_width(parser)
    add = parser.add_mutually_exclusive_group().add_argument
    same_help = "register the scans, which show one patient (default: only if they have the same DICOM Patient ID)"
    add("--same-patient", action="store_true", default=None, help=same_help)
    different_help = "do not register the scans, even if they have the same DICOM Patient ID"
    add(
        "--different-patients",
        action="store_false",
        dest="same_patient",
        default=None,
        help=different_help,
    )
    arguments.complete(parser, run, "output", "report", "dicom", "effort", "series")


def run(options: argparse.Namespace) -> None:
    from ..relations.relate import relate
    from ..scan.sources import distinct_names
    from ..scan.volume import Film, is_film_file

    film = console.read_scan(options.template, ()) if is_film_file(options.template) else None
    if isinstance(film, Film):
        film = film.with_width(options.film_width_mm)
    drawing, targets = _drawing_and_targets(options, None if film is None else film.ijk_to_ras)
    points = drawing.points
    template_series = console.series_in(options.template) if options.series else set()
    scans = Scans(options, targets, [uid for uid in options.series if uid not in template_series])
    inputs = [] if options.point else [Path(options.files[0])]
    results = [f"{name}.mrk.json" for name in scans.sources]
    console.refuse_overwriting(inputs, [options.output / name for name in (*results, _TABLE_NAME)])
    # two files of one name in two folders
    name, *_ = distinct_names([options.template, *scans.names])
    console.check_output(options)
    films = film is not None or any(is_film_file(source.path) for source in scans.sources.values())
    model = console.open_model(options, films=films)
    scan = film or console.read_scan(options.template, options.series, model.check_scan)
    template = replace(scan, name=name)
    console.check_inside(template, options.template, points.labels, points.points_ras)
    mapped = _map_scan(template, model, options)
    answers: list[Answer] = []
    reports, uids = _report_template(options, points, name)
    for path, name, volume in scans.read(model.check_scan):
        with scans.skipping():
            target = _map_scan(volume, model, options)
            relation = relate(
                mapped,
                target,
                same_patient=options.same_patient,
                effort=options.effort,
                cache=model.cache,
            )
            if relation.refusal:
                console.warn(
                    f"{options.template} and {path}: {relation.refusal} The points are matched, and uncertain."
                )
            answer = _answer(path, name, points, target, relation)
            is_pictured = not options.no_report and len(answers) < _REPORT_TARGETS
            answers.append(answer if is_pictured else answer._replace(volume=None))
            reports += scans.write_points_report(
                name, *present_points(points, answer.matches, uids, mapped.map.unit_mm)
            )
    if not answers:
        scans.check()
    written = write_answers(
        options.output,
        _with_faults(mapped),
        points,
        answers,
        model.name,
        report=not options.no_report,
        markups=[markup for markup in drawing.markups if markup.labels[0] not in drawing.edges_ras],
        unit_mm=mapped.map.unit_mm,
    )
    written += reports
    rows = csv_rows(points, answers)
    digits = decimals(mapped.map.unit_mm)
    table = []
    for row in rows:
        error = row[6] and f"{row[6]:.{digits}f}"
        table.append([row[0], scans.names[row[1]], *row[2:6], error, row[9]])
    header = ["label", "target", "R mm", "A mm", "S mm", "status", "error mm", "levels"]
    scans.finish({"matches": console.as_records(_columns(answers), rows)}, (header, table), written)


def _map_scan(volume: Volume, model: Model, options: argparse.Namespace) -> RelatedScan:
    from ..relations.relate import map_scan

    return map_scan(volume, lambda scan: console.embed(model, scan, options.json), model.for_films)


def _answer(
    path: str, name: str, points: PointList, target: RelatedScan, relation: Relation
) -> Answer:
    from ..films.patient import FilmInCT
    from ..scan.volume import Film

    matches = relation.points(points.points_ras)
    answer = Answer(path, name, matches, _with_faults(target), relation.found_by)
    if isinstance(target.volume, Film):
        pixels = transform_points(target.volume.ras_to_ijk, matches.points_ras)[:, :2]
        answer = answer._replace(pixels=pixels)
    if isinstance(relation, FilmInCT):
        answer = answer._replace(lines=relation.rays(matches).markups(points.labels))
    return answer


def write_answers(
    folder: Path,
    template: Volume,
    points: PointList,
    answers: list[Answer],
    model_name: str,
    report: bool = True,
    markups: Sequence[Markup] = (),
    unit_mm: float = 1.0,
) -> list[Path]:
    """Write matches.csv, report.html and, for each target, a .mrk.json file. Returns the paths.

    Args:
        folder: the output folder.
        template: the scan of the points.
        points: the points.
        answers: the matches in each target.
        model_name: name of the weights, for the report.
        report: whether to write the report.
        markups: markups through the points.
        unit_mm: unit of the maps.
    """
    folder.mkdir(parents=True, exist_ok=True)
    written = []
    for answer in answers:
        answered = PointList(points.labels, answer.matches.points_ras)
        drawing = Drawing(answered, tuple(markups))
        written.append(folder / f"{answer.name}.mrk.json")
        write_matches(written[-1], answer.name, drawing, answer.matches, unit_mm)
    for answer in answers:
        if answer.lines:
            written.append(folder / f"{answer.name}.lines.mrk.json")
            write_file(written[-1], answer.lines)
    written.append(folder / _TABLE_NAME)
    write_table(written[-1], _columns(answers), csv_rows(points, answers))
    if report:
        from ..reports.matches import write_report

        pictured = [
            (answer.name, answer.volume, answer.matches)
            for answer in answers
            if answer.volume is not None
        ]
        plural = "s" if len(pictured) > 1 else ""
        title = f"Points of {template.name or 'the template'} in {len(pictured)} scan{plural}"
        page = folder / "report.html"
        written.append(write_report(page, template, points, pictured, title, model_name, unit_mm))
    return written


def write_matches(
    path: Path,
    name: str,
    drawing: Drawing,
    matches: Matches,
    unit_mm: float = 1.0,
) -> PointList:
    """Write the answers in one scan as points and markups that open in Slicer; absent points are missing.

    Args:
        path: the file NAME.mrk.json.
        name: name of the scan.
        drawing: the N answers as points, and the markups through them.
        matches: the N answers.
        unit_mm: unit of the maps.

    Returns:
        The points with a sentence about each.
    """
    absent = [row["status"] == ABSENT for row in matches.table()]
    points = replace(drawing.points, descriptions=descriptions(matches, unit_mm))
    write_drawing(path, name, replace(drawing, points=points), absent)
    return points


def descriptions(matches: Matches, unit_mm: float = 1.0) -> tuple[str, ...]:
    """Return a sentence about each match, to be stored with its point; () if the weights have no calibration.

    unit_mm: unit of the maps.
    """
    if matches.status is None:
        return ()

    def described(row: dict[str, Any]) -> str:
        if row["status"] == ABSENT:
            return "absent: not in this scan"
        doubt = f"; {level_sentence(row['levels'])}" if row["levels"] else ""
        error = row["expected_error_mm"]
        share = row["probability"]
        within = f"{100 * share:.0f} % within {MATCHED_MM * unit_mm:.2g} mm{doubt}"
        return f"{row['status']}: expected error {error:.{decimals(unit_mm)}f} mm, {within}"

    return tuple(described(row) for row in matches.table())


def csv_rows(points: PointList, answers: list[Answer]) -> list[list[Any]]:
    """Return the rows of matches.csv with the columns of `_columns`; unknown values are ""."""
    has_pixels = _columns(answers) != COLUMNS
    rows = []
    for answer in answers:
        for n, match in enumerate(answer.matches.table()):
            cells = [console.cell(match[name], _DIGITS.get(name, 0)) for name in COLUMNS[2:-1]]
            row = [points.labels[n], answer.path, *cells, answer.found_by]
            if answer.pixels is not None:
                row += answer.pixels[n].round(2).tolist()
            elif has_pixels:
                row += ["", ""]
            rows.append(row)
    return rows


def _columns(answers: list[Answer]) -> tuple[str, ...]:
    """Return the columns of matches.csv; x and y are the pixels of answers in films."""
    return COLUMNS if all(answer.pixels is None for answer in answers) else (*COLUMNS, "x", "y")


def _with_faults(scan: RelatedScan) -> Volume:
    return replace(scan.volume, notes=(*scan.volume.notes, *scan.map.faults))


def _report_template(
    options: argparse.Namespace, points: PointList, name: str
) -> tuple[list[Path], list[str]]:
    """With --dicom, write the points of the template as a DICOM report, if the template is DICOM. Returns the paths of
    the reports, and the tracking UID of each point, which is the same in the reports of all scans. name: of the
    template."""
    if not options.dicom:
        return [], []
    from ..dicom.source import source_at
    from ..dicom.sr import new_uids, write_points_report
    from ..scan.dicom import is_dicom_file

    uids = new_uids(len(points))
    if not options.template.is_dir() and not is_dicom_file(options.template):
        return [], uids
    path = options.output / f"{name}.template.sr.dcm"
    uid = console.chosen_series(options.template, options.series)
    write_points_report(points, source_at(options.template, uid), path, tracking_uids=uids)
    return [path], uids


def present_points(
    points: PointList, matches: Matches, uids: list[str], unit_mm: float
) -> tuple[PointList, list[float | None], list[str]]:
    """Keep the points that the target shows.

    Args:
        points: N points.
        matches: their matches.
        uids: tracking UID of each point; [] without.
        unit_mm: unit of the maps.

    Returns:
        The points in the target, their expected errors in mm, and their tracking UIDs.
    """
    present = [n for n, row in enumerate(matches.table()) if row["status"] != ABSENT]
    matches = matches[present]
    points = PointList(
        tuple(points.labels[n] for n in present), matches.points_ras, descriptions(matches, unit_mm)
    )
    errors_mm = [row["expected_error_mm"] for row in matches.table()]
    return points, errors_mm, [uids[n] for n in present if uids]


def _drawing_and_targets(
    options: argparse.Namespace, film_to_ras: np.ndarray | None
) -> tuple[Drawing, list[str]]:
    from ..dicom.sr import read_any_points
    from ..scan.image_files import display_name

    if options.point:
        if Path(options.files[0]).suffix.lower() in (".json", ".csv"):
            raise PointsError(
                f"{options.files[0]}: this file and --point both give points; give only one of them."
            )
        points = np.array([parse_point(text) for text in options.point])
        labels = tuple(f"P-{n + 1}" for n in range(len(points)))
        return Drawing(PointList(labels, points)), options.files
    points_file = options.files[0]
    targets = options.files[1:]
    if not targets:
        raise PointsError(
            f"{points_file}: no target scan follows this file; give template, points file, then targets."
        )
    if points_file.lower().endswith(".json"):
        return read_drawing([Path(points_file)], display_name(options.template)), targets
    return Drawing(read_any_points(points_file, film_to_ras)), targets
