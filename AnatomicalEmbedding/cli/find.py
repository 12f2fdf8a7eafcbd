"""anatemb find: find, in scans, the places that words name. anatemb name: name the structures at a point."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from ..errors import AnatomicalEmbeddingError
from . import arguments, console
from .scans import Scans

if TYPE_CHECKING:
    from ..words import Mention, Place

COLUMNS = ("words", "scan", "place", "status", "probability", "r", "a", "s", "remark")
NOT_UNDERSTOOD = "not understood"  # status of a part of the words in which no known place was found
# characters; in the table on the terminal, a longer text is shortened to this length
_MOST_CHARACTERS = 60


def add_to(commands: argparse._SubParsersAction) -> None:
    _add_find(commands)
    _add_name(commands)


def _add_find(commands: argparse._SubParsersAction) -> None:
    parser = commands.add_parser(
        "find",
        help="find places that are named in words or in a report",
        description='Finds the places that WORDS name ("mass in the left adrenal", "12th rib on the right") in every '
        "SCAN. Writes places.csv, and for each scan NAME.places.mrk.json (points, opens in Slicer) and "
        "NAME.places.html (a page on which the region of each place is shaded). If a scan does not show a place, this "
        'place has the status "outside" in this scan. With --dicom, NAME.sr.dcm is a DICOM report of the places.',
    )
    parser.add_argument(
        "words", metavar="WORDS", nargs="?", help="name of a place; leave it out with --report"
    )
    parser.add_argument("scans", nargs="*", metavar="SCAN", help=arguments.SCANS_HELP)
    help_text = "report, a text file or DICOM SR; find the places that its sentences name"
    arguments.add_path(parser, "--report", "FILE", help_text)
    arguments.complete(parser, run_find, "output", "report", "dicom", "series")


def _add_name(commands: argparse._SubParsersAction) -> None:
    parser = commands.add_parser(
        "name",
        help="name the structures at a point of a scan",
        description="Names the structures at a point. The structure with the highest probability comes first.",
    )
    parser.add_argument("scan", metavar="SCAN", help="CT file or DICOM folder")
    parser.add_argument("--point", required=True, metavar="R,A,S", help="the point in RAS mm")
    arguments.complete(parser, run_name, "series")


def run_find(options: argparse.Namespace) -> None:
    """Find the places that the words, or the sentences of a report, name in every scan, and write the results."""
    missed: list[str] = []
    if options.report is None:
        mentions, missed = _mentions_in_words(options.words or "")
    else:
        mentions = _mentions_in_report(options.report)
        if options.words is not None:  # with a report, the first word is a scan
            options.scans.insert(0, options.words)
    if not options.scans:
        raise AnatomicalEmbeddingError(
            "no scan was given; write the words in quotes, then the scans."
        )
    console.check_output(options)
    model = console.open_model(options)
    from ..reports.scan_pages import write_places_report
    from ..scan.points import write_markups
    from ..words import PlaceFinder, points_of, shipped_atlas

    atlas = shipped_atlas(model.weights_hash, model.path)
    rows = []
    answers = []
    written = []
    scans = Scans(options)
    console.make_folder(options.output)
    for path, name, volume, embedding in scans.embedded(model):
        with scans.skipping():
            finder = PlaceFinder(embedding, volume, atlas)
            places = [
                (words, place) for words, mention in mentions for place in finder.find(mention)
            ]
            new_rows = [_row(words, path, place) for words, place in places]
            new_rows += [_missed_row(part, path) for part in missed]
            records = console.as_records(COLUMNS, new_rows)
            # the first records are the places; the words that were not understood follow
            for (_, place), record in zip(places, records, strict=False):
                record["title"] = place.title
                record["side"] = place.side or None
                record["negated"] = place.negated
                record["levels"] = place.levels or None
            points = points_of(places)
            markups = options.output / f"{name}.places.mrk.json"
            write_markups(markups, points)
            written.append(markups)
            written += scans.write_points_report(name, points)
            if not options.no_report:
                page = options.output / f"{name}.places.html"
                written.append(write_places_report(page, volume, name, places, missed))
            rows += new_rows
            answers += records
    written += scans.write_table("places", COLUMNS, rows)
    table = [[str(row[0])[:_MOST_CHARACTERS], scans.names[str(row[1])], *row[2:]] for row in rows]
    scans.finish({"places": answers}, (COLUMNS, table), written)


def _mentions_in_report(path: Path) -> list[tuple[str, Mention]]:
    """Return (sentence, mention) for each known place in a report. Raises AnatomicalEmbeddingError without any."""
    from ..words import parse_report
    from ..words.report_text import read_report

    mentions = []
    for sentence in parse_report(read_report(path)):
        text = " ".join(sentence.text.split())  # on one line
        mentions += [(text, mention) for mention in sentence.mentions]
    if not mentions:
        raise AnatomicalEmbeddingError(f"{path}: names no known place; give a report in English.")
    return mentions


def _mentions_in_words(words: str) -> tuple[list[tuple[str, Mention]], list[str]]:
    """Return (words, mention) for each known place in the user's words, and the parts of the words that are not
    understood. All rows show the whole words. Raises AnatomicalEmbeddingError if no known place is named."""
    from ..words import not_understood, parse_query

    parts = parse_query(words)
    mentions = [(words, mention) for part in parts for mention in part.mentions]
    if not mentions:
        raise AnatomicalEmbeddingError(not_understood(words))
    return mentions, [part.text for part in parts if not part.mentions]


def _row(words: str, path: str, place: Place) -> list[object]:
    """Return a row of places.csv. words: what the user wrote. path: of the scan."""
    point = console.coordinates(place.point_ras)
    probability = round(place.probability, 3)
    return [words, path, place.name, place.status, probability, *point, place.remark]


def _missed_row(part: str, path: str) -> list[object]:
    """Return a row of places.csv for a part of the words that names no known place."""
    from ..words import not_understood

    return [part, path, "", NOT_UNDERSTOOD, "", "", "", "", not_understood(part)]


def run_name(options: argparse.Namespace) -> None:
    """Print the structures at a point."""
    from ..scan.points import parse_point
    from ..words import PlaceFinder, shipped_atlas

    point = parse_point(options.point)
    volume = console.read_scan(options.scan, options.series)
    model = console.open_model(options)
    atlas = shipped_atlas(model.weights_hash, model.path)
    finder = PlaceFinder(console.embed(model, volume, options.json), volume, atlas)
    structures = finder.name_at(point)
    if options.json:
        console.print_json([vars(structure) for structure in structures])
    elif structures:
        rows = (
            (structure.title, structure.name, f"{structure.probability:.0%}")
            for structure in structures
        )
        console.print_table(["place", "name", "probability"], rows)
    else:
        console.say(
            "No named structure lies at this point. It is outside the body, or in the tissue between organs."
        )
