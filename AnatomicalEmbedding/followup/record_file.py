"""Read and write follow-up records as .followup.json files. Positions are RAS mm.

The classes in `lesions` explain the entries, such as target, into, and guess (the result of matching). The format:

{"format": "anatomical-embedding follow-up", "version": 1,
 "studies": [{"key", "name", "date", "study_uid", "series_uid"}],
 "lesions": [{"id", "name", "site", "target", "nodal", "split_from", "tracking_uid",
              "findings": {study key: {"state", "point_ras", "into", "guess": {...}, "size": {...}, "query"}}}]}
"""

import json
import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import date
from functools import cache
from pathlib import Path
from types import NoneType
from typing import Any, get_args, get_origin, get_type_hints

from ..errors import AnatomicalEmbeddingError
from ..files import parse_json, write_text
from .lesions import MERGED, NO_SIZE, STATES, WITH_PLACE, Finding, Guess, Lesion, Measurement, Study
from .record import FollowUp

SUFFIX = ".followup.json"
FORMAT = "anatomical-embedding follow-up"
VERSION = 1
_fields_of = cache(get_type_hints)


def write_record(path: str | Path, record: FollowUp) -> None:
    """Write a record to one file. Raises AnatomicalEmbeddingError if this fails; an old file is then unchanged."""
    write_text(
        path, json.dumps(to_json(record), indent=1, ensure_ascii=False, allow_nan=False) + "\n"
    )


def read_record(path: str | Path) -> FollowUp:
    """Read a file written by `write_record`.

    Raises AnatomicalEmbeddingError, which names the file, if the file is missing or damaged, is not a record, or was
    written by a newer version of this program.
    """
    try:
        return from_json(parse_json(Path(path).read_text(encoding="utf-8-sig")))
    except FileNotFoundError as error:
        raise AnatomicalEmbeddingError(f"{path}: no such file; check the path.") from error
    except (OSError, ValueError) as error:
        raise AnatomicalEmbeddingError(
            f"{path}: is not JSON; give a {SUFFIX} file, or restore a backup."
        ) from error
    except AnatomicalEmbeddingError as error:
        raise AnatomicalEmbeddingError(f"{path}: {error}") from error


def to_json(record: FollowUp) -> dict[str, Any]:
    """Convert a record to JSON values. `from_json` restores the record."""
    studies = []
    for study in record.studies:
        day = None if study.date is None else study.date.isoformat()
        studies.append({**vars(study), "date": day})
    lesions = []
    for lesion in record.lesions:
        findings = {key: _finding_to_json(finding) for key, finding in lesion.findings.items()}
        lesions.append({**vars(lesion), "findings": findings})
    return {
        "format": FORMAT,
        "version": VERSION,
        "coordinates": "RAS mm",
        "studies": studies,
        "lesions": lesions,
    }


def from_json(document: Any) -> FollowUp:
    """Convert the JSON values of `to_json` back to a record. Unknown entries are ignored.

    Raises AnatomicalEmbeddingError if a value is wrong; the message names the lesion and the study of this value.
    """
    if not isinstance(document, dict) or document.get("format") != FORMAT:
        raise AnatomicalEmbeddingError(
            f"this is not a follow-up record; give a {SUFFIX} file that this program wrote."
        )
    if not isinstance(document.get("version"), int) or document["version"] > VERSION:
        raise AnatomicalEmbeddingError(
            "the record was written by a newer version of this program; update the program."
        )
    studies = [
        _understood(f"study {n}", _study, entry)
        for n, entry in enumerate(_list(document, "studies"), start=1)
    ]
    lesions = [
        _understood(f"lesion {n}", _lesion, entry)
        for n, entry in enumerate(_list(document, "lesions"), start=1)
    ]
    lesion_ids = {lesion.id for lesion in lesions}
    if len(lesion_ids) < len(lesions):
        raise AnatomicalEmbeddingError(
            "two lesions have the same id; give each lesion a different id."
        )
    for lesion in lesions:
        references = [lesion.split_from, *(finding.into for finding in lesion.findings.values())]
        for reference in references:
            if reference and reference not in lesion_ids - {lesion.id}:
                raise AnatomicalEmbeddingError(
                    f"lesion {lesion.id}: refers to the lesion {reference!r}, but there is no other lesion with this "
                    "id; restore a backup."
                )
    return FollowUp(lesions=tuple(lesions)).with_studies(studies)


def _understood(name: str, convert: Callable[..., Any], value: Any) -> Any:
    """Convert a value of the file. Raises AnatomicalEmbeddingError, with `name`, if the value is wrong."""
    try:
        return convert(value)
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise AnatomicalEmbeddingError(
            f"{name} has a wrong entry ({error}); correct the entry, or restore a backup."
        ) from error


def _list(document: Mapping[str, Any], key: str) -> list:
    """Return the list `key` of the file. Raises AnatomicalEmbeddingError if it is missing."""
    values = document.get(key)
    if not isinstance(values, list):
        raise AnatomicalEmbeddingError(
            f"the list {key!r} is missing; restore the file from a backup."
        )
    return values


# -- each function converts one value; for a wrong value it raises ValueError, TypeError, KeyError or AttributeError ---


def _study(value: Mapping[str, Any]) -> Study:
    _require_text(value, "key")
    return _convert(Study, value)


def _lesion(value: Mapping[str, Any]) -> Lesion:
    """Convert a lesion and its findings; an error of a finding names its study."""
    _require_text(value, "id", "tracking_uid")
    findings = {}
    for key, entry in value["findings"].items():
        findings[key] = _understood(f"lesion {value['id']} in study {key!r}", _finding, entry)
    return replace(_convert(Lesion, {**value, "findings": None}), findings=findings)


def _finding(value: Mapping[str, Any]) -> Finding:
    """Convert a finding, whose place and `into` must fit its state."""
    finding = _convert(Finding, value)
    if finding.state not in STATES:
        raise ValueError(f"the state {finding.state!r} is unknown")
    needs_place = finding.state in WITH_PLACE
    if needs_place == (finding.point_ras is None):
        raise ValueError(
            f"the state {finding.state!r} does not fit point_ras = {finding.point_ras}; correct one of them"
        )
    if bool(finding.into) != (finding.state == MERGED):
        raise ValueError(
            f"the state {finding.state!r} does not fit the entry into = {finding.into!r}; correct one of them"
        )
    return finding


def _require_text(value: Mapping[str, Any], *names: str) -> None:
    """Raise ValueError if one of these entries is missing or empty."""
    for name in names:
        if not value.get(name):
            raise ValueError(f"{name} is missing")


def _convert(kind: Any, value: Any, name: str = "") -> Any:
    """Convert a JSON value to the type `kind`. name: name of the field that contains the value, for messages.

    If `kind` is a class of the record, such as Lesion, fields that are missing or null get their default values.
    """
    parts = get_args(kind)  # of `float | None`: float, None; of a tuple: the types of its values
    if NoneType in parts:
        return None if value is None else _convert(parts[0], value, name)
    if get_origin(kind) is tuple:
        return tuple(
            _convert(part, part_kind, name) for part, part_kind in zip(parts, value, strict=True)
        )
    if kind in (Study, Lesion, Finding, Guess, Measurement):
        fields = {}
        for key, field_kind in _fields_of(kind).items():
            if value.get(key) is not None:
                fields[key] = _convert(field_kind, value[key], key)
        return kind(**fields)
    if kind is date:
        return date.fromisoformat(value)
    if kind is float:
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        if not is_number or not math.isfinite(value):
            raise ValueError(f"{value!r} is not a number")
        return float(value)
    if not isinstance(value, kind):
        raise ValueError(f"{name} is {value!r}")
    return value


def _finding_to_json(finding: Finding) -> dict[str, Any]:
    """Convert a finding to JSON values, in the order of the file."""
    return {
        "state": finding.state,
        "point_ras": finding.point_ras,
        "into": finding.into,
        "guess": None if finding.guess is None else vars(finding.guess),
        "size": None if finding.size == NO_SIZE else vars(finding.size),
        "query": finding.query,
    }
