"""Files: written so that they are complete or not there, and known by their SHA-256."""

from __future__ import annotations

import hashlib
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import lru_cache, wraps
from pathlib import Path
from typing import TypeVar

_T = TypeVar("_T")
TEMPORARY = ".????????????.{name}"  # files that are being written, as a pattern for glob


@contextmanager
def atomic_path(path: str | Path) -> Iterator[Path]:
    """Give a temporary path beside `path`; rename it to `path` on success, delete it on failure.

    The temporary name ends in the whole name of the target, so writers that choose a format by suffix
    (`.nii.gz`, `.mrk.json`) choose the right one. The folder of `path` is created if needed.
    """
    target = Path(path)
    target.parent.mkdir(parents=True, exist_ok=True)
    temporary = target.with_name(f".{uuid.uuid4().hex[:12]}.{target.name}")
    temporary.touch()
    mode = temporary.stat().st_mode  # some writers (safetensors) make files that only their owner can read
    try:
        yield temporary
        temporary.chmod(mode)
        temporary.replace(target)
    finally:
        temporary.unlink(missing_ok=True)


def file_sha256(path: str | Path) -> str:
    """SHA-256 of a file by which maps, libraries and weights know each other, in hexadecimal. Raises OSError."""
    with Path(path).open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def once_a_change(read: Callable[[Path], _T]) -> Callable[[str | Path], _T]:
    """A function of a file that reads it again only after its size or its time of change has become another.

    For what is asked often; a file that may have been tampered with is to be read. Raises OSError where there is none.
    """

    @lru_cache(maxsize=32)
    def in_state(path: Path, _changed_ns: int, _size: int) -> _T:
        return read(path)

    @wraps(read)
    def known(path: str | Path) -> _T:
        path = Path(path).resolve()
        state = path.stat()
        return in_state(path, state.st_mtime_ns, state.st_size)

    return known
