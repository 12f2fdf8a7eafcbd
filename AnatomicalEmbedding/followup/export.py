"""Write the files of a follow-up: a table (CSV), a page (HTML), DICOM structured reports, and the record."""

import re
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from pathlib import Path

from ..errors import AnatomicalEmbeddingError
from ..files import free_name
from ..scan.volume import Volume
from .dicom_sr import write_sr
from .record import FollowUp
from .record_file import SUFFIX, write_record
from .report_page import write_page
from .table import write_csv

CSV, HTML, SR, RECORD = "csv", "html", "sr", "record"


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
    kinds = set(kinds)
    sources = sources or {}
    files: list[tuple[str, str, Callable[[Path], object]]] = [
        (CSV, f"{name}.csv", lambda path: write_csv(path, record)),
        (HTML, f"{name}.html", lambda path: write_page(path, record, volumes)),
        (RECORD, f"{name}{SUFFIX}", lambda path: write_record(path, record)),
    ]
    for key, file_name in sr_names(record, name).items():
        files.append((SR, file_name, partial(write_sr, record, key, sources.get(key, ()))))
    written: list[Path] = []
    notes: list[str] = []
    for kind, file_name, write in files:
        if kind in kinds:
            try:
                left_out = write(Path(folder, file_name))
            except AnatomicalEmbeddingError as error:
                notes.append(f"{file_name} was not written: {error}")
            else:
                written.append(Path(folder, file_name))
                notes.extend(left_out if isinstance(left_out, tuple) else ())
    if not written:
        raise AnatomicalEmbeddingError(
            notes[0]
            if notes
            else "no kind of file was chosen; choose at least one kind, then export."
        )
    return written, notes


def sr_names(record: FollowUp, name: str) -> dict[str, str]:
    """Return the names of the structured reports: study key -> file name."""
    names: dict[str, str] = {}
    for study in record.studies:
        label = re.sub(r"[^\w.-]+", "-", study.label).strip(".-") or "study"
        names[study.key] = free_name(
            f"{name}-{label}", {used_name.casefold() for used_name in names.values()}
        )
    return {key: f"{file_name}.sr.dcm" for key, file_name in names.items()}
