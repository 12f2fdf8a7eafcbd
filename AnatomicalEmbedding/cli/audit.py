"""anatemb audit: rank the labels of a data set that are probably wrong."""

import argparse
import json
from collections import Counter

from ..files import write_table, write_text
from . import arguments, console

COLUMNS = ("scan", "label", "problem", "score", "detail")
_MOST_CARDS = 400  # more findings are listed in audit.csv only
_MOST_ROWS = 20  # findings printed on the terminal


def add_to(commands: argparse._SubParsersAction) -> None:
    parser = commands.add_parser(
        "audit",
        help="find labels of a data set that are probably wrong",
        description="Checks the labels of a data set: sides, levels, exchanged names, stray pieces, missing and cut "
        "labels, overlaps, volumes, mirrored scans, geometry and duplicates. Writes audit.html (look at these first), "
        "audit.csv and audit.json. Ends with exit code 1 if a finding has the score of --limit or more, or a scan "
        "could not be audited. If an audit was stopped, the same command continues it.",
    )
    layouts = "folder: nnU-Net, TotalSegmentator, NAME.seg.nii.gz with NAME.labels.json, or DICOM SEG or RTSTRUCT"
    arguments.add_path(parser, "dataset", "DATASET", layouts)
    share = arguments.number(float, lambda value: 0 < value <= 1, "a number above 0, at most 1")
    help_text = "least score of an error (default: 0.5)"
    parser.add_argument("--limit", type=share, default=0.5, metavar="SCORE", help=help_text)
    parser.add_argument(
        "--labels-only", action="store_true", help="do not read the scans; much faster, finds less"
    )
    arguments.complete(parser, run, "output", "report", model=False)
    arguments.add_workers(parser.add_argument_group("workers"), 1)


def run(options: argparse.Namespace) -> int:
    console.check_output(options)
    from ..audit.dataset import list_entries
    from ..audit.running import audit
    from ..cohort.work import Plan
    from ..reports.page import fill_page

    plan = Plan(options.model, options.device, options.workers, options.memory_bytes)
    with console.progress_lines(options.dataset.name, options.json) as progress:
        records = audit(
            list_entries(options.dataset), options.output, plan, options.labels_only, progress
        )
    findings = [
        {"scan": record["name"]} | finding for record in records for finding in record["findings"]
    ]
    # the highest score first; findings of equal score by the name of their scan
    findings.sort(key=lambda finding: (-finding["score"], finding["scan"]))
    wrong = [finding for finding in findings if finding["score"] >= options.limit]
    skipped = [
        {"scan": record["name"], "reason": record["error"]} for record in records if record["error"]
    ]
    values = {
        "scans": len(records),
        "limit": options.limit,
        "clean": len(records) - len(skipped) - len({finding["scan"] for finding in wrong}),
        "counts": Counter(finding["problem"] for finding in wrong),
        "findings": [
            {key: finding[key] for key in finding if key != "pictures"} for finding in findings
        ],
        "skipped": skipped,
    }
    written = [options.output / "audit.csv", options.output / "audit.json"]
    rows = [[finding[column] for column in COLUMNS] for finding in findings]
    write_table(written[0], COLUMNS, rows)
    write_text(written[1], json.dumps(values, indent=1))
    if not options.no_report:
        page = options.output / "audit.html"
        written.append(
            fill_page(page, "reports/audit.html.j2", cards=findings[:_MOST_CARDS], **values)
        )
    for skipped in values["skipped"]:
        console.warn(f"not audited: {skipped['reason']}")
    if options.json:
        console.print_json(values | console.as_files(written))
    else:
        console.print_table(COLUMNS, rows[: min(len(wrong), _MOST_ROWS)])
        console.say(
            f"{len(records)} scans; {len(wrong)} findings with a score of {options.limit:g} or more"
        )
        console.say_written(written)
    return int(bool(wrong or values["skipped"]))  # exit code 1: the data set needs a look
