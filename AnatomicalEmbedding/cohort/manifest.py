"""The manifest: scans of a cohort, their states and the reasons, in one SQLite file that survives any interruption."""

from __future__ import annotations

import json
import sqlite3
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path
from typing import Any

from ..errors import AnatomicalEmbeddingError
from ..files import parse_json
from ..scan.sources import Source
from .facts import check_facts, check_hash

WAITING = "waiting"  # not embedded yet
EMBEDDED = "embedded"
DUPLICATE = "duplicate"  # the same content as an embedded scan
UNUSABLE = "unusable"  # no CT, damaged, too large: the file must change first
FAILED = "failed"  # ended its worker, or an unexpected error: tried again by the next run
STATES = (WAITING, EMBEDDED, DUPLICATE, UNUSABLE, FAILED)
_FORMAT = 2  # 1: maps in another format
_BATCH_SCANS = 100  # that are added in one transaction
_TABLES = (
    "CREATE TABLE IF NOT EXISTS about (key TEXT PRIMARY KEY, value TEXT NOT NULL)",
    """CREATE TABLE IF NOT EXISTS scans (
    id INTEGER PRIMARY KEY, scan TEXT NOT NULL UNIQUE, path TEXT NOT NULL, series TEXT NOT NULL, files TEXT NOT NULL,
    size INTEGER NOT NULL, changed_ns INTEGER NOT NULL,
    state TEXT NOT NULL, reason TEXT NOT NULL DEFAULT '', scan_hash TEXT, finished TEXT, UNIQUE (path, series))""",
    "CREATE INDEX IF NOT EXISTS by_state ON scans (state, id)",
    "CREATE INDEX IF NOT EXISTS by_hash ON scans (scan_hash)",
    """CREATE TABLE IF NOT EXISTS maps (
    scan_hash TEXT PRIMARY KEY, sha256 TEXT NOT NULL, size INTEGER NOT NULL, facts TEXT NOT NULL)""",
)


@dataclass(frozen=True)
class Row:
    """One scan: its name (path or path#series), its files as in `scan.sources`, its state, the hash of its content."""

    id: int
    scan: str
    path: str
    series: str
    files: tuple[str, ...]
    size: int
    state: str
    reason: str
    scan_hash: str | None

    @classmethod
    def of(cls, row: sqlite3.Row) -> Row:
        """Read a row of the table. Raises ValueError or TypeError where another program changed it."""
        values = {name: row[name] for name in cls.__dataclass_fields__}
        files = parse_json(row["files"])
        texts = [*(values[name] for name in ("scan", "path", "series", "reason")), *files]
        if not all(isinstance(text, str) and "\0" not in text for text in texts) or not isinstance(files, list):
            raise ValueError("not a scan")
        if type(row["id"]) is not int or type(row["size"]) is not int or row["state"] not in STATES:
            raise ValueError("not a scan")
        if row["scan_hash"] is not None:
            check_hash(row["scan_hash"])
        return cls(**values | {"files": tuple(files)})


class Manifest:
    """Reads and writes the manifest of a store. One process may write while others read.

    Every method raises AnatomicalEmbeddingError, naming the file, where it is damaged or cannot be used.
    """

    def __init__(self, path: Path, create: bool = False) -> None:
        if not create and not path.is_file():
            raise AnatomicalEmbeddingError(
                f"{path.parent}: is not a cohort; make one with `anatemb cohort run {path.parent} DIR`."
            )
        self.path = path
        with self._naming_file():
            self._db = sqlite3.connect(path, timeout=30, isolation_level=None, check_same_thread=False)
        self._db.row_factory = sqlite3.Row
        for command in ("PRAGMA journal_mode=WAL", "PRAGMA synchronous=NORMAL", *_TABLES):
            self._execute(command)
        self._upgrade()

    def close(self) -> None:
        """Close the file."""
        self._db.close()

    @property
    def about(self) -> dict[str, str]:
        """Facts of the cohort: format, model, weights_hash, descriptors."""
        return {str(row["key"]): str(row["value"]) for row in self._execute("SELECT key, value FROM about")}

    @property
    def weights_hash(self) -> str:
        """SHA-256 of the weights of all maps."""
        if found := self.about.get("weights_hash"):
            return found
        raise self._damaged("no weights")

    def set_about(self, values: dict[str, str]) -> None:
        """Record facts of the cohort that all later runs share."""
        for pair in values.items():
            self._execute("INSERT OR REPLACE INTO about VALUES (?, ?)", pair)

    def add(self, sources: Iterable[Source]) -> Counter[str]:
        """Add scans; count those that are "new", "changed" (which wait again) and "known"."""
        count, remaining = Counter[str](), iter(sources)
        while batch := list(islice(remaining, _BATCH_SCANS)):  # listed before, not while, the manifest is locked
            with self._transaction():
                count.update(map(self._add, batch))
        return count

    def _add(self, source: Source) -> str:
        known = self._execute(
            "SELECT id, size, changed_ns FROM scans WHERE path = ? AND series = ?", (source.path, source.series)
        )
        values = (json.dumps(source.files), source.size, source.changed_ns, WAITING)
        if not known:
            self._execute(
                "INSERT INTO scans (files, size, changed_ns, state, scan, path, series) VALUES (?, ?, ?, ?, ?, ?, ?)",
                (*values, source.label, source.path, source.series),
            )
            return "new"
        if (known[0]["size"], known[0]["changed_ns"]) == (source.size, source.changed_ns):
            return "known"
        self._execute(
            "UPDATE scans SET files = ?, size = ?, changed_ns = ?, state = ?, reason = '', scan_hash = NULL"
            " WHERE id = ?",
            (*values, known[0]["id"]),
        )
        return "changed"

    def finish(self, row_id: int, state: str, reason: str = "", **values: Any) -> None:
        """Record the end of one scan. values: scan_hash; and of an embedded scan's map file sha256, size, facts.

        Of scans with the same content, the one that was added first counts as embedded, the others as its duplicates.
        """
        with self._transaction():
            finished = datetime.now(UTC).isoformat(timespec="seconds")
            self._execute(
                "UPDATE scans SET state = ?, reason = ?, scan_hash = ?, finished = ? WHERE id = ?",
                (state, reason, values.get("scan_hash"), finished, row_id),
            )
            if state == EMBEDDED:
                self._execute(
                    "INSERT OR REPLACE INTO maps VALUES (?, ?, ?, ?)",
                    (values["scan_hash"], values["sha256"], values["size"], json.dumps(values["facts"])),
                )
                self._mark_duplicates(values["scan_hash"])

    def _mark_duplicates(self, scan_hash: str) -> None:
        equal = self._execute(
            "SELECT id, scan FROM scans WHERE scan_hash = ? AND state IN (?, ?) ORDER BY id",
            (scan_hash, EMBEDDED, DUPLICATE),
        )
        for number, row in enumerate(equal):
            state, reason = (EMBEDDED, "") if number == 0 else (DUPLICATE, f"the same content as {equal[0]['scan']}")
            self._execute("UPDATE scans SET state = ?, reason = ? WHERE id = ?", (state, reason, row["id"]))

    def due(self) -> list[Row]:
        """Scans that wait or failed, in the order of adding."""
        return self.rows(WAITING, FAILED)

    def counts(self) -> dict[str, int]:
        """How many scans are in each of STATES."""
        found = {row[0]: row[1] for row in self._execute("SELECT state, count(*) FROM scans GROUP BY state")}
        return {state: found.get(state, 0) for state in STATES}

    def rows(self, *states: str) -> list[Row]:
        """Scans in these states, or all scans where no state is given, in the order of adding."""
        condition = f"WHERE state IN ({', '.join('?' * len(states))})" if states else ""
        return self._rows(self._execute(f"SELECT * FROM scans {condition} ORDER BY id", states))

    def embedded(self) -> list[tuple[Row, dict[str, Any]]]:
        """Embedded scans and their facts."""
        found = self._execute(
            "SELECT scans.*, facts FROM scans JOIN maps USING (scan_hash) WHERE state = ? ORDER BY id", (EMBEDDED,)
        )
        with self._naming_file():
            facts = [parse_json(row["facts"]) for row in found]
            for each in facts:
                check_facts(each)
        return list(zip(self._rows(found), facts, strict=True))

    def map_files(self) -> dict[str, tuple[str, int]]:
        """SHA-256 and bytes of every map file, by the scan's content hash."""
        found = self._execute("SELECT scan_hash, sha256, size FROM maps ORDER BY scan_hash")
        with self._naming_file():
            return {check_hash(row["scan_hash"]): (str(row["sha256"]), int(row["size"])) for row in found}

    def find(self, scan: str) -> list[Row]:
        """Scans of this name or path, or in the folder of this path; AnatomicalEmbeddingError for an unknown one."""
        found = self._execute(
            "SELECT * FROM scans WHERE scan IN (?1, ?2) OR path IN (?1, ?2)"
            " OR substr(path, 1, length(?2) + 1) IN (?2 || '/', ?2 || '\\') ORDER BY id",
            (scan, str(Path(scan).absolute())),
        )
        if not found:
            raise AnatomicalEmbeddingError(f"{scan}: is not in this cohort; `anatemb cohort status --json` lists all.")
        return self._rows(found)

    def remove(self, rows: Iterable[Row]) -> None:
        """Forget scans. A duplicate takes the place of a removed original."""
        with self._transaction():
            for row in rows:
                self._execute("DELETE FROM scans WHERE id = ?", (row.id,))
                if row.scan_hash is not None:
                    self._mark_duplicates(row.scan_hash)

    def embed_again(self, scan_hash: str) -> None:
        """Let the scans of a lost map file wait again."""
        with self._transaction():
            self._execute("DELETE FROM maps WHERE scan_hash = ?", (scan_hash,))
            self._execute(
                "UPDATE scans SET state = ?, reason = '', scan_hash = NULL WHERE scan_hash = ?", (WAITING, scan_hash)
            )

    def drop_unused(self) -> list[str]:
        """Forget map files that no scan refers to any more; returns their content hashes."""
        unused = "scan_hash NOT IN (SELECT scan_hash FROM scans WHERE scan_hash IS NOT NULL)"
        with self._transaction():
            found = self._execute(f"SELECT scan_hash FROM maps WHERE {unused}")
            self._execute(f"DELETE FROM maps WHERE {unused}")
        return [row["scan_hash"] for row in found]

    def _upgrade(self) -> None:
        """Record the format; scans of an older one wait again, as their maps are made anew."""
        with self._naming_file():
            known = int(self.about.get("format", 0))
        if known > _FORMAT:
            raise AnatomicalEmbeddingError(f"{self.path}: written by a newer version of this program; update it.")
        if known < _FORMAT:
            with self._transaction():
                self._execute(
                    "UPDATE scans SET state = ?, reason = '', scan_hash = NULL WHERE state IN (?, ?)",
                    (WAITING, EMBEDDED, DUPLICATE),
                )
                self.set_about({"format": str(_FORMAT)})

    def _execute(self, command: str, values: Sequence[Any] = ()) -> list[sqlite3.Row]:
        with self._naming_file():
            return self._db.execute(command, values).fetchall()

    def _rows(self, found: Iterable[sqlite3.Row]) -> list[Row]:
        with self._naming_file():
            return list(map(Row.of, found))

    @contextmanager
    def _naming_file(self) -> Iterator[None]:
        """Turn errors of the database, and of values that another program changed, into one that names the file."""
        try:
            yield
        except (sqlite3.Error, AttributeError, KeyError, TypeError, ValueError) as error:
            raise self._damaged(error) from error

    def _damaged(self, error: object) -> AnatomicalEmbeddingError:
        return AnatomicalEmbeddingError(
            f"{self.path}: is damaged or cannot be used ({error}); check permissions and disk, or make a new cohort "
            "elsewhere."
        )

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        """Apply all changes inside, or none of them."""
        self._execute("BEGIN IMMEDIATE")
        try:
            yield
        except BaseException:
            if self._db.in_transaction:
                self._db.execute("ROLLBACK")
            raise
        self._execute("COMMIT")
