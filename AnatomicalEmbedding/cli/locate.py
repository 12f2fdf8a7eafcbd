"""anatemb locate: boxes of structures in scans, as files that open in Slicer and a table."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from ..errors import AnatomicalEmbeddingError
from . import console
from .box_options import BoxFinder, add_box_options, finish, note_failure, read_all

if TYPE_CHECKING:
    import numpy as np

    from ..structures.locating import Located

COLUMNS = (
    "scan", "structure", "status", "low_r", "low_a", "low_s", "high_r", "high_a", "high_s", "present", "cut",
    "remarks",
)  # fmt: skip
_TABLE_NAME = "boxes.csv"


def add_to(commands: argparse._SubParsersAction) -> None:
    parser = commands.add_parser(
        "locate",
        help="boxes of organs and other structures in scans",
        description="Finds structures in every SCAN, by the shipped library or by examples of yours. Writes "
        "NAME.boxes.mrk.json (opens in Slicer as boxes) and NAME.html for each scan, and boxes.csv. "
        "Boxes are RAS mm, grown for the chosen recall; those of absent structures are not written.",
    )
    add_box_options(parser)
    parser.add_argument("--no-report", action="store_true", help="leave the pictures out")
    console.complete(parser, run, series=True)


def run(options: argparse.Namespace) -> None:
    from ..reports.boxes import write_box_report
    from ..scan.boxes import write_rois

    console.check_report(options)
    console.check_folder(options.output)
    scans = console.find_scans(options)
    finder, failed, rows, written, pages = BoxFinder(options), [], [], [], []
    console.make_folder(options.output)
    for path, name, volume, of in read_all(scans, failed):
        try:
            found = finder.locate(volume)
        except AnatomicalEmbeddingError as error:
            note_failure(error, failed, of)
            continue
        boxes = {n: finder.box(located) for n, located in found.items() if located.status != "absent"}
        if boxes:
            written.append(options.output / f"{name}.boxes.mrk.json")
            write_rois(written[-1], boxes, {n: _described(found[n], options.recall) for n in boxes})
        rows += [_row(path, located, boxes.get(n)) for n, located in found.items()]
        if not options.no_report:
            pages.append(write_box_report(options.output / f"{name}.html", volume, name, found, boxes))
    written += pages
    if rows:
        written.append(options.output / _TABLE_NAME)
        console.write_table(written[-1], COLUMNS, rows)
    if options.json:
        console.print_json(
            {"boxes": console.as_records(COLUMNS, rows), "files": list(map(str, written)), "skipped": failed}
        )
    else:
        names = {source.label: name for name, source in scans.items()}
        table = [[names[str(row[0])], *map(str, row[1:9])] for row in rows]
        console.print_table(list(COLUMNS[:9]), table)
        for path in written:
            console.say(f"wrote {path}")
    finish(failed, rows)


def _described(located: Located, recall: float) -> str:
    cut = f", cut at its {' and '.join(located.cut)} side" if located.cut else ""
    return f"{located.status}{cut}; grown for a recall of {recall:g}"


def _row(path: str, located: Located, box: np.ndarray | None) -> list[object]:
    corners = [""] * 6 if box is None else [round(float(x), 2) for x in box.ravel()]
    about = [round(located.present, 2), " ".join(located.cut), "; ".join(located.remarks)]
    return [path, located.name, located.status, *corners, *about]
