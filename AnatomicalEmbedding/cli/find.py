"""anatemb find: the places that words name, in scans; and anatemb name: what lies at a point."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from ..errors import AnatomicalEmbeddingError, PointsError
from .box_options import finish, note_failure, read_all
from .console import (
    check_folder,
    complete,
    embed,
    make_folder,
    open_model,
    print_json,
    print_table,
    read_scan,
    say,
    write_table,
)

if TYPE_CHECKING:
    from ..words import Mention, Place

COLUMNS = ("words", "scan", "place", "status", "probability", "r", "a", "s", "remark")
_TABLE_NAME = "places.csv"
NOT_UNDERSTOOD = "not understood"  # the status of a part of the words that names no known place
_SHOWN = 60  # characters of words in the table on the terminal


def add_to(commands: argparse._SubParsersAction) -> None:
    _add_find(commands)
    _add_name(commands)


def _add_find(commands: argparse._SubParsersAction) -> None:
    parser = commands.add_parser(
        "find",
        help="places by words, or by the sentences of a report",
        description='Finds what WORDS name ("mass in the left adrenal", "12th rib on the right") in every SCAN. Writes '
        "places.csv, and for each scan NAME.places.mrk.json (points, opens in Slicer) and NAME.places.html (the region "
        "shaded). A place that the scan does not show is said to be outside.",
    )
    parser.add_argument("words", metavar="WORDS", nargs="?", help="left out with --report")
    parser.add_argument("scans", nargs="*", metavar="SCAN", help="CT files, DICOM folders, or folders of CT files")
    parser.add_argument("--report", type=Path, metavar="FILE", help="every sentence of a report: text, or DICOM SR")
    parser.add_argument("-o", "--output", type=Path, required=True, metavar="DIR", help="folder for the results")
    parser.add_argument("--no-report", action="store_true", help="leave the pictures out")
    complete(parser, run_find, series=True)


def _add_name(commands: argparse._SubParsersAction) -> None:
    parser = commands.add_parser(
        "name", help="what lies at a point of a scan", description="Names what lies at a point, the likeliest first."
    )
    parser.add_argument("scan", metavar="SCAN", help="CT file or DICOM folder")
    parser.add_argument("--point", required=True, metavar="R,A,S", help="RAS mm")
    complete(parser, run_name, series=True)


def run_find(options: argparse.Namespace) -> None:
    wanted, missed = _wanted(options)
    if not options.no_report:
        from ..reports.page import check_packages

        check_packages()
    check_folder(options.output)
    model = open_model(options)
    from ..reports.places import write_places_report
    from ..words import PlaceFinder

    failed, rows, answers, written = [], [], [], []
    make_folder(options.output)
    for path, name, volume, of in read_all(options, failed):
        try:
            finder = PlaceFinder(embed(model, volume, options), volume)
        except AnatomicalEmbeddingError as error:
            note_failure(error, failed, of)
            continue
        found = [(words, place) for words, mention in wanted for place in finder.find(mention)]
        rows += [_row(words, path, place) for words, place in found] + [_missed_row(part, path) for part in missed]
        answers += [_answer(words, path, place) for words, place in found]
        answers += [_missed_answer(part, path) for part in missed]
        written.append(_write_markups(options.output / f"{name}.places.mrk.json", found))
        if not options.no_report:
            written.append(write_places_report(options.output / f"{name}.places.html", volume, name, found, missed))
    if rows:
        written.append(options.output / _TABLE_NAME)
        write_table(written[-1], COLUMNS, rows)
    if options.json:
        print_json({"places": answers, "files": list(map(str, written)), "skipped": failed})
    else:
        shown = [[str(row[0])[:_SHOWN], Path(str(row[1])).name, *map(str, row[2:])] for row in rows]
        print_table(list(COLUMNS), shown)
        for path in written:
            say(f"wrote {path}")
    finish(failed, rows)


def _wanted(options: argparse.Namespace) -> tuple[list[tuple[str, Mention]], list[str]]:
    """Words and what they mention, and the parts of the words that are not understood (a report may have such parts).

    Raises AnatomicalEmbeddingError where nothing is understood.
    """
    from ..words import not_understood, parse_query, parse_report
    from ..words.report_text import read_report

    missed: list[str] = []
    if options.report is not None:
        if options.words is not None:
            options.scans = [options.words, *options.scans]
        sentences = parse_report(read_report(options.report))
        wanted = [(" ".join(each.text.split()), mention) for each in sentences for mention in each.mentions]
        if not wanted:
            raise AnatomicalEmbeddingError(f"{options.report}: names no place that is known.")
    else:
        parts = parse_query(options.words or "")
        wanted = [(options.words, mention) for part in parts for mention in part.mentions]
        missed = [part.text for part in parts if not part.mentions]
        if not wanted:
            raise AnatomicalEmbeddingError(not_understood(options.words or ""))
    if not options.scans:
        raise AnatomicalEmbeddingError("no scan was given; give the words first, then CT files or DICOM folders.")
    return wanted, missed


def _row(words: str, path: str, place: Place) -> list[object]:
    point = ["", "", ""] if place.point_ras is None else [round(float(x), 2) for x in place.point_ras]
    return [words, path, place.name, place.status, round(place.probability, 3), *point, place.remark]


def _answer(words: str, path: str, place: Place) -> dict[str, object]:
    values = dict(zip(COLUMNS, _row(words, path, place), strict=True))
    known = {key: None if value == "" else value for key, value in values.items()}
    return known | {"title": place.title, "side": place.side or None, "negated": place.negated}


def _missed_answer(part: str, path: str) -> dict[str, object]:
    """Of a part of the words that is not understood."""
    row = dict(zip(COLUMNS, _missed_row(part, path), strict=True))
    return {key: None if value == "" else value for key, value in row.items()}


def _missed_row(part: str, path: str) -> list[object]:
    from ..words import not_understood

    return [part, path, "", NOT_UNDERSTOOD, "", "", "", "", not_understood(part)]


def _write_markups(path: Path, found: list[tuple[str, Place]]) -> Path:
    import numpy as np

    from ..scan.points import PointList, write_markups

    shown = [(words, place) for words, place in found if place.point_ras is not None]
    points = np.array([place.point_ras for _, place in shown]).reshape(-1, 3)
    about = tuple(f"{words}: {place.status}, {place.probability:.0%}" for words, place in shown)
    write_markups(path, PointList(tuple(place.title for _, place in shown), points, about))
    return path


def run_name(options: argparse.Namespace) -> None:
    from ..words import PlaceFinder

    try:
        point = [float(part) for part in options.point.split(",")]
    except ValueError:
        point = []
    if len(point) != 3:
        raise PointsError(f"--point {options.point}: give three numbers, R,A,S in mm, such as --point 12.5,-40,310.")
    volume = read_scan(options.scan, options.series)
    finder = PlaceFinder(embed(open_model(options), volume, options), volume)
    found = finder.name_at(point)
    if options.json:
        print_json([vars(each) for each in found])
    elif found:
        print_table(
            ["place", "name", "probability"], [[each.title, each.name, f"{each.probability:.0%}"] for each in found]
        )
    else:
        say("nothing that has a name here: outside the body, or tissue between organs.")
