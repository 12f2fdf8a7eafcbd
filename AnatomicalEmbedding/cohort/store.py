"""The store: one folder with the manifest, a shard for each scan, and an index of all body coordinates."""

from __future__ import annotations

import os
import sqlite3
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from ..errors import AnatomicalEmbeddingError, MapError
from ..files import TEMPORARY, file_sha256
from ..scan.sources import list_sources
from .manifest import EMBEDDED, Manifest, Row
from .shard import SUFFIX, read_facts

MANIFEST_NAME = "cohort.sqlite"
_LOCK_NAME = "run.lock"


def shard_path(folder: Path, scan_hash: str) -> Path:
    """Where a store keeps the shard of a scan: in one of 256 folders, as some file systems are slow with large ones."""
    return folder / "shards" / scan_hash[:2] / f"{scan_hash}{SUFFIX}"


@dataclass(frozen=True)
class Fault:
    """Something wrong with a store. scan_hash: of the shard. problem: in words. repaired: what was done, or ""."""

    scan_hash: str
    problem: str
    repaired: str = ""


class Store:
    """A cohort on disk. Raises AnatomicalEmbeddingError where the folder is none, unless it is to be made."""

    def __init__(self, folder: str | Path, create: bool = False) -> None:
        self.folder = Path(folder).absolute()
        if create:
            if self.folder.exists() and (not self.folder.is_dir() or _foreign(self.folder)):
                raise AnatomicalEmbeddingError(f"{folder}: is not a cohort and not empty; choose another folder.")
            self.folder.mkdir(parents=True, exist_ok=True)
        self.manifest = Manifest(self.folder / MANIFEST_NAME, create)

    def close(self) -> None:
        self.manifest.close()

    def __enter__(self) -> Store:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def add(
        self, roots: Sequence[Path], priority: int = 0, unreadable: Callable[[str], None] = lambda line: None
    ) -> Counter[str]:
        """Take in the scans of folders (see `sources.list_sources`); returns counts as `Manifest.add`."""
        absolute = [Path(os.path.normpath(root.absolute())) for root in roots]
        return self.manifest.add(list_sources(absolute, unreadable), priority)

    def shard(self, scan_hash: str) -> Path:
        return shard_path(self.folder, scan_hash)

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Keep other runs out; the operating system ends the lock with the process, however that ends.

        Raises AnatomicalEmbeddingError where another run works on this store.
        """
        lock = sqlite3.connect(self.folder / _LOCK_NAME, timeout=0, isolation_level=None)
        try:
            lock.execute("BEGIN EXCLUSIVE")
        except sqlite3.OperationalError as error:
            lock.close()
            raise AnatomicalEmbeddingError(
                f"{self.folder}: another run works on this cohort; wait for it, or end it first."
            ) from error
        try:
            yield
        finally:
            lock.close()

    def clean(self) -> None:
        """Remove half-written files of runs that were killed, and shards that no scan refers to."""
        for path in (self.folder / "shards").glob("*/" + TEMPORARY.format(name="*" + SUFFIX)):
            path.unlink(missing_ok=True)
        for scan_hash in self.manifest.drop_unused():
            self.shard(scan_hash).unlink(missing_ok=True)

    def remove(self, scans: Sequence[str]) -> list[Row]:
        """Forget scans, or all below a folder, and delete shards that no other scan has; the scans themselves stay."""
        with self.locked():
            rows = {row.id: row for scan in scans for row in self.manifest.find(scan)}
            self.manifest.remove(rows.values())
            self.clean()
        return list(rows.values())

    def verify(self, repair: bool = False, progress: Callable[[float], None] = lambda share: None) -> list[Fault]:
        """Compare every shard with its checksum. repair: let scans of damaged and lost shards wait again."""
        if not repair:
            return self._verify(False, progress)
        with self.locked():
            self.clean()
            return self._verify(True, progress)

    def _verify(self, repair: bool, progress: Callable[[float], None]) -> list[Fault]:
        faults = []
        shards = self.manifest.shards()
        names = {row.scan_hash: row.scan for row in self.manifest.rows(EMBEDDED)}
        for number, (scan_hash, (sha256, _)) in enumerate(shards.items()):
            path = self.shard(scan_hash)
            problem = _problem(path, sha256)
            if problem:
                done = ""
                if repair:
                    path.unlink(missing_ok=True)
                    self.manifest.again(scan_hash)
                    done = "embedded again by the next run"
                faults.append(Fault(scan_hash, f"{names.get(scan_hash, 'unused')}: {problem} ({path})", done))
            progress((number + 1) / len(shards))
        for path in sorted((self.folder / "shards").glob(f"*/*{SUFFIX}")):
            scan_hash = path.name[: -len(SUFFIX)]
            if scan_hash not in shards and not path.name.startswith("."):
                # of a run that was killed before it could record it; the next run takes it over
                waiting = self.manifest.count_due() > 0
                if not waiting:
                    if repair:
                        path.unlink(missing_ok=True)
                    faults.append(Fault(scan_hash, f"belongs to no scan ({path})", "deleted" if repair else ""))
        return faults


def _problem(path: Path, sha256: str) -> str:
    try:
        if file_sha256(path) != sha256:
            return "its shard is damaged"
        read_facts(path)
    except FileNotFoundError:
        return "its shard is missing"
    except OSError as error:
        return f"its shard cannot be read ({error.strerror})"
    except MapError:
        return "its shard is damaged"
    return ""


def _foreign(folder: Path) -> bool:
    """Does a folder hold files, and no manifest?"""
    return not (folder / MANIFEST_NAME).exists() and any(folder.iterdir())
