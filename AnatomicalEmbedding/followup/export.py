"""Write the files of a follow-up: a table (CSV), a page (HTML), DICOM structured reports, and the record."""

import re
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from ..errors import AnatomicalEmbeddingError
from ..files import free_name
from ..scan.volume import Volume
from .dicom_sr import write_sr
from .record import FollowUp
from .record_file import SUFFIX, write_record
from .report_page import write_page
from .table import write_csv

CSV = "csv"
HTML = "html"
SR = "sr"
RECORD = "record"


def export(
    record: FollowUp,
    folder: str | Path,
    volumes: Mapping[str, Volume] | None = None,
    sources: Mapping[str, str | Path | Iterable[str | Path]] | None = None,
    name: str = "follow-up",
    kinds: Iterable[str] = (CSV, HTML, SR, RECORD),
) -> tuple[list[Path], list[str]]:
    """Write NAME.csv, NAME.html and NAME.followup.json, and for each study a file NAME-STUDY.sr.dcm.

    Existing files are replaced. If a file cannot be written, the other files are still written.

    Args:
        volumes: study key -> scan, for the pictures of the page.
        sources: study key -> the DICOM slices of the study, or a folder that contains the slices. Structured reports
            need the slices.
        kinds: which of the files to write: CSV, HTML, SR (structured reports), RECORD.

    Returns:
        Two lists: the files that were written; sentences about entries that the structured reports leave out, and about
        files that were not written.

    Raises:
        AnatomicalEmbeddingError: the record has no lesion, or no file could be written.
    """
    if not record.lesions:
        raise AnatomicalEmbeddingError(
            "there is no lesion in this record yet; mark a lesion, then export."
        )
    sources = sources or {}
    files: list[tuple[str, str, Callable[[Path], Any]]] = [
        (CSV, f"{name}.csv", lambda path: write_csv(path, record)),
        (HTML, f"{name}.html", lambda path: write_page(path, record, volumes)),
        (RECORD, f"{name}{SUFFIX}", lambda path: write_record(path, record)),
    ]
    for key, file_name in sr_names(record, name).items():
        files.append((SR, file_name, partial(write_sr, record, key, sources.get(key, ()))))
    written = []
    notes = []
    chosen = set(kinds)
    for kind, file_name, write in files:
        if kind not in chosen:
            continue
        path = Path(folder, file_name)
        try:
            left_out = write(path)
        except AnatomicalEmbeddingError as error:
            notes.append(f"{file_name} was not written: {error}")
            continue
        written.append(path)
        if kind == SR:
            notes.extend(left_out)
    if written:
        return written, notes
    if notes:
        raise AnatomicalEmbeddingError(notes[0])
    raise AnatomicalEmbeddingError(
        "no kind of file was chosen; choose at least one kind, then export."
    )


def sr_names(record: FollowUp, name: str) -> dict[str, str]:
    """Return the names of the structured reports: study key -> file name."""
    names: dict[str, str] = {}
    for study in record.studies:
        label = re.sub(r"[^\w.-]+", "-", study.label).strip(".-") or "study"
        used_names = {used_name.casefold() for used_name in names.values()}
        names[study.key] = free_name(f"{name}-{label}", used_names)
    return {key: f"{file_name}.sr.dcm" for key, file_name in names.items()}
