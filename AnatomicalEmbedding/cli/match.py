"""anatemb match: find the same anatomical points in other scans; write files that Slicer opens, and a report."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ..errors import PointsError, VolumeError
from ..matching.status import ABSENT
from ..registration import BY_MATCH, BY_REGISTRATION
from ..scan.geometry import transform_points
from ..scan.markups import write_file
from ..scan.points import PointList, parse_point, write_markups
from ..spine.levels import level_sentence
from . import console
from .scans import Scans

if TYPE_CHECKING:
    from ..embedding.inference import Model
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
    add("template", type=Path, metavar="TEMPLATE", help="CT file or DICOM folder in which the points lie")
    files = (
        "points file (.mrk.json, .csv with label,r,a,s, or with label,x,y in pixels of a film, DICOM SR), then the "
        "target scans; with --point, only targets"
    )
    add("files", nargs="+", metavar="POINTS TARGET", help=files)
    add("--point", action="append", default=[], metavar="X,Y,Z", help="a point in RAS mm; may be repeated")
    console.add_film_width(parser)
    add = parser.add_mutually_exclusive_group().add_argument
    about = "register the scans, which show one patient (default: only if they have the same DICOM Patient ID)"
    add("--same-patient", action="store_true", default=None, help=about)
    about = "do not register the scans, even if they have the same DICOM Patient ID"
    add("--different-patients", action="store_false", dest="same_patient", default=None, help=about)
    console.complete(parser, run, "output", "report", "dicom", "effort", series=True)


def run(options: argparse.Namespace) -> None:
    from ..scan.sources import distinct_names
    from ..scan.volume import is_film_file

    of_film = is_film_file(options.template)
    film = console.read_scan(options.template, ()).with_width(options.film_width_mm) if of_film else None
    points, targets = _points_and_targets(options, None if film is None else film.ijk_to_ras)
    held = console.held_series(options.template) if options.series else set()
    scans = Scans(options, targets, [uid for uid in options.series if uid not in held])
    inputs = [] if options.point else [Path(options.files[0])]
    results = [f"{name}.mrk.json" for name in scans.sources]
    console.check_kept(inputs, [options.output / name for name in (*results, _TABLE_NAME)])
    name, *_ = distinct_names([options.template, *scans.names])  # two files of one name in two folders
    template = replace(film or console.read_scan(options.template, options.series), name=name)
    console.check_inside(template, options.template, points.labels, points.points_ras)
    console.check_report(options)
    console.check_folder(options.output)
    films = of_film or any(is_film_file(source.path) for source in scans.sources.values())
    model = console.open_model(options, films=films)
    with_template = (_FilmMatcher if films else _Matcher)(template, points, model, options)
    found: list[Answer] = []
    reports, uids = _report_template(options, points)
    for path, name, volume in scans.read():
        with scans.skipping():
            answer = with_template.find(path, name, volume)
            shown = not options.no_report and len(found) < _REPORT_TARGETS
            found.append(answer if shown else answer._replace(volume=None))
            reports += scans.write_points_report(name, *_shown(points, answer.matches, uids))
    if not found:
        scans.check()
    written = write_answers(
        options.output, with_template.template, points, found, model.name, report=not options.no_report
    )
    written += reports
    rows = csv_rows(points, found)
    table = [[row[0], scans.names[row[1]], *row[2:6], row[6] and f"{row[6]:.0f}", row[9]] for row in rows]
    header = ["label", "target", "R mm", "A mm", "S mm", "status", "error mm", "levels"]
    scans.finish({"matches": console.as_records(_columns(found), rows)}, (header, table), written)


class _Matcher:
    """Finds the points of one template in one target after another."""

    def __init__(self, template: Volume, points: PointList, model: Model, options: argparse.Namespace) -> None:
        self.points_ras, self._model, self._options = points.points_ras, model, options
        self.map = console.embed(model, template, options)
        self.template = _with_faults(template, self.map)

    def find(self, path: str, name: str, volume: Volume) -> Answer:
        from ..registration.patient_scans import MappedScan, Refusal, match_scans

        target = console.embed(self._model, volume, self._options)
        scans = MappedScan(self.template, self.map), MappedScan(volume, target)
        choice = {"same_patient": self._options.same_patient, "effort": self._options.effort}
        ((matches, pair),) = match_scans(scans[0], self.points_ras, scans[1:], cache=self._model.cache, **choice)
        if isinstance(pair, Refusal):
            console.warn(f"{self._options.template} and {path}: {pair.reason} The points are matched, and uncertain.")
        found_by = BY_MATCH if pair is None or isinstance(pair, Refusal) else BY_REGISTRATION
        pixels = transform_points(volume.ras_to_ijk, matches.points_ras)[:, :2] if volume.is_film else None
        return Answer(path, name, matches, _with_faults(volume, target), found_by, pixels)


class _FilmMatcher:
    """Finds the points of a film or a CT in films, or of a film in CTs of the patient."""

    def __init__(self, template: Volume, points: PointList, model: Model, options: argparse.Namespace) -> None:
        from ..films.patient import ProjectedCT

        self._points, self._model, self._options = points, model, options
        self.template = template
        self._projected = None if template.is_film else ProjectedCT.of(template)
        if self._projected is None:
            self._films = _Matcher(template, points, model, options)
            self.template = self._films.template
        else:
            self._own = model.embed(self._projected.film)

    def find(self, path: str, name: str, volume: Volume) -> Answer:
        from ..films.patient import ProjectedCT

        if self._projected is None and volume.is_film:
            return self._films.find(path, name, volume)
        if self._projected is not None:
            if not volume.is_film:
                raise VolumeError(f"{path}: is a CT, but other targets are films; match CTs in a command of their own.")
            target = console.embed(self._model, volume, self._options)
            matches = self._projected.find_in_film(self._points.points_ras, self._own, target, self._options.effort)
            pixels = transform_points(volume.ras_to_ijk, matches.points_ras)[:, :2]
            return Answer(path, name, matches, _with_faults(volume, target), pixels=pixels)
        points, effort = self._points.points_ras, self._options.effort
        projected = ProjectedCT.of(volume)
        matches, rays = projected.find_lines(self._films.map, points, self._model.embed(projected.film), effort)
        return Answer(path, name, matches, volume, lines=rays.markups(self._points.labels))


def write_answers(
    folder: Path, template: Volume, points: PointList, answers: list[Answer], model_name: str, report: bool = True,
) -> list[Path]:  # fmt: skip
    """Write matches.csv, report.html and, for each target, a .mrk.json file into `folder`. Returns the paths."""
    folder.mkdir(parents=True, exist_ok=True)
    written = [folder / f"{answer.name}.mrk.json" for answer in answers]
    for path, answer in zip(written, answers, strict=True):
        found, absent = answer.matches, None if answer.matches.status is None else answer.matches.status == ABSENT
        listed = PointList(points.labels, found.points_ras, descriptions(found))
        write_markups(path, listed, answer.name, None if absent is None else absent.tolist())
    for answer in filter(lambda each: len(each.lines), answers):
        written.append(folder / f"{answer.name}.lines.mrk.json")
        write_file(written[-1], answer.lines)
    written.append(folder / _TABLE_NAME)
    console.write_table(written[-1], _columns(answers), csv_rows(points, answers))
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

    def described(row: dict[str, Any]) -> str:
        if row["status"] == ABSENT:
            return "absent: not in this scan"
        doubt = f"; {level_sentence(row['levels'])}" if row["levels"] else ""
        error, share = row["expected_error_mm"], row["probability"]
        return f"{row['status']}: expected error {error:.0f} mm, {100 * share:.0f} % within 10 mm{doubt}"

    return tuple(described(row) for row in matches.table())


def csv_rows(points: PointList, answers: list[Answer]) -> list[list[Any]]:
    """Return the rows of matches.csv with the columns of `_columns`; unknown values are ""."""
    digits = {"r": 3, "a": 3, "s": 3, "expected_error_mm": 2, "probability": 4, "score": 4}

    def cell(name: str, value: Any) -> Any:
        return "" if value is None else round(value, digits[name]) if name in digits else value

    def pixels(answer: Answer, number: int) -> list[Any]:
        if len(_columns(answers)) == len(COLUMNS):
            return []
        return ["", ""] if answer.pixels is None else answer.pixels[number].round(2).tolist()

    return [
        [label, answer.path, *(cell(name, found[name]) for name in COLUMNS[2:-1]), answer.found_by, *pixels(answer, n)]
        for answer in answers
        for n, (label, found) in enumerate(zip(points.labels, answer.matches.table(), strict=True))
    ]


def _columns(answers: list[Answer]) -> tuple[str, ...]:
    """Return the columns of matches.csv; x and y are the pixels of answers in films."""
    return COLUMNS if all(answer.pixels is None for answer in answers) else (*COLUMNS, "x", "y")


def _with_faults(volume: Volume, embedding: EmbeddingMap) -> Volume:
    return replace(volume, notes=(*volume.notes, *embedding.faults))


def _report_template(options: argparse.Namespace, points: PointList) -> tuple[list[Path], list[str]]:
    """With --dicom, write the points of the template as a DICOM report, if the template is DICOM. Returns the paths of
    the reports, and the tracking UID of each point, which is the same in the reports of all scans."""
    if not options.dicom:
        return [], []
    from ..dicom.source import source_at
    from ..dicom.sr import new_uids, write_points_report
    from ..scan.dicom import is_dicom_file

    uids = new_uids(len(points))
    if not options.template.is_dir() and not is_dicom_file(options.template):
        return [], uids
    path = options.output / "template.sr.dcm"
    uid = console.chosen_series(options.template, options.series)
    write_points_report(points, source_at(options.template, uid), path, tracking_uids=uids)
    return [path], uids


def _shown(points: PointList, matches: Matches, uids: list[str]) -> tuple[PointList, list[float | None], list[str]]:
    """Return the points that the target shows, with their expected errors in mm and their tracking UIDs."""
    kept = [n for n, row in enumerate(matches.table()) if row["status"] != ABSENT]
    found = matches[kept]
    points = PointList(tuple(points.labels[n] for n in kept), found.points_ras, descriptions(found))
    return points, [row["expected_error_mm"] for row in found.table()], [uids[n] for n in kept if uids]


def _points_and_targets(options: argparse.Namespace, film_to_ras: np.ndarray | None) -> tuple[PointList, list[str]]:
    from ..dicom.sr import read_any_points

    if options.point:
        if Path(options.files[0]).suffix.lower() in (".json", ".csv"):
            raise PointsError(f"{options.files[0]}: this file and --point both give points; give only one of them.")
        points = np.array([parse_point(text) for text in options.point])
        return PointList(tuple(f"P-{n + 1}" for n in range(len(points))), points), options.files
    points_file, targets = options.files[0], options.files[1:]
    if not targets:
        raise PointsError(f"{points_file}: no target scan follows this file; give template, points file, then targets.")
    return read_any_points(points_file, film_to_ras), targets
