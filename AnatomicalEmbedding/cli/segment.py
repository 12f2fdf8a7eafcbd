"""anatemb segment: train a segmenter on a few outlined scans, and run it on other scans."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from ..errors import AnatomicalEmbeddingError
from ..files import write_table
from . import arguments, console
from .scans import Scans

if TYPE_CHECKING:
    from ..dicom.source import SourceSeries
    from ..scan.sources import Source
    from ..segmentation.outlining import Outline, Outlines
    from ..segmentation.segmenter import Segmenter

PAGE_NAME = "outlines.html"
_SECONDS = 12  # usual time for one scan on two CPU cores
# ends of the names of the results
_SEGMENTS = ".seg.nrrd"
_DICOM = ".seg.dcm"
_NIFTI = (".seg.nii.gz", ".labels.json")


def add_to(commands: argparse._SubParsersAction) -> None:
    parser = commands.add_parser(
        "segment", help="outline organs in many scans, after training on a few outlined scans"
    )
    parts = parser.add_subparsers(title="steps", metavar="STEP", required=True)

    train = parts.add_parser(
        "train",
        help="train a segmenter on a folder of outlined scans",
        description="EXAMPLES contains scans NAME.nii.gz or DICOM folders NAME, each with NAME.seg.nii.gz and "
        "NAME.labels.json, or with NAME.seg.nrrd as 3D Slicer writes it, or with NAME.seg.dcm (DICOM SEG or RTSTRUCT). "
        "One scan is enough, five are better.",
    )
    add = train.add_argument
    arguments.add_path(train, "examples", "EXAMPLES", "folder of outlined scans")
    add(
        "--structures",
        metavar="A,B,...",
        help="structures to learn (default: all outlined structures)",
    )
    arguments.add_count(train, "--steps", 600, "training steps")
    add("--seed", type=arguments.at_least(0), default=0, help="random seed (default: 0)")
    arguments.complete(train, run_train, "output")

    run = parts.add_parser(
        "run",
        help="outline the structures in scans",
        description="Writes NAME.seg.nrrd for every SCAN (opens in 3D Slicer; with --dicom also NAME.seg.dcm, a DICOM "
        "SEG) with the names and labels of the examples, volumes.csv with the volume of each structure, and a page of "
        "pictures. In the table and on the page, outlines that most need a check come first. A structure that a scan "
        "does not show is reported as absent. A scan that cannot be used is reported and skipped. To continue an "
        "interrupted run, give the same command again.",
    )
    add = run.add_argument
    arguments.add_path(
        run, "--model", "RUN", "folder that `anatemb segment train` wrote", required=True
    )
    add(
        "--nifti",
        action="store_true",
        help="also write NAME.seg.nii.gz and NAME.labels.json, on the voxels of the scan",
    )
    arguments.complete(run, run_run, "scans", "output", "report", "dicom", "series", model=False)
    arguments.add_computing(run)


def run_train(options: argparse.Namespace) -> None:
    """Train a segmenter on outlined scans. After a signal, the segmenter so far is written."""
    from ..segmentation.examples import common_values, label_differences, read_examples
    from ..segmentation.segmenter import train_segmenter

    console.check_folder(options.output)
    names = arguments.names_in(options.structures) or None
    examples = read_examples(options.examples, names)
    values = common_values(examples)
    model = console.open_model(options)
    console.make_folder(options.output)
    numbered = sorted((value, name) for name, value in values.items())
    listed = ", ".join(f"{value} = {name}" for value, name in numbered)
    console.say(f"{len(examples)} examples, {len(values)} structures: {listed}", options.json)
    for sentence in label_differences(examples, values):
        console.warn(sentence)
    weights = str(Path(options.model).resolve()) if Path(options.model).is_file() else ""
    with console.progress_lines("training", options.json) as step:
        segmenter = train_segmenter(
            examples,
            model,
            options.output,
            options.seed,
            options.steps,
            weights,
            step,
            console.stop_on_signals(),
        )
    if options.json:
        console.print_json({"model": str(options.output), "structures": list(segmenter.names)})
    else:
        console.say(
            f"wrote {options.output}; run: anatemb segment run SCAN... --model {options.output} -o OUT"
        )


def run_run(options: argparse.Namespace) -> None:
    """Outline every scan, or take the outlines of an earlier run; write them, the table and the page."""
    from ..embedding.device import choose_device
    from ..reports.scan_pages import outline_card, write_outline_report
    from ..segmentation.outlining import COLUMNS, TABLE_NAME, outline, read_table, table_rows
    from ..segmentation.segmenter import load_segmenter

    console.check_output(options)
    console.use_threads(options)
    segmenter = load_segmenter(options.model, choose_device(options.device))
    model = console.open_model(options, segmenter.weights)
    segmenter.check(model.weights_hash, options.model)
    scans = Scans(options)
    console.make_folder(options.output)
    total = len(scans.sources)
    console.say(f"{total} scans: about {max(1, round(total * _SECONDS / 60))} min", options.json)
    ends = [_SEGMENTS]
    if options.dicom:
        ends.append(_DICOM)
    if options.nifti:
        ends += _NIFTI
    done: dict[str, Sequence[Outline]] = {}
    written = []
    pictures = []
    stored = read_table(options.output / TABLE_NAME)
    earlier = {path: outlines for path, outlines in stored.items() if path in scans.names}
    for path, name, volume in scans.read():
        with scans.skipping():
            results = _results(options.output, name, ends, scans.paths)
            outlines = _earlier_outlines(
                earlier.get(path, ()), results, scans.sources[name], options.model, segmenter
            )
            if outlines is None:
                finished = len(done) + len(scans.failed)
                with console.progress_lines(name, options.json, finished, total) as progress:
                    embedding = model.embed(volume, lambda share, step: progress(0.2 * share, step))
                    outlines = outline(
                        volume,
                        embedding,
                        segmenter,
                        lambda share, step: progress(0.2 + 0.8 * share, step),
                    )
                console.report_faults(volume, embedding)
                _write(options.output, name, outlines, ends, scans.series)
            written += results
            if not options.no_report:
                pictures.append(outline_card(volume, name, outlines))
            done[path] = outlines.outlines
            # written after every scan, so that an interrupted run can continue; `earlier` keeps rows of later scans
            rows = table_rows(list((earlier | done).items()))
            write_table(options.output / TABLE_NAME, COLUMNS, rows)
    # written again without the rows of scans that this run did not read
    rows = table_rows(list(done.items()))
    if rows:
        written.append(options.output / TABLE_NAME)
        write_table(written[-1], COLUMNS, rows)
    if pictures:
        written.append(write_outline_report(options.output / PAGE_NAME, pictures))
    named_rows = [[scans.names[str(row[0])], *row[1:5]] for row in rows]
    scans.finish(
        {"outlines": console.as_records(COLUMNS, rows)}, (COLUMNS[:5], named_rows), written
    )


def _results(folder: Path, name: str, ends: Sequence[str], inputs: Sequence[Path]) -> list[Path]:
    """Return the paths of one scan's result files. Raises AnatomicalEmbeddingError if a result file would overwrite an
    input file."""
    results = [folder / f"{name}{end}" for end in ends]
    if folder.resolve() in {
        link.parent.resolve() for path in inputs for link in (path, path.resolve())
    }:  # may hold drawn outlines
        drawn = [folder / f"{name}{end}" for end in (_SEGMENTS, _DICOM, *_NIFTI)]
        console.refuse_overwriting([*inputs, *drawn], results)
    return results


def _earlier_outlines(
    outlines: Sequence[Outline], results: list[Path], scan: Source, run: Path, segmenter: Segmenter
) -> Outlines | None:
    """Return the outlines that an earlier run wrote. None if a file of these outlines is missing, damaged, or older
    than the scan or the segmenter, or if the segmenter now outlines other structures.

    Args:
        outlines: rows of the table of results; () if the table does not have the scan.
        results: the files of the outlines, the .seg.nrrd first; at least one.
        scan: the scan.
        run: folder of the segmenter.
        segmenter: the segmenter.
    """
    from ..segmentation.outlining import Outlines
    from ..segmentation.segmenter import FILE_NAME
    from ..structures.segments import read_segments

    names = tuple(structure.name for structure in outlines)
    if names != segmenter.names or not all(path.is_file() for path in results):
        return None
    # the results must be newer than the scan and the segmenter
    changed_ns = max(scan.changed_ns, (run / FILE_NAME).stat().st_mtime_ns)
    if min(path.stat().st_mtime_ns for path in results) < changed_ns:
        return None
    try:
        labels = read_segments(results[0])
    except AnatomicalEmbeddingError:  # the file is damaged: outline the scan again
        return None
    labels = labels.renamed(labels.texts)  # names of the examples, not of our vocabulary
    return Outlines(labels, tuple(outlines)) if labels.values == segmenter.values else None


def _write(
    folder: Path, name: str, outlines: Outlines, ends: Sequence[str], series: SourceSeries | None
) -> None:
    """Write the outlines of one scan as the files NAME + `ends`. series: with --dicom, the images of the scan."""
    from ..dicom.segmentations import write_label_seg
    from ..structures.label_files import write_nifti
    from ..structures.segments import write_segments

    whole = folder / f"{name}{_SEGMENTS}"
    write_segments(whole, outlines.labels)
    if _NIFTI[0] in ends:
        write_nifti(folder, name, outlines.labels)
        console.report_overlaps(outlines.labels, folder / f"{name}{_NIFTI[0]}", whole)
    if series is not None:
        write_label_seg(outlines.labels, series, folder / f"{name}{_DICOM}")
