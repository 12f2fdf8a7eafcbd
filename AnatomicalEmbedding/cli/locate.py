"""anatemb locate: find boxes of structures in scans; write files that Slicer opens, and a table."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from ..errors import AnatomicalEmbeddingError
from . import arguments, console
from .scans import Scans

if TYPE_CHECKING:
    from ..embedding.inference import Model
    from ..structures.box_finder import BoxFinder, StructureBox

BOX_COLUMNS = (
    *("scan", "structure", "status"),
    *("low_r", "low_a", "low_s", "high_r", "high_a", "high_s"),
    *("present", "cut", "remarks"),
)


def add_to(commands: argparse._SubParsersAction) -> None:
    parser = commands.add_parser(
        "locate",
        help="find boxes of organs and other structures in scans",
        description="Finds structures in every SCAN, with the shipped library or with your own examples. Writes "
        "NAME.boxes.mrk.json (opens in Slicer as boxes) and NAME.html for each scan, and boxes.csv for all scans. "
        "Boxes are in RAS mm. Each box is enlarged until it is expected to hold the fraction of the structure given "
        "with --recall. An absent structure has no box. With --dicom, NAME.boxes.dcm is a DICOM SEG with the boxes.",
    )
    add_box_options(parser)
    arguments.complete(parser, run, "scans", "output", "report", "dicom", "series")


def add_box_options(parser: argparse.ArgumentParser, default: str = "all") -> None:
    """Add the options that choose structures and the size of boxes.

    default: which structures the command uses if none are named, for the help.
    """
    names = f"names of structures (see `anatemb structures list`); default: {default}"
    parser.add_argument("--structures", metavar="A,B,...", help=names)
    arguments.add_path(
        parser, "--library", "FILE", "structure library (default: the library of the weights)"
    )
    examples = (
        "folder of your own examples, used instead of the library: scans NAME.nii.gz or DICOM folders NAME, each with "
        "NAME.seg.nii.gz and NAME.labels.json, with NAME.seg.dcm (DICOM SEG or RTSTRUCT), or with boxes drawn in "
        "Slicer and saved as NAME.STRUCTURE.roi.mrk.json"
    )
    arguments.add_path(parser, "--examples", "DIR", examples)
    help_text = "fraction of a structure that its box is expected to hold, 0 to 1 (default: 0.95)"
    parser.add_argument("--recall", type=float, default=0.95, metavar="R", help=help_text)


def open_finder(
    model: Model,
    recall: float,
    structures: str | None,
    library: Path | None = None,
    examples: Path | None = None,
) -> BoxFinder:
    """Make a BoxFinder from options.

    Args:
        model: the weights.
        recall: fraction of a structure that its box is expected to hold.
        structures: names separated by commas, or None for all structures.
        library: file of a structure library; None for the library of the weights.
        examples: folder of the user's examples, used instead of the library.
    """
    from ..structures.box_finder import BoxFinder, open_library

    names = arguments.names_in(structures) or None
    if structures and not names:
        raise AnatomicalEmbeddingError(
            f"--structures {structures}: contains no name; write names, such as --structures liver,spleen."
        )
    model_library = open_library(model.weights_hash, model.name, library, model.path)
    if examples is None:
        return BoxFinder.by_library(model_library, names, recall)
    return BoxFinder.by_folder(
        examples, model, model_library.example_margins, names, recall, console.warn
    )


def run(options: argparse.Namespace) -> None:
    from ..dicom.segmentations import write_box_seg
    from ..reports.scan_pages import write_box_report
    from ..scan.boxes import write_rois

    console.check_output(options)
    scans = Scans(options)
    model = console.open_model(options)
    finder = open_finder(
        model, options.recall, options.structures, options.library, options.examples
    )
    console.make_folder(options.output)
    rows = []
    written = []
    pages = []
    for path, name, volume, embedding in scans.embedded(model):
        with scans.skipping():
            structures = finder.find(embedding)
            boxes = {n: box.box_ras for n, box in structures.items() if box.box_ras is not None}
            if boxes and scans.series is not None:
                seg = options.output / f"{name}.boxes.dcm"
                write_box_seg(boxes, volume.shape, volume.ijk_to_ras, scans.series, seg)
                written.append(seg)
            if boxes:
                rois = options.output / f"{name}.boxes.mrk.json"
                descriptions = {n: _description(structures[n], options.recall) for n in boxes}
                write_rois(rois, boxes, descriptions)
                written.append(rois)
            rows += [box_row(path, structure) for structure in structures.values()]
            if not options.no_report:
                page = options.output / f"{name}.html"
                pages.append(write_box_report(page, volume, name, structures))
    written += [*pages, *scans.write_table("boxes", BOX_COLUMNS, rows)]
    table = [[scans.names[str(row[0])], *row[1:9]] for row in rows]
    scans.finish(
        {"boxes": console.as_records(BOX_COLUMNS, rows)}, (BOX_COLUMNS[:9], table), written
    )


def _description(structure: StructureBox, recall: float) -> str:
    """Return what Slicer shows about a box."""
    sides = " and ".join(structure.located.cut)
    cut = f", cut at its {sides} side" if sides else ""
    return f"{structure.status}{cut}; box enlarged for a recall of {recall:g}"


def box_row(path: str, structure: StructureBox) -> list[object]:
    """Return a row of boxes.csv, with the columns BOX_COLUMNS. path: of the scan."""
    corners = console.coordinates(structure.box_ras, 6)
    located = structure.located
    details = [round(located.present, 2), " ".join(located.cut), "; ".join(located.remarks)]
    return [path, structure.name, structure.status, *corners, *details]
