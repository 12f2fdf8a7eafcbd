"""The folder in which scans are outlined: examples and scans as files, the training, and the results.

A file that would not change is not written again, so that a run that was stopped continues.
"""

from __future__ import annotations

import csv
import filecmp
import hashlib
import json
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

import numpy as np

from AnatomicalEmbedding.errors import AnatomicalEmbeddingError, PointsError
from AnatomicalEmbedding.files import free_name, once_a_change, write_text

if TYPE_CHECKING:
    from ..shared.VolumeNodes import Snapshot

_RECORD = "outlines.json"  # marks the folder as ours, and lists the scans in it


class OutlineFolder:
    """examples, scans, results: folders in it."""

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self.examples, self.scans, self.results = (self.path / name for name in ("examples", "scans", "results"))

    @contextmanager
    def namingErrors(self) -> Iterator[None]:
        """Turn an OSError into an AnatomicalEmbeddingError that names the folder."""
        try:
            yield
        except OSError as error:
            reason = (error.strerror or "cannot be used").lower()
            raise AnatomicalEmbeddingError(f"{self.path}: {reason}; choose another folder.") from None

    def prepare(self, names: Sequence[str]) -> None:
        """Make the folder, and remove the files of scans that are not among `names`.

        Raises AnatomicalEmbeddingError where it cannot be used.
        """
        if not self.path.is_absolute():
            raise AnatomicalEmbeddingError(f"{self.path}: give the whole path of the folder.")
        with self.namingErrors():
            try:
                before = set(json.loads((self.path / _RECORD).read_text("utf-8")))
            except (FileNotFoundError, TypeError, ValueError):
                before = set()
            if not before and self.path.is_dir() and any(self.path.iterdir()):
                raise AnatomicalEmbeddingError(f"{self.path}: holds other files; choose a new or empty folder.")
            for folder in (self.examples, self.scans, self.results):
                folder.mkdir(parents=True, exist_ok=True)
            write_text(self.path / _RECORD, json.dumps(sorted(before.union(names))))
            for name in before.difference(names):
                _remove(self.examples, name)
                _remove(self.scans, name)

    def write(
        self, name: str, scan: Snapshot, labels: np.ndarray | None = None, structures: Sequence[str] = ()
    ) -> None:
        """Write a scan to be outlined, or with labels (k, j, i) as an example. Raises AnatomicalEmbeddingError."""
        from AnatomicalEmbedding.segmentation.files import write_nifti

        volume = scan.volume()
        folder, other = (self.scans, self.examples) if labels is None else (self.examples, self.scans)
        with TemporaryDirectory(dir=self.path) as fresh:
            volume.write(Path(fresh, f"{name}.nii.gz"))
            if labels is not None:
                if volume.shape != labels.shape:
                    raise PointsError(
                        f"{scan.name}: its slices are sheared; outline a copy that was resampled upright."
                    )
                write_nifti(Path(fresh), name, labels, volume.ijk_to_ras, structures)
            _remove(other, name)
            for path in Path(fresh).iterdir():
                old = folder / path.name
                if not old.is_file() or not filecmp.cmp(path, old, shallow=False):
                    path.replace(old)

    def run(self) -> Path:
        """The folder of a training on exactly the present examples; reads all of them."""
        digest = hashlib.sha256()
        for path in sorted(self.examples.iterdir()):
            digest.update(path.name.encode() + path.read_bytes())
        return self.path / f"run-{digest.hexdigest()[:8]}"

    def table(self) -> dict[str, list[dict[str, str]]]:
        """The rows of the table of results, by name of the scan's files; empty before the first is written."""
        try:
            return _table(self.results / "volumes.csv")
        except OSError:
            return {}

    def outlined(self, run: Path) -> list[str]:
        """Names of the scans that were outlined by this training."""
        trained = _timeOf(run / "segmenter.safetensors")
        return [name for name in self.table() if _timeOf(self.labels(name)) >= trained > 0]

    def labels(self, name: str) -> Path:
        """The file of a scan's outlines."""
        return self.results / f"{name}.seg.nrrd"


def fileNames(names: Sequence[str]) -> list[str]:
    """Names of nodes as names of files, without two alike."""
    found: list[str] = []
    for name in names:
        plain = re.sub(r"[^\w-]+", "_", name).strip("_") or "scan"
        found.append(free_name(plain, {each.casefold() for each in found}))
    return found


@once_a_change
def _table(path: Path) -> dict[str, list[dict[str, str]]]:
    found: dict[str, list[dict[str, str]]] = {}
    for row in csv.DictReader(path.read_text("utf-8").splitlines()):
        found.setdefault(Path(row["scan"]).name.removesuffix(".nii.gz"), []).append(row)
    return found


def _timeOf(path: Path) -> float:
    """When a file was written last; 0 where it is missing."""
    return path.stat().st_mtime if path.exists() else 0.0


def _remove(folder: Path, name: str) -> None:
    """Remove the files of a scan."""
    for end in (".nii.gz", ".seg.nii.gz", ".labels.json"):
        (folder / f"{name}{end}").unlink(missing_ok=True)
