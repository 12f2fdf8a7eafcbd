"""Writing a file so that it is either complete or not there."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


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
