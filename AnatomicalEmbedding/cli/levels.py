"""anatemb levels: the level of every vertebra, disc, rib and slice of scans."""

from __future__ import annotations

import argparse

from . import console
from .scans import Scans

COLUMNS = ("scan", "place", "kind", "slice", "r", "a", "s", "probability", "remark")
SLICE_COLUMNS = ("slice", "s", "level", "probability", "remark")


def add_to(commands: argparse._SubParsersAction) -> None:
    parser = commands.add_parser(
        "levels",
        help="number the vertebrae, discs, ribs and slices of scans",
        description="Numbers the vertebrae, discs and ribs of every SCAN. Writes levels.csv, and for each scan "
        "NAME.levels.mrk.json (coloured points, opens in Slicer), NAME.slices.csv (the level of each slice; slices are "
        "counted from 0) and NAME.levels.html (a page with pictures). A level that is not certain names both possible "
        "levels. With --dicom, NAME.sr.dcm is a DICOM report of the points.",
    )
    parser.add_argument("scans", nargs="+", metavar="SCAN", help=console.SCANS_HELP)
    console.complete(parser, run, "output", "report", "dicom", series=True)


def run(options: argparse.Namespace) -> None:
    console.check_report(options)
    console.check_folder(options.output)
    model = console.open_model(options)
    from ..reports.level_pages import write_levels_report
    from ..scan.markups import write_file
    from ..words import PlaceFinder, shipped_atlas
    from ..words.scan_levels import KINDS, find_levels

    atlas = shipped_atlas(model.weights_hash, model.path)
    scans, rows, answers, written = Scans(options), [], [], []
    console.make_folder(options.output)
    for path, name, volume, embedding in scans.embedded(model):
        with scans.skipping():
            found = find_levels(PlaceFinder(embedding, volume, atlas), volume)
            console.say(f"{name}: {found.basis}.", options.json)
            at = {p: p.point_ras.round(1).tolist() for p in (*found.places, *found.slices)}
            places = [(p.name, p.kind, p.slice, *at[p], p.probability, p.remark) for p in found.places]
            slices = [(p.slice, at[p][2], p.level, p.probability, p.remark) for p in found.slices]
            rows += [(path, *place) for place in places]
            records = console.as_records(COLUMNS[1:], places), console.as_records(SLICE_COLUMNS, slices)
            answers.append({"scan": str(path), "basis": found.basis, "places": records[0], "slices": records[1]})
            marks, table = (options.output / f"{name}.{end}" for end in ("levels.mrk.json", "slices.csv"))
            write_file(marks, found.markups())
            console.write_table(table, SLICE_COLUMNS, slices)
            written += [marks, table, *scans.write_points_report(name, found.points(*KINDS))]
            if not options.no_report:
                written.append(write_levels_report(options.output / f"{name}.levels.html", volume, name, found))
    written += scans.write_table("levels", COLUMNS, rows)
    shown = [(scans.names[str(row[0])], *row[1:]) for row in rows if row[2] == "vertebra"]
    scans.finish({"scans": answers}, (COLUMNS, shown) if shown else None, written)
