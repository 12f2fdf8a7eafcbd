"""The folder in which scans are outlined: examples and scans as files, the training, and the results.

Files that would not change are not written again, so that a run that was interrupted goes on.
"""

from __future__ import annotations

import csv
import filecmp
import hashlib
import json
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from AnatomicalEmbedding.files import free_name, write_text

if TYPE_CHECKING:
    from ..shared.VolumeNodes import Snapshot

_RECORD = "outlines.json"  # says that the folder is ours, and which files in it are
TABLE = "volumes.csv"


class OutlineFolder:
    """examples, scans, results: folders in it."""

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self.examples, self.scans, self.results = (self.path / name for name in ("examples", "scans", "results"))

    def problem(self) -> str:
        """Why it cannot be used, as a sentence with the remedy; "" where it can."""
        if not self.path.is_absolute():
            return f"{self.path}: give the whole path of the folder."
        if self.path.is_file():
            return f"{self.path}: is a file; choose a folder."
        if self.path.is_dir() and any(self.path.iterdir()) and self._names() is None:
            return f"{self.path}: holds other files; choose a new or empty folder."
        return ""

    def prepare(self, names: Sequence[str]) -> None:
        """Make it, without the files of scans that are none of `names`. Raises OSError or AnatomicalEmbeddingError
        where that fails.
        """
        for folder in (self.examples, self.scans, self.results):
            folder.mkdir(parents=True, exist_ok=True)
        before = self._names() or []
        write_text(self.path / _RECORD, json.dumps(sorted({*before, *names})))
        for name in set(before) - set(names):
            self._remove(self.examples, name)
            self._remove(self.scans, name)

    def _names(self) -> list[str] | None:
        """Of all scans that were written to it; None where no record says so, or a damaged one."""
        try:
            return list(map(str, json.loads((self.path / _RECORD).read_text("utf-8"))))
        except (OSError, TypeError, ValueError):
            return None

    def writeExample(self, name: str, scan: Snapshot, labels: np.ndarray, names: Sequence[str]) -> None:
        """Write a scan with its outlines. Raises AnatomicalEmbeddingError where that fails."""
        from AnatomicalEmbedding.errors import PointsError
        from AnatomicalEmbedding.segmentation.files import write_nifti

        self._remove(self.scans, name)
        volume = scan.volume()
        if volume.shape != labels.shape:
            raise PointsError(f"{scan.name}: its slices are sheared; outline a copy that was resampled upright.")
        _writeChanged(self.examples / f"{name}.nii.gz", volume.write)
        fresh = self.path / "new"
        for written in write_nifti(fresh, name, labels, volume.ijk_to_ras, names):
            _keepChanged(written, self.examples / written.name)
        fresh.rmdir()

    def writeScan(self, name: str, scan: Snapshot) -> None:
        """Write a scan to be outlined. Raises AnatomicalEmbeddingError where that fails."""
        self._remove(self.examples, name)
        _writeChanged(self.scans / f"{name}.nii.gz", scan.volume().write)

    def run(self) -> Path:
        """Of a training on exactly the examples that are there now; reads all of them."""
        digest = hashlib.sha256()
        for path in sorted(self.examples.iterdir()):
            digest.update(path.name.encode() + path.read_bytes())
        return self.path / f"run-{digest.hexdigest()[:8]}"

    def rows(self, name: str) -> list[dict[str, str]]:
        """What the table of results says of a scan, structure by structure; none before it is outlined."""
        try:
            text = (self.results / TABLE).read_text("utf-8")
        except OSError:
            return []
        return [row for row in csv.DictReader(text.splitlines()) if Path(row["scan"]).name == f"{name}.nii.gz"]

    def isOutlined(self, name: str, run: Path) -> bool:
        """Was a scan outlined by this training?"""
        try:
            trained = (run / "segmenter.safetensors").stat().st_mtime
            return self.labels(name).stat().st_mtime >= trained and bool(self.rows(name))
        except OSError:
            return False

    def labels(self, name: str) -> Path:
        """The file of a scan's outlines."""
        return self.results / f"{name}.seg.nrrd"

    @staticmethod
    def _remove(folder: Path, name: str) -> None:
        for end in (".nii.gz", ".seg.nii.gz", ".labels.json"):
            (folder / f"{name}{end}").unlink(missing_ok=True)


def fileNames(names: Sequence[str]) -> list[str]:
    """Names of nodes as names of files, each its own."""
    found: list[str] = []
    for name in names:
        plain = re.sub(r"[^\w-]+", "_", name).strip("_") or "scan"
        found.append(free_name(plain, {each.casefold() for each in found}))
    return found


def _writeChanged(path: Path, write: Callable[[Path], None]) -> None:
    fresh = path.with_name(f"new.{path.name}")
    write(fresh)
    _keepChanged(fresh, path)


def _keepChanged(fresh: Path, path: Path) -> None:
    """Put a new file in the place of an old one, which stays as it was where both are the same."""
    if path.is_file() and filecmp.cmp(fresh, path, shallow=False):
        fresh.unlink()
    else:
        fresh.replace(path)
