"""Reads the index of a folder of training data, and decides which licences are open.

DATA/index.csv lists the scans; DATA/labelmaps/index.csv, and the index of every other folder whose name begins with
`labelmaps`, list label maps without scans. Columns: `file` (a path next to the index), `licence`, `collection`,
`source`, and for scans `patient`. Scans in DATA/dev are never used for training.

A label map is NAME.seg.nii.gz with NAME.labels.json, or NAME.nii.gz in a folder with one labels.json for all its maps.
"""

import csv
import re
import shutil
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from ..errors import AnatomicalEmbeddingError
from ..scan.image_files import display_name
from ..structures.labelled_scans import patient_of, refuse_twins

INDEX = "index.csv"
LABEL_MAPS = "labelmaps*"
HELD_OUT = "dev"
_COLUMNS = ("file", "licence", "collection", "source")
# names of columns in indexes of repositories
_SYNONYMS = {"licence": "licence_as_found", "source": "repository"}
_OPEN = re.compile(
    r"public domain|\bCC ?0\b|\bCC[ -]BY\b|\bApache\b|\bMIT\b|\bBSD\b|\b3D Slicer licen[cs]e\b",
    re.IGNORECASE,
)
_CLOSED = re.compile(
    r"\b(NC|ND|SA)\b|non-?commercial|no-?derivatives|share-?alike|research|challenge|none stated|unknown|restricted|"
    r"do not (ship|redistribute)|\bmixed\b|evaluation",
    re.IGNORECASE,
)
# files that belong to a scan or to a label map
_BESIDE = (".seg.nii.gz", ".labels.json", ".landmarks.json")


@dataclass(frozen=True)
class DataEntry:
    """One row of an index. path: an existing file or folder. patient: "" if the index does not state the patient."""

    path: Path
    licence: str
    collection: str
    source: str
    patient: str = ""

    @property
    def name(self) -> str:
        """The name of the scan or of the label map, without suffix."""
        return display_name(self.path).removesuffix(".seg")

    @property
    def person(self) -> str:
        """The patient; if the index does not state the patient, the name without the time point."""
        return self.patient or patient_of(self.name)

    @property
    def is_open(self) -> bool:
        return is_open(self.licence)

    @property
    def label_names(self) -> Path:
        """The file with the names of the labels: NAME.labels.json, or labels.json for all label maps of the folder."""
        names = self.path.with_name(f"{self.name}.labels.json")
        shared = self.path.with_name("labels.json")
        return shared if shared.is_file() and not names.is_file() else names

    @property
    def is_labelled(self) -> bool:
        """Whether a label map lies next to the scan."""
        return self.path.with_name(f"{self.name}.seg.nii.gz").is_file()


def is_open(licence: str) -> bool:
    """Decide whether a licence, as an index states it, permits any use if the source is named.

    Open are public domain, CC0, CC BY, Apache, MIT, BSD and the 3D Slicer licence. A licence that also states a limit,
    such as NC, ND, SA, "research only", "challenge", "none stated", "unknown" or "restricted", is not open. A licence
    that the function does not know is not open.
    """
    return bool(_OPEN.search(licence)) and not _CLOSED.search(licence)


def read_data(data: Path, terms: str) -> tuple[list[DataEntry], list[DataEntry]]:
    """Return the scans and the label maps for training, sorted by name.

    terms: "open" for entries with an open licence only, "all" for all entries. Scans in DATA/dev, and other scans of
    the same patients, are left out. Raises AnatomicalEmbeddingError if an index is missing or wrong, or names a file
    that does not exist, or if no entry is left.
    """
    listed = _read_index(data / INDEX)
    held_out = [entry for entry in listed if entry.path.is_relative_to(data / HELD_OUT)]
    patients = {entry.person for entry in held_out}
    scans = [entry for entry in listed if entry.person not in patients]
    maps = []
    for path in sorted(data.glob(f"{LABEL_MAPS}/{INDEX}")):
        maps += _read_index(path)
    if terms != "all":
        scans = [entry for entry in scans if entry.is_open]
        maps = [entry for entry in maps if entry.is_open]
    for entries in (scans, maps):
        entries.sort(key=lambda entry: entry.name)
    if not scans and not maps:
        raise AnatomicalEmbeddingError(
            f"{data / INDEX}: lists no data with open terms; add data, or use --terms all."
        )
    for entries in (scans, maps):
        refuse_twins([entry.name for entry in entries])
    return scans, maps


def _read_index(path: Path) -> list[DataEntry]:
    """Read one index.csv. Raises AnatomicalEmbeddingError if it is missing, lacks a column, or lists a missing file.

    A column may have its name in _SYNONYMS. A row without a collection gets the folder of its file.
    """
    try:
        with path.open(newline="", encoding="utf-8") as table:
            rows = list(csv.DictReader(table))
    except FileNotFoundError:
        raise AnatomicalEmbeddingError(
            f"{path}: is missing; write a table with the columns {', '.join(_COLUMNS)} and patient."
        ) from None
    except (UnicodeDecodeError, csv.Error) as error:
        raise AnatomicalEmbeddingError(
            f"{path}: is not a table ({error}); save it as CSV in UTF-8."
        ) from None
    entries = []
    for row in rows:
        file, licence, collection, source, patient = (
            row.get(name) or row.get(_SYNONYMS.get(name, ""), "") for name in (*_COLUMNS, "patient")
        )
        collection = collection or str(Path(file).parent)
        for name, cell in zip(_COLUMNS, (file, licence, collection, source), strict=True):
            if not cell:
                raise AnatomicalEmbeddingError(f"{path}: a row has no {name}; fill in this column.")
        entry = path.parent / file
        if not entry.exists():
            raise AnatomicalEmbeddingError(
                f"{path}: lists {file}, which does not exist; correct the index."
            )
        entries.append(DataEntry(entry, licence, collection, source, patient))
    return entries


def link_label_maps(entries: Iterable[DataEntry], folder: Path) -> Path:
    """Fill a folder with NAME.seg.nii.gz and NAME.labels.json of label maps. Returns the folder."""
    folder.mkdir(parents=True, exist_ok=True)
    for entry in entries:
        _link(entry.path, folder / f"{entry.name}.seg.nii.gz")
        _link(entry.label_names, folder / f"{entry.name}.labels.json")
    return folder


def link_files(entries: Iterable[DataEntry], folder: Path) -> Path:
    """Fill a folder with links to scans and to their label files. Returns the folder.

    Where links are not possible, as on some file systems, the files are copied.
    """
    folder.mkdir(parents=True, exist_ok=True)
    for entry in entries:
        _link(entry.path, folder / entry.path.name)
        for suffix in _BESIDE:
            path = entry.path.with_name(entry.name + suffix)
            if path.exists():
                _link(path, folder / path.name)
    return folder


def _link(path: Path, link: Path) -> None:
    """Make a link to a file or folder, or a copy where links are not possible. An existing link stays."""
    if link.exists():
        return
    try:
        link.symlink_to(path.resolve(), path.is_dir())
    except OSError:
        copy = shutil.copytree if path.is_dir() else shutil.copy
        copy(path, link)


def spread(entries: Sequence[DataEntry], count: int) -> list[DataEntry]:
    """Choose at most `count` entries, evenly spaced, the same ones each time."""
    chosen = min(count, len(entries))
    return [entries[n * len(entries) // chosen] for n in range(chosen)]
