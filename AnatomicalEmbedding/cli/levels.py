"""anatemb levels: the level of every vertebra, disc, rib and slice of scans."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..files import write_table
from . import arguments, console
from .scans import Scans

if TYPE_CHECKING:
    from ..scan.volume import Volume
    from ..words import Place
    from ..words.scan_levels import ScanLevels

COLUMNS = ("scan", "place", "slice", "r", "a", "s", "probability", "remark")


def add_to(commands: argparse._SubParsersAction) -> None:
    parser = commands.add_parser(
        "levels",
        help="number the vertebrae, discs, ribs and slices of scans",
        description="Numbers the vertebrae, discs and ribs of every SCAN. Writes levels.csv, and for each scan "
        "NAME.levels.mrk.json (coloured points, opens in Slicer), NAME.slices.csv (the level of each slice; slices are "
        "counted from 0) and NAME.levels.html (pictures of each vertebra). If a level is not certain, both possible "
        "levels are named. With --dicom, NAME.sr.dcm is a DICOM report of the points.",
    )
    arguments.complete(parser, run, "scans", "output", "report", "dicom", "series")


def run(options: argparse.Namespace) -> None:
    console.check_output(options)
    model = console.open_model(options)
    from ..words import PlaceFinder, shipped_atlas
    from ..words.scan_levels import VERTEBRA, SliceLevel, find_levels

    atlas = shipped_atlas(model.weights_hash, model.path)
    scans = Scans(options)
    rows = []
    answers = []
    written = []
    for path, name, volume, embedding in scans.embedded(model):
        with scans.skipping():
            levels = find_levels(PlaceFinder(embedding, volume, atlas), volume)
            console.say(f"{name}: {levels.basis}.", options.json)
            scan_rows = [_row(path, k, place) for k, place in levels.places]
            places = console.as_records(COLUMNS, scan_rows)
            slices = console.as_records(SliceLevel._fields, levels.slices)
            written += _write(scans, name, volume, levels, options)
            rows += scan_rows
            answers.append(
                {"scan": str(path), "basis": levels.basis, "places": places, "slices": slices}
            )
    written += scans.write_table("levels", COLUMNS, rows)
    vertebrae = [row for row in rows if row[1].startswith(VERTEBRA)]
    table_rows = [(scans.names[str(path)], *columns) for path, *columns in vertebrae]
    scans.finish({"scans": answers}, (COLUMNS, table_rows) if table_rows else None, written)


def _row(path: str, number: int, place: Place) -> tuple[Any, ...]:
    """Return a row of levels.csv. number: of the slice that shows the place, from 0."""
    point_ras = place.point_ras.round(1).tolist()
    return (path, place.name, number, *point_ras, round(place.probability, 3), place.doubt)


def _write(
    scans: Scans, name: str, volume: Volume, levels: ScanLevels, options: argparse.Namespace
) -> list[Path]:
    """Write the levels of one scan. Returns the paths of the files."""
    from ..reports.scan_pages import write_places_report
    from ..scan.markups import write_file
    from ..words import points_of
    from ..words.scan_levels import VERTEBRA, SliceLevel

    marks = options.output / f"{name}.levels.mrk.json"
    write_file(marks, levels.markups())
    table = options.output / f"{name}.slices.csv"
    write_table(table, SliceLevel._fields, levels.slices)
    written = [marks, table, *scans.write_points_report(name, points_of(levels.named("")))]
    if not options.no_report:
        page = options.output / f"{name}.levels.html"
        written.append(write_places_report(page, volume, name, levels.named(VERTEBRA)))
    return written
