"""anatemb followup: propose the places of lesions in other scans of a patient. A person then confirms the places."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from ..errors import AnatomicalEmbeddingError
from ..followup.lesions import PROPOSED, Study
from ..followup.record import FollowUp
from . import arguments, console

if TYPE_CHECKING:
    from ..relations.relation import Relation
    from ..scan.volume import Volume

_NAME = "patient"


def add_to(commands: argparse._SubParsersAction) -> None:
    parser = commands.add_parser(
        "followup",
        help="propose where the lesions of one scan are in other scans of the same patient",
        description="Proposes the place of each lesion of PRIOR in every CURRENT scan. Writes the record of the "
        "follow-up, a table and a page. A proposal counts only after a person has confirmed it. To confirm proposals, "
        "open the record in 3D Slicer (module Lesion Follow-up). All coordinates are RAS mm.",
    )
    add = parser.add_argument
    arguments.add_path(
        parser, "prior", "PRIOR", "CT file or DICOM folder in which the lesions were marked"
    )
    arguments.add_path(
        parser,
        "lesions",
        "LESIONS",
        "lesions in PRIOR: a .mrk.json file with points, or with lines along the long axes; a .csv file with the "
        "columns label,r,a,s; or a DICOM SR with 3-D places",
    )
    arguments.add_path(
        parser, "current", "CURRENT", "other scans of the patient, earlier or later", nargs="+"
    )
    arguments.add_path(
        parser,
        "--record",
        "FILE",
        "record (.followup.json) to continue; a person's entries are kept",
    )
    add(
        "--date",
        action="append",
        default=[],
        metavar="YYYY-MM-DD",
        help="date of PRIOR; repeat the option for each CURRENT, in the order of the scans (default: the DICOM dates)",
    )
    help_text = "also write DICOM structured reports (TID 1500) for each scan that is DICOM: lesions, and proposals"
    add("--sr", "--dicom", action="store_true", dest="dicom", help=help_text)
    add("--store", metavar="URL", dest="store_url", help=arguments.STORE_HELP)
    arguments.complete(parser, run, "output", "report", "effort", "series")


class _PatientScans(NamedTuple):
    """The scans of the command. Dictionaries are by study key, PRIOR first. notes: sentences about the scans."""

    studies: list[Study]
    volumes: dict[str, Volume]
    paths: dict[str, Path]
    notes: list[str]

    @property
    def slices(self) -> dict[str, Path]:
        """The folder of the slices of each DICOM study."""
        folders = {}
        for study in self.studies:
            if study.series_uid:
                path = self.paths[study.key]
                folders[study.key] = path if path.is_dir() else path.parent
        return folders


def run(options: argparse.Namespace) -> None:
    from ..followup.lesion_lists import mark_lesions, read_lesions
    from ..followup.proposing import find_places
    from ..followup.record_file import read_record, to_json
    from ..followup.study_inputs import in_order
    from ..relations.one_patient import MappedScan
    from ..relations.relate import relate

    _refuse_overwriting(options)
    lesions = read_lesions(options.lesions)
    record = read_record(options.record) if options.record is not None else FollowUp()
    console.check_report(options)
    scans = _read_scans(options, record)
    prior, *current = scans.volumes
    names = [f"lesion {number}" for number in range(1, len(lesions) + 1)]
    points_ras = np.array([lesion.point_ras for lesion in lesions])
    console.check_inside(scans.volumes[prior], options.prior, names, points_ras)
    ordered, undated = in_order(record.studies, scans.studies)
    marked, left_out = mark_lesions(record.with_studies(ordered), prior, lesions)
    console.make_folder(options.output)
    notes = [*scans.notes, *undated, *left_out]
    for line in notes:
        console.say(line, options.json)
    model = console.open_model(options)
    maps = {
        key: console.embed(model, volume, options.json) for key, volume in scans.volumes.items()
    }
    refusals: dict[str, None] = {}  # sentences, each once, in order: the keys of a dictionary

    def relation_of(source: str, target: str) -> Relation:
        """Relate two studies, given by their keys; note if they do not show one patient."""
        relation = relate(
            MappedScan(scans.volumes[source], maps[source]),
            MappedScan(scans.volumes[target], maps[target]),
            same_patient=True,
            effort=options.effort,
            cache=model.cache,
        )
        if relation.refusal:
            pair_text = f"{scans.paths[source]} and {scans.paths[target]}"
            refusals[f"{pair_text}: {relation.refusal} Lesions are matched, and uncertain."] = None
        return relation

    record, missing = find_places(marked, current, maps, options.effort, relation_of)
    written, not_written = _write(record, scans, options)
    console.store(options, written)
    reasons = [reason for reasons in missing.values() for reason in reasons.values()]
    if options.json:
        results = {
            "record": to_json(record),
            "without_a_place": reasons,
            "notes": [*notes, *refusals, *not_written],
        }
        console.print_json(results | console.as_files(written))
        return
    _print_cells(record)
    for line in (*refusals, *reasons, *not_written):
        console.say(line)
    console.say(
        f"{len(record.unreviewed())} places are proposals. A proposal counts only after a person confirms it."
    )
    console.say_written(written)


def _refuse_overwriting(options: argparse.Namespace) -> None:
    """Raise AnatomicalEmbeddingError if the results would overwrite the list of lesions, or another record."""
    from ..followup.record_file import SUFFIX

    console.refuse_overwriting([options.lesions], [options.output / f"{_NAME}.csv"])
    path = options.output / f"{_NAME}{SUFFIX}"
    is_continued = options.record is not None and options.record.resolve() == path.resolve()
    if path.exists() and not is_continued:
        raise AnatomicalEmbeddingError(
            f"{path}: this record would be overwritten; to continue the record, add --record {path}; to "
            "start a new record, choose another output folder."
        )


def _read_scans(options: argparse.Namespace, record: FollowUp) -> _PatientScans:
    """Read the scans of the command, and recognise the studies that the record has already."""
    from ..followup.study_inputs import recognize
    from ..scan.volume import Volume

    paths = [options.prior, *options.current]
    dates = _dates(options.date, len(paths))
    series = [console.chosen_series(path, options.series) for path in paths]
    volumes = [
        console.noted(Volume.read(path, uid), str(path))
        for path, uid in zip(paths, series, strict=True)
    ]
    described = list(map(_describe, paths, series, volumes, dates))
    path_texts = list(map(str, paths))
    studies, notes = recognize(record.studies, described, path_texts, by_hand=bool(options.date))
    patient_ids = dict.fromkeys(volume.patient_id for volume in volumes if volume.patient_id)
    if len(patient_ids) > 1:  # only a warning, because anonymising may have changed the Patient IDs
        ids = ", ".join(patient_ids)
        notes.insert(
            0, f"WARNING: the scans have {len(patient_ids)} different Patient IDs ({ids})."
        )
    keys = [study.key for study in studies]
    volume_by_key = dict(zip(keys, volumes, strict=True))
    path_by_key = dict(zip(keys, paths, strict=True))
    return _PatientScans(studies, volume_by_key, path_by_key, notes)


def _write(
    record: FollowUp, scans: _PatientScans, options: argparse.Namespace
) -> tuple[list[Path], list[str]]:
    """Write the results. Returns their paths, and sentences about what could not be written."""
    from ..followup.export import CSV, HTML, RECORD, SR, export

    kinds = [CSV, RECORD]
    if not options.no_report:
        kinds.append(HTML)
    if options.dicom:
        kinds.append(SR)
    written, not_written = export(record, options.output, scans.volumes, scans.slices, _NAME, kinds)
    if options.dicom:
        written += _write_proposals(record, scans.slices, options.output)
    return written, not_written


def _dates(texts: Sequence[str], count: int) -> list[date | None]:
    """Return the dates that the user gave with --date, or None for each of `count` scans."""
    if texts and len(texts) != count:
        raise AnatomicalEmbeddingError(
            f"--date: {len(texts)} dates are given for {count} scans; give one date for each scan, PRIOR first."
        )
    try:
        return [date.fromisoformat(text) for text in texts] or [None] * count
    except ValueError as error:
        raise AnatomicalEmbeddingError(
            f"--date: a date is wrong ({error}); write each date as YYYY-MM-DD."
        ) from error


def _describe(path: Path, series: str | None, volume: Volume, day: date | None) -> Study:
    """Return the study of a scan. The study's key is the UID of its DICOM series or, for another file, the hash of its
    content."""
    from ..embedding.inference import volume_hash
    from ..followup.study_inputs import date_of
    from ..scan.dicom import describe_series, is_dicom_file

    if not path.is_dir() and not is_dicom_file(path):
        return Study(volume_hash(volume), volume.name, day)
    series_facts = describe_series(path, series)
    day = day or date_of(series_facts.date)
    name = series_facts.description or volume.name
    return Study(
        series_facts.uid or volume_hash(volume), name, day, series_facts.study_uid, series_facts.uid
    )


def _write_proposals(record: FollowUp, slices: Mapping[str, Path], folder: Path) -> list[Path]:
    """Write the proposals in each DICOM study as a report, whose points have the tracking UIDs of the lesions.

    slices: study key -> folder of the slices. Returns the paths of the reports.
    """
    from ..dicom.source import read_source
    from ..dicom.sr import write_points_report
    from ..followup.export import sr_names
    from ..followup.sr_codes import STATE_CODES
    from ..scan.points import PointList

    written = []
    for key, name in sr_names(record, _NAME).items():
        lesions = [lesion for lesion, study in record.unreviewed() if study.key == key]
        if key not in slices or not lesions:
            continue
        proposals = [lesion.findings[key] for lesion in lesions]
        points = PointList(
            tuple(lesion.label for lesion in lesions),
            np.array([proposal.point_ras for proposal in proposals]),
            (STATE_CODES[PROPOSED][2],) * len(proposals),
        )
        study = record.study(key)
        source = read_source(study.label, slices[key], study.series_uid)
        written.append(folder / name.replace(".sr.dcm", ".proposals.dcm"))
        errors = [proposal.guess.error_mm for proposal in proposals]
        uids = [lesion.tracking_uid for lesion in lesions]
        write_points_report(points, source, written[-1], errors, uids)
    return written


def _print_cells(record: FollowUp) -> None:
    """Print the table of the findings: where a person or the program places each lesion in each study."""
    from ..followup.table import rows

    cells = []
    for row in rows(record):
        finding = row.finding
        if finding is None:
            continue
        place = ["", "", ""]
        if finding.point_ras is not None:
            place = [f"{x:.1f}" for x in finding.point_ras]
        error = doubt = ""
        if finding.state == PROPOSED and finding.guess is not None:
            doubt = finding.guess.doubt.partition(":")[0]
            if finding.guess.error_mm is not None:
                error = f"{finding.guess.error_mm:.0f}"
        cells.append([row.lesion.label, row.study.label, *place, row.status, error, doubt])
    console.print_table(
        ["lesion", "study", "R mm", "A mm", "S mm", "status", "error mm", "doubt"], cells
    )
