"""What fuzzing needs of a reader: good files, a way to spoil them, and a use of the answer.

A file that is accepted must also serve: maps are matched, weights embed a scan, forests are asked, records are written
as tables. Otherwise a damaged file would only fail later, where nobody can say why.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from random import Random

from fuzzing import mutations as change

Files = dict[str, bytes]


@dataclass(frozen=True)
class Reader:
    """make: writes good files into a folder. spoil: changes some of them and says what it did. use: reads the folder
    and returns what the answer comes to, for comparison. whole: a file cut short must be refused, or give the same.
    """

    name: str
    make: Callable[[Path], None]
    spoil: Callable[[Files, Random], str]
    use: Callable[[Path], object]
    whole: bool = True

    def good_files(self) -> Files:
        """What `make` writes, by name below the folder."""
        folder = Path(tempfile.mkdtemp())
        try:
            self.make(folder)
            files = sorted(path for path in folder.rglob("*") if path.is_file())
            return {path.relative_to(folder).as_posix(): path.read_bytes() for path in files}
        finally:
            shutil.rmtree(folder)


def one_of(*ways: Callable[[bytes, Random], change.Changed], some: float = 0.0) -> Callable[[Files, Random], str]:
    """Spoil one file, in one of these ways. some: chance that a file is lost or that two are exchanged."""

    def spoil(files: Files, draw: Random) -> str:
        name = draw.choice(sorted(files))
        if len(files) > 1 and draw.random() < some:
            other = draw.choice(sorted(files))
            files[name] = files[other]
            if draw.random() < 0.5:
                del files[name]
                return f"{name} is lost"
            return f"{name} is {other}"
        files[name], done = draw.choice(ways)(files[name], draw)
        return f"{name}: {done}"

    return spoil


def only(folder: Path) -> Path:
    return next(path for path in sorted(folder.rglob("*")) if path.is_file())


TEXT = (change.mutated_text,) * 4 + (change.mutated_bytes, change.truncated)
