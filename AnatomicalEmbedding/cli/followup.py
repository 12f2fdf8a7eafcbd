"""anatemb followup: places of a prior's lesions in a patient's other scans, as a record to confirm and go on with."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from datetime import date, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from ..errors import AnatomicalEmbeddingError, PointsError
from ..followup.lesions import PROPOSED, Study
from ..followup.record import FollowUp
from .console import (
    add_json_option,
    add_model_options,
    add_series_option,
    open_model,
    print_json,
    print_table,
    progress_bar,
    read_scan,
    say,
    unique_names,
)

if TYPE_CHECKING:
    from ..volume import Volume

_NAME = "patient"


def add_to(commands: argparse._SubParsersAction) -> None:
    parser = commands.add_parser(
        "followup",
        help="propose the places of a prior's lesions in a patient's other scans",
        description="Proposes the place of each lesion of PRIOR in every CURRENT scan, and writes the record of the "
        "follow-up, a table and a page. Nothing in it counts before a person has confirmed it: open the record in "
        "Slicer (Lesion Follow-up) or the viewer. All coordinates are RAS mm.",
    )
    parser.add_argument("prior", type=Path, metavar="PRIOR", help="CT file or DICOM folder that the lesions are in")
    parser.add_argument(
        "lesions",
        type=Path,
        metavar="LESIONS",
        help="lesions in PRIOR: .mrk.json with points, or with lines along their long axes; or .csv with label,r,a,s",
    )
    parser.add_argument(
        "current", type=Path, nargs="+", metavar="CURRENT", help="the patient's other scans, earlier ones too"
    )
    parser.add_argument("-o", "--output", type=Path, required=True, metavar="DIR", help="folder for the results")
    parser.add_argument(
        "--record",
        type=Path,
        metavar="FILE",
        help="patient.followup.json to go on from; what a person has said in it stays",
    )
    parser.add_argument(
        "--date",
        action="append",
        default=[],
        metavar="YYYY-MM-DD",
        help="when PRIOR and each CURRENT were taken, in that order; read from DICOM where it is not given",
    )
    parser.add_argument("--no-report", action="store_true", help="leave the page with pictures out")
    parser.add_argument(
        "--sr", action="store_true", help="also a DICOM structured report (TID 1500) of each study that is DICOM"
    )
    parser.add_argument(
        "--effort", choices=("fast", "standard", "thorough"), default="standard", help="how far matching goes"
    )
    add_series_option(parser)
    add_json_option(parser)
    add_model_options(parser)
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> None:
    from ..followup.export import CSV, HTML, RECORD, SR, export
    from ..followup.lesion_lists import mark_lesions, read_lesions
    from ..followup.proposing import find_places
    from ..followup.record_file import read_record

    paths = [options.prior, *options.current]
    dates = _dates(options.date, len(paths))
    lesions = read_lesions(options.lesions)
    record = read_record(options.record) if options.record is not None else FollowUp()
    if not options.no_report:
        from ..report import check_packages

        check_packages()
    volumes: dict[str, Volume] = {}
    dicom: dict[str, Path] = {}
    studies = []
    for path, name, day in zip(paths, unique_names(paths), dates, strict=True):
        volume = read_scan(path, options.series)
        study = _study(path, name, day, options.series)
        if study.key in volumes:
            raise AnatomicalEmbeddingError(f"{path}: is the same scan as another one; give each scan once.")
        volumes[study.key] = volume
        if study.series_uid:
            dicom[study.key] = path if path.is_dir() else path.parent
        studies.append(study)
    prior = studies[0].key
    _check_inside(volumes[prior], options.prior, [each.point_ras for each in lesions])
    record = mark_lesions(record.with_studies(_in_order(record.studies, studies)), prior, lesions)
    model = open_model(options)
    maps = {}
    for key, volume in volumes.items():
        with progress_bar(volume.name, options.json) as progress:
            maps[key] = model.embed(volume, progress)
    found = find_places(record, [study.key for study in studies[1:]], maps, options.effort)
    record = found.put_into(record)
    kinds = {CSV, RECORD} if options.no_report else {CSV, RECORD, HTML}
    kinds |= {SR} if options.sr else set()
    exported = export(record, options.output, volumes, dicom, _NAME, kinds)
    reasons = [why for of_study in found.reasons.values() for why in of_study.values()]
    if options.json:
        print_json(_as_json(record, reasons, exported.written))
        return
    _print_cells(record)
    for line in (*reasons, *exported.notes):
        say(line)
    say(f"{len(record.unreviewed())} places are proposals: nothing of them counts until a person confirms it.")
    for path in exported.written:
        say(f"wrote {path}")


def _dates(given: Sequence[str], count: int) -> list[date | None]:
    if given and len(given) != count:
        raise AnatomicalEmbeddingError(f"--date: {len(given)} dates for {count} scans; give one for each, PRIOR first.")
    try:
        return [date.fromisoformat(text) for text in given] or [None] * count
    except ValueError as error:
        raise AnatomicalEmbeddingError(f"--date: {error}; write 2024-03-01.") from error


def _study(path: Path, name: str, day: date | None, series: Sequence[str]) -> Study:
    """The study of a scan. A DICOM series is known by its UID, a file by its name."""
    from ..dicom import describe_series, is_dicom_file, list_series

    if not path.is_dir() and not is_dicom_file(path):
        return Study(name, name, day)
    held = {found.uid for found in list_series(path)} if path.is_dir() and series else set()
    about = describe_series(path, next((uid for uid in series if uid in held), None))
    if day is None and about.date:
        try:
            day = datetime.strptime(about.date, "%Y%m%d").date()
        except ValueError:
            day = None
    return Study(about.uid, about.description or name, day, about.study_uid, about.uid)


def _in_order(known: Sequence[Study], given: Sequence[Study]) -> list[Study]:
    """All studies, by date where all have one; else those of the record first, then as they were given."""
    studies = {study.key: study for study in known}
    for study in given:
        before = studies.get(study.key)
        studies[study.key] = before if before is not None and study.date is None else study
    if all(study.date is not None for study in studies.values()):
        return sorted(studies.values(), key=lambda study: study.date)
    return list(studies.values())


def _check_inside(volume: Volume, path: Path, points_ras: Sequence[Sequence[float]]) -> None:
    inside = volume.contains(np.array(points_ras))
    if not inside.all():
        number = int(np.argmin(inside))
        place = ", ".join(f"{x:.1f}" for x in points_ras[number])
        raise PointsError(
            f"lesion {number + 1} at ({place}) RAS mm lies outside {path}; check that the list belongs to this scan."
        )


def _print_cells(record: FollowUp) -> None:
    from ..followup.table import rows

    shown = []
    for row in rows(record):
        found = row.finding
        if found is None:
            continue
        place = ("", "", "") if found.point_ras is None else tuple(f"{x:.1f}" for x in found.point_ras)
        error = found.guess.expected_error_mm if found.guess is not None and found.state == PROPOSED else None
        shown.append([row.lesion.label, row.study.label, *place, row.status, "" if error is None else f"{error:.0f}"])
    print_table(["lesion", "study", "R mm", "A mm", "S mm", "status", "error mm"], shown)


def _as_json(record: FollowUp, reasons: list[str], written: Sequence[Path]) -> dict[str, object]:
    from ..followup.record_file import to_json

    return {"record": to_json(record), "without_a_place": reasons, "files": [str(path) for path in written]}
