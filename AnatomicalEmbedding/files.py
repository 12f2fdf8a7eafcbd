"""Files: write complete files, find unused names, compute SHA-256, read JSON safely; and align columns of text."""

import csv
import hashlib
import json
import uuid
from collections.abc import Callable, Container, Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache, wraps
from itertools import chain, count
from pathlib import Path
from typing import Any, TypeVar

from .errors import AnatomicalEmbeddingError, PointsError

_T = TypeVar("_T")
TEMPORARY = ".????????????.{name}"  # glob pattern of the temporary files of `atomic_path`


@contextmanager
def atomic_path(path: str | Path) -> Iterator[Path]:
    """Yield a temporary path next to `path`. On success, rename the temporary file to `path`; on failure, delete it.

    The temporary name ends with the full name of `path`. Writers that choose a format by suffix (`.nii.gz`,
    `.mrk.json`) therefore choose the right format. The folder of `path` is created if needed.
    """
    target = Path(path)
    target.parent.mkdir(parents=True, exist_ok=True)
    temporary = target.with_name(f".{uuid.uuid4().hex[:12]}.{target.name}")
    temporary.touch()
    # restored below, as some writers (safetensors) let only the owner read a file
    mode = temporary.stat().st_mode
    try:
        yield temporary
        temporary.chmod(mode)
        temporary.replace(target)
    finally:
        temporary.unlink(missing_ok=True)


def write_text(
    path: str | Path, text: str, error: type[AnatomicalEmbeddingError] = AnatomicalEmbeddingError
) -> None:
    """Write a UTF-8 file, complete or not at all.

    Args:
        path: the file.
        text: its content.
        error: type of the error that is raised if the file cannot be written.
    """
    try:
        with atomic_path(path) as temporary:
            temporary.write_bytes(text.encode("utf-8"))
    except OSError as fault:
        raise error(
            f"{path}: cannot be written; check that the folder is writable and not full."
        ) from fault


def write_table(path: Path, header: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    """Write a .csv file, complete or not at all.

    Args:
        path: the file.
        header: names of the columns.
        rows: the rows.
    """
    with atomic_path(path) as temporary, temporary.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([header, *rows])


def require_folder(folder: Path, content: str) -> None:
    """Raise PointsError if a folder does not exist. content: what it should hold, for the message."""
    if not folder.is_dir():
        raise PointsError(f"{folder}: no such folder; give a folder of {content}.")


def parse_json(text: str | bytes) -> Any:
    """Read JSON. Raises ValueError if the text is not JSON, is nested too deeply, or has integers beyond 64 bits."""
    try:
        return json.loads(text, parse_int=_whole_number)
    except RecursionError as error:
        raise ValueError("nested too deeply") from error


def _whole_number(digits: str) -> int:
    number = int(digits)
    if abs(number) >= 1 << 63:
        raise ValueError(
            f"an integer of {len(digits)} digits exceeds 64 bits; write a smaller number"
        )
    return number


def file_sha256(path: str | Path) -> str:
    """Return the SHA-256 of a file in hexadecimal. Raises OSError if the file cannot be read."""
    with Path(path).open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def once_a_change(read_file: Callable[[Path], _T]) -> Callable[[str | Path], _T]:
    """Decorate a function that reads a file: its result is cached until size or modification time of the file change.

    A change of the content that keeps both values is not noticed. Raises OSError if the file is missing.
    """

    @lru_cache(maxsize=32)
    def in_state(path: Path, _changed_ns: int, _size: int) -> _T:
        return read_file(path)

    @wraps(read_file)
    def known(path: str | Path) -> _T:
        path = Path(path).resolve()
        state = path.stat()
        return in_state(path, state.st_mtime_ns, state.st_size)

    return known


def free_name(name: str, used_names: Container[str]) -> str:
    """Return the first of NAME, NAME_2, NAME_3 ... that is not in `used_names` (casefolded); case is ignored."""
    numbered = chain([name], (f"{name}_{number}" for number in count(2)))
    return next(candidate for candidate in numbered if candidate.casefold() not in used_names)


def aligned(rows: Sequence[Sequence[str]]) -> list[str]:
    """Return rows of equal length as lines of text. The first column is aligned left, the other columns right."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    forms = ["<", *">" * (len(widths) - 1)]
    cells = [
        [f"{cell:{form}{width}}" for cell, form, width in zip(row, forms, widths, strict=True)]
        for row in rows
    ]
    return ["  ".join(row).rstrip() for row in cells]
