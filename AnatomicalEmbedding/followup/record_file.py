"""Read and write follow-up records as .followup.json files. Positions are RAS mm. The format:

{"format": "anatomical-embedding follow-up", "version": 1,
 "studies": [{"key", "name", "date", "study_uid", "series_uid"}],
 "lesions": [{"id", "name", "site", "target", "nodal", "split_from", "tracking_uid",
              "findings": {study key: {"state", "point_ras", "into", "guess": {...}, "size": {...}}}}]}
"""

import json
import math
from collections.abc import Callable, Mapping
from datetime import date
from pathlib import Path
from typing import Any

from ..errors import AnatomicalEmbeddingError
from ..files import parse_json, write_text
from .lesions import MERGED, NO_SIZE, STATES, WITH_PLACE, Axis, Finding, Guess, Lesion, Measurement, Point, Study
from .record import FollowUp

SUFFIX = ".followup.json"
FORMAT = "anatomical-embedding follow-up"
VERSION = 1


def write_record(path: str | Path, record: FollowUp) -> None:
    """Write a record to one file, completely or not at all. Raises AnatomicalEmbeddingError if that fails."""
    write_text(path, json.dumps(to_json(record), indent=1, ensure_ascii=False, allow_nan=False) + "\n")


def read_record(path: str | Path) -> FollowUp:
    """Read a file written by `write_record`.

    Raises AnatomicalEmbeddingError, naming the file, if it is missing, damaged, not a record, or of a newer version.
    """
    try:
        return from_json(parse_json(Path(path).read_text(encoding="utf-8-sig")))
    except FileNotFoundError as error:
        raise AnatomicalEmbeddingError(f"{path}: no such file; check the path.") from error
    except (OSError, UnicodeDecodeError) as error:
        raise AnatomicalEmbeddingError(f"{path}: cannot be read as text; give a {SUFFIX} file.") from error
    except ValueError as error:
        raise AnatomicalEmbeddingError(f"{path}: is not JSON; give a {SUFFIX} file, or a copy of it.") from error
    except AnatomicalEmbeddingError as error:
        raise AnatomicalEmbeddingError(f"{path}: {error}") from error


def to_json(record: FollowUp) -> dict[str, Any]:
    """Convert a record to JSON values. `from_json` restores an equal record."""
    return {
        "format": FORMAT,
        "version": VERSION,
        "coordinates": "RAS mm",
        "studies": [
            {**vars(study), "date": None if study.date is None else study.date.isoformat()} for study in record.studies
        ],
        "lesions": [
            {**vars(lesion), "findings": {key: _finding_to_json(found) for key, found in lesion.findings.items()}}
            for lesion in record.lesions
        ],
    }


def from_json(document: Any) -> FollowUp:
    """Convert the JSON values of `to_json` back to a record. Unknown entries are ignored.

    Raises AnatomicalEmbeddingError for other values; its message names the lesion and the study with the wrong value.
    """
    if not isinstance(document, dict) or document.get("format") != FORMAT:
        raise AnatomicalEmbeddingError(f"is not a follow-up of this program; give a {SUFFIX} file.")
    if not isinstance(document.get("version"), int) or document["version"] > VERSION:
        raise AnatomicalEmbeddingError("was written by a newer version of this program; update it.")
    studies = [_understood(f"study {n}", _study, each) for n, each in enumerate(_list(document, "studies"), start=1)]
    lesions = [_understood(f"lesion {n}", _lesion, each) for n, each in enumerate(_list(document, "lesions"), start=1)]
    known = {lesion.id for lesion in lesions}
    if len(known) < len(lesions):
        raise AnatomicalEmbeddingError("two lesions have the same id; give each its own.")
    for lesion in lesions:
        for other in (lesion.split_from, *(found.into for found in lesion.findings.values())):
            if other and (other not in known or other == lesion.id):
                raise AnatomicalEmbeddingError(f"lesion {lesion.id}: cannot have come from or gone into {other!r}.")
    return FollowUp(lesions=tuple(lesions)).with_studies(studies)


def _understood(name: str, read: Callable[..., Any], value: Any) -> Any:
    try:
        return read(value)
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise AnatomicalEmbeddingError(f"{name} cannot be understood ({error}); correct it, or use a copy.") from error


def _list(document: Mapping[str, Any], key: str) -> list:
    values = document.get(key)
    if not isinstance(values, list):
        raise AnatomicalEmbeddingError(f"holds no list of {key}; use a copy of the file.")
    return values


# -- one value each; wrong values raise ValueError, TypeError, KeyError or AttributeError ------------------------------


def _study(value: Mapping[str, Any]) -> Study:
    day = None if value.get("date") is None else date.fromisoformat(value["date"])
    name, study_uid, series_uid = (_text(value, key) for key in ("name", "study_uid", "series_uid"))
    return Study(_text(value, "key", required=True), name, day, study_uid, series_uid)


def _lesion(value: Mapping[str, Any]) -> Lesion:
    findings = {}
    for key, found in value["findings"].items():
        findings[key] = _understood(f"lesion {value['id']} in study {key!r}", _finding, found)
    lesion_id, uid = (_text(value, key, required=True) for key in ("id", "tracking_uid"))
    name, site, split_from = (_text(value, key) for key in ("name", "site", "split_from"))
    target, nodal = _flag(value, "target", True), _flag(value, "nodal", False)
    return Lesion(lesion_id, findings, name, site, target, nodal, split_from, uid)


def _finding(value: Mapping[str, Any]) -> Finding:
    state, into = value["state"], _text(value, "into")
    if state not in STATES:
        raise ValueError(f"its state is {state!r}")
    place = None if value.get("point_ras") is None else _point(value["point_ras"])
    if (place is not None) != (state in WITH_PLACE):
        raise ValueError(f"it is {state!r} {'without a' if place is None else 'and has a'} place")
    if bool(into) != (state == MERGED):
        raise ValueError(f"it is {state!r} and has gone into {into or 'nothing'}")
    guess, size = value.get("guess"), value.get("size")
    return Finding(
        state, place, None if guess is None else _guess(guess), NO_SIZE if size is None else _size(size), into
    )


def _guess(value: Mapping[str, Any]) -> Guess:
    error, probability = _number(value.get("expected_error_mm")), _number(value.get("probability"))
    return Guess(_text(value, "status"), _text(value, "source"), error, probability)


def _size(value: Mapping[str, Any]) -> Measurement:
    long_axis, short_axis = (_axis(value.get(key)) for key in ("long_axis", "short_axis"))
    return Measurement(long_axis, short_axis, _number(value.get("volume_ml")), _flag(value, "confirmed", False))


def _axis(value: Any) -> Axis | None:
    if value is None:
        return None
    one, other = value
    return _point(one), _point(other)


def _point(value: Any) -> Point:
    x, y, z = (_number(number) for number in value)
    if x is None or y is None or z is None:
        raise ValueError("a position lacks a number")
    return x, y, z


def _number(value: Any) -> float | None:
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise ValueError(f"{value!r} is no number")
    return float(value)


def _text(value: Mapping[str, Any], key: str, required: bool = False) -> str:
    text = value[key] if required else value.get(key, "")
    if not isinstance(text, str) or (required and not text):
        raise ValueError(f"{key} is {text!r}")
    return text


def _flag(value: Mapping[str, Any], key: str, usual: bool) -> bool:
    flag = value.get(key, usual)
    if not isinstance(flag, bool):
        raise ValueError(f"{key} is {flag!r}")
    return flag


def _finding_to_json(found: Finding) -> dict[str, Any]:
    return {
        "state": found.state,
        "point_ras": found.point_ras,
        "into": found.into,
        "guess": None if found.guess is None else vars(found.guess),
        "size": None if found.size == NO_SIZE else vars(found.size),
    }
