"""The working folder for outlines: the files of examples and scans, the training run, and the results.

After a stop, the work continues in the same folder. A scan is outlined again only if the scan's file or the training is
newer than the scan's result. Therefore a file is written only if its content changes.
"""

from __future__ import annotations

import csv
import filecmp
import hashlib
import json
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from AnatomicalEmbedding.errors import AnatomicalEmbeddingError, PointsError
from AnatomicalEmbedding.files import once_a_change, write_text

from ..shared.processes.EngineProcess import folderErrors

if TYPE_CHECKING:
    from AnatomicalEmbedding.scan.label_map import LabelMap

    from ..shared.VolumeNodes import Snapshot

_RECORD = "outlines.json"  # JSON list with the file names of all scans; exists only in folders of this module


class OutlineFolder:
    """The working folder `path`. examples, scans, results: paths of its three subfolders."""

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self.examples = self.path / "examples"
        self.scans = self.path / "scans"
        self.results = self.path / "results"

    def prepare(self, names: Sequence[str]) -> None:
        """Create the folder and its subfolders. Remove the files of earlier scans whose name is not in `names`.

        names: file names without ending. Raises AnatomicalEmbeddingError if the folder cannot be used.
        """
        if not self.path.is_absolute():
            raise AnatomicalEmbeddingError(
                f"{self.path}: is a relative path; give the full path of the folder."
            )
        with folderErrors(self.path):
            try:
                before = set(json.loads((self.path / _RECORD).read_text("utf-8")))
            except (FileNotFoundError, TypeError, ValueError):
                before = set()
            if not before and self.path.is_dir() and any(self.path.iterdir()):
                raise AnatomicalEmbeddingError(
                    f"{self.path}: holds other files; choose a new or empty folder."
                )
            for folder in (self.examples, self.scans, self.results):
                folder.mkdir(parents=True, exist_ok=True)
            write_text(self.path / _RECORD, json.dumps(sorted(before.union(names))))
            for name in before.difference(names):
                _remove(self.examples, name)
                _remove(self.scans, name)

    def write(self, name: str, scan: Snapshot, labels: LabelMap | None = None) -> None:
        """Write a scan: an example if it has labels, otherwise a scan to be outlined.

        Args:
            name: file name without ending.
            scan: the scan.
            labels: the structures on the voxels of the scan, or None.

        Raises:
            AnatomicalEmbeddingError: the scan cannot be written.
        """
        from AnatomicalEmbedding.structures.segments import write_segments

        volume = scan.volume()
        folder = self.examples
        otherFolder = self.scans
        if labels is None:
            folder = self.scans
            otherFolder = self.examples
        with TemporaryDirectory(dir=self.path) as fresh:
            volume.write(Path(fresh, f"{name}.nii.gz"))
            if labels is not None:
                if volume.shape != labels.voxels.shape:
                    raise PointsError(
                        f"{scan.name}: its voxel axes are not at right angles; resample the scan first."
                    )
                write_segments(Path(fresh, f"{name}.seg.nrrd"), labels)
            _remove(otherFolder, name)
            for path in Path(fresh).iterdir():
                old = folder / path.name
                if not old.is_file() or not filecmp.cmp(path, old, shallow=False):
                    path.replace(old)

    def run(self) -> Path:
        """Return the folder for the training on the examples. Its name contains a hash of all example files."""
        digest = hashlib.sha256()
        for path in sorted(self.examples.iterdir()):
            digest.update(path.name.encode() + path.read_bytes())
        return self.path / f"run-{digest.hexdigest()[:8]}"

    def table(self) -> dict[str, list[dict[str, str]]]:
        """Return all results: file name of a scan, without ending -> one row for each structure; {} without results."""
        try:
            return _table(self.results / "volumes.csv")
        except OSError:
            return {}

    def outlined(self, run: Path) -> list[str]:
        """Return the file names, without ending, of the scans that this run has outlined as they are."""
        trained = _timeOf(run / "segmenter.safetensors")
        if not trained:  # before the end of the training
            return []
        return [
            name
            for name in self.table()
            if _timeOf(self.labels(name)) >= max(trained, _timeOf(self.scans / f"{name}.nii.gz"))
        ]

    def labels(self, name: str) -> Path:
        """Return the path of the file with the outlines of a scan."""
        return self.results / f"{name}.seg.nrrd"


@once_a_change
def _table(path: Path) -> dict[str, list[dict[str, str]]]:
    """Read the table of results, see `OutlineFolder.table`."""
    rowsByScan: dict[str, list[dict[str, str]]] = {}
    for row in csv.DictReader(path.read_text("utf-8").splitlines()):
        rowsByScan.setdefault(Path(row["scan"]).name.removesuffix(".nii.gz"), []).append(row)
    return rowsByScan


def _timeOf(path: Path) -> float:
    """Return when a file was changed, in seconds; 0 if there is no file."""
    return path.stat().st_mtime if path.exists() else 0.0


def _remove(folder: Path, name: str) -> None:
    """Remove the files of a scan from a folder. name: file name without ending."""
    for end in (".nii.gz", ".seg.nrrd"):
        (folder / f"{name}{end}").unlink(missing_ok=True)
