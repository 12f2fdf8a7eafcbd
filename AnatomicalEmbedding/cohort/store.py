"""The store: one folder with the manifest, a map file for each scan, and an index of all body coordinates."""

from __future__ import annotations

import os
import sqlite3
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from ..embedding.map_file import SUFFIX
from ..errors import AnatomicalEmbeddingError
from ..files import TEMPORARY, file_sha256
from ..scan.sources import list_sources
from .manifest import EMBEDDED, Manifest, Row

MANIFEST_NAME = "cohort.sqlite"
_LOCK_NAME = "run.lock"
_MAPS = "maps"


def map_path(folder: Path, scan_hash: str) -> Path:
    """Return the path of a scan's map file. Maps lie in 256 folders, because large folders are slow on some systems."""
    return folder / _MAPS / scan_hash[:2] / f"{scan_hash}{SUFFIX}"


@dataclass(frozen=True)
class Fault:
    """A missing or damaged map file. scan_hash: hash of the scan's voxels. problem: a sentence."""

    scan_hash: str
    problem: str


class Store:
    """A cohort on disk.

    create: make a new cohort if the folder is empty or missing. Raises AnatomicalEmbeddingError if the folder is not a
    cohort and cannot become one.
    """

    def __init__(self, folder: str | Path, create: bool = False) -> None:
        self.folder = Path(folder).absolute()
        if create:
            is_file = self.folder.exists() and not self.folder.is_dir()
            is_cohort = (self.folder / MANIFEST_NAME).exists()
            if is_file or (not is_cohort and any(self.folder.glob("*"))):
                raise AnatomicalEmbeddingError(
                    f"{folder}: is neither a cohort nor empty; choose a new folder."
                )
            self.folder.mkdir(parents=True, exist_ok=True)
        self.manifest = Manifest(self.folder / MANIFEST_NAME, create)

    def close(self) -> None:
        self.manifest.close()

    def __enter__(self) -> Store:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def add(
        self, roots: Sequence[Path], unreadable: Callable[[str], None] = lambda line: None
    ) -> Counter[str]:
        """Add the scans in the folders `roots`. Returns the numbers of "new", "changed" and "known" scans.
        unreadable: called with a sentence for each folder that cannot be listed."""
        absolute = [Path(os.path.normpath(root.absolute())) for root in roots]
        return self.manifest.add(list_sources(absolute, unreadable))

    def map_path(self, scan_hash: str) -> Path:
        return map_path(self.folder, scan_hash)

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Lock the store against other runs. If the process is killed, the operating system releases the lock.

        Raises AnatomicalEmbeddingError if another run uses this store.
        """
        lock = sqlite3.connect(self.folder / _LOCK_NAME, timeout=0, isolation_level=None)
        try:
            lock.execute("BEGIN EXCLUSIVE")
        except sqlite3.OperationalError as error:
            lock.close()
            raise AnatomicalEmbeddingError(
                f"{self.folder}: another run uses this cohort; wait until the other run ends, or stop the other run."
            ) from error
        try:
            yield
        finally:
            lock.close()

    def clean(self) -> None:
        """Delete incomplete files of killed runs, and maps that no scan uses."""
        for path in (self.folder / _MAPS).glob("*/" + TEMPORARY.format(name="*" + SUFFIX)):
            path.unlink(missing_ok=True)
        for scan_hash in self.manifest.drop_unused():
            self.map_path(scan_hash).unlink(missing_ok=True)

    def remove(self, scans: Sequence[str]) -> list[Row]:
        """Remove scans, given by name or folder, and delete maps that are unused now. CT files are not deleted."""
        with self.locked():
            rows = {row.id: row for scan in scans for row in self.manifest.find(scan)}
            self.manifest.remove(rows.values())
            self.clean()
        return list(rows.values())

    def verify(self, repair: bool = False) -> list[Fault]:
        """Find missing and damaged map files. repair: True to remove these maps; the next run makes them again."""
        if not repair:
            return self._faults()
        with self.locked():
            self.clean()
            faults = self._faults()
            for fault in faults:
                self.map_path(fault.scan_hash).unlink(missing_ok=True)
                self.manifest.embed_again(fault.scan_hash)
        return faults

    def _faults(self) -> list[Fault]:
        """Compare the file of each map with its SHA-256 in the manifest."""
        names = {row.scan_hash: row.scan for row in self.manifest.rows(EMBEDDED)}
        faults = []
        for scan_hash, (sha256, _) in self.manifest.map_files().items():
            path = self.map_path(scan_hash)
            problem = _problem(path, sha256)
            if problem:
                name = names.get(scan_hash, "unused")
                faults.append(Fault(scan_hash, f"{name}: {problem} ({path})"))
        return faults


def _problem(path: Path, sha256: str) -> str:
    """Return what is wrong with the file of a map, or ""."""
    try:
        return "" if file_sha256(path) == sha256 else "its map is damaged"
    except FileNotFoundError:
        return "its map is missing"
    except OSError as error:
        return f"its map cannot be read ({error.strerror})"
