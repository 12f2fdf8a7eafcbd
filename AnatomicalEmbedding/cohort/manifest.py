"""The manifest: which scans a cohort has, their states and the reasons, in one SQLite file that survives any end."""

from __future__ import annotations

import json
import sqlite3
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
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
_FORMAT = "1"
_BATCH = 100  # scans that are added in one change
_TABLES = """
CREATE TABLE IF NOT EXISTS about (key TEXT PRIMARY KEY, value TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS scans (
  id INTEGER PRIMARY KEY, scan TEXT NOT NULL UNIQUE, path TEXT NOT NULL, series TEXT NOT NULL, files TEXT NOT NULL,
  size INTEGER NOT NULL, changed_ns INTEGER NOT NULL, priority INTEGER NOT NULL DEFAULT 0,
  state TEXT NOT NULL, reason TEXT NOT NULL DEFAULT '', attempts INTEGER NOT NULL DEFAULT 0,
  scan_hash TEXT, seconds REAL, finished TEXT, software TEXT, UNIQUE (path, series));
CREATE INDEX IF NOT EXISTS by_state ON scans (state, priority, id);
CREATE INDEX IF NOT EXISTS by_hash ON scans (scan_hash);
CREATE TABLE IF NOT EXISTS shards (
  scan_hash TEXT PRIMARY KEY, sha256 TEXT NOT NULL, size INTEGER NOT NULL, facts TEXT NOT NULL);
"""


@dataclass(frozen=True)
class Row:
    """One scan. scan: its name in the cohort (path, or path#series). files: of a DICOM series, in the folder `path`."""

    id: int
    scan: str
    path: str
    series: str
    files: tuple[str, ...]
    size: int
    priority: int
    state: str
    reason: str
    attempts: int
    scan_hash: str | None

    @classmethod
    def of(cls, row: sqlite3.Row) -> Row:
        """Raises ValueError or TypeError where a row was changed by others."""
        values = {name: row[name] for name in cls.__dataclass_fields__}
        files = parse_json(row["files"])
        whole = all(type(values[name]) is int for name in ("id", "size", "priority", "attempts"))
        words = [*(values[name] for name in ("scan", "path", "series", "state", "reason")), *files]
        if not whole or not all(isinstance(word, str) and "\0" not in word for word in words):
            raise ValueError("no scan")
        if values["state"] not in STATES or not isinstance(files, list):
            raise ValueError("no scan")
        if values["scan_hash"] is not None:
            check_hash(values["scan_hash"])
        return cls(**values | {"files": tuple(files)})


def _damaged(path: Path | str, error: object = "") -> AnatomicalEmbeddingError:
    seen = f" ({error})" if error else ""
    return AnatomicalEmbeddingError(
        f"{path}: is damaged or cannot be used{seen}; check permissions and disk, or make a new cohort elsewhere."
    )


class _Cursor(sqlite3.Cursor):
    """Names the file in errors of the database."""

    def _named(self, method: Callable[..., Any], *values: Any) -> Any:
        try:
            return method(*values)
        except sqlite3.DatabaseError as error:
            raise _damaged(self.connection.path, error) from error

    def execute(self, *values: Any) -> Any:
        return self._named(super().execute, *values)

    def executemany(self, *values: Any) -> Any:
        return self._named(super().executemany, *values)

    def fetchone(self) -> Any:
        return self._named(super().fetchone)

    def fetchall(self) -> Any:
        return self._named(super().fetchall)

    def __next__(self) -> Any:
        return self._named(super().__next__)


class _Connection(sqlite3.Connection):
    def __init__(self, path: Path, *values: Any, **options: Any) -> None:
        super().__init__(path, *values, **options)
        self.path = path

    def execute(self, *values: Any) -> sqlite3.Cursor:
        return self.cursor(_Cursor).execute(*values)

    def executemany(self, *values: Any) -> sqlite3.Cursor:
        return self.cursor(_Cursor).executemany(*values)


class Manifest:
    """Reads and writes the manifest of a store. One process may write while others read."""

    def __init__(self, path: Path, create: bool = False) -> None:
        if not create and not path.is_file():
            raise AnatomicalEmbeddingError(
                f"{path.parent}: is no cohort; make one with `anatemb cohort run {path.parent} DIR`."
            )
        self.path = path
        try:
            self._db = sqlite3.connect(
                path, timeout=30, isolation_level=None, check_same_thread=False, factory=_Connection
            )
            self._db.row_factory = sqlite3.Row
            self._db.execute("PRAGMA journal_mode=WAL")
            self._db.execute("PRAGMA synchronous=NORMAL")
            self._db.executescript(_TABLES)
            if self.about.get("format", _FORMAT) != _FORMAT:
                raise AnatomicalEmbeddingError(f"{path}: written by a newer version of this program; update it.")
            self._db.execute("INSERT OR IGNORE INTO about VALUES ('format', ?)", (_FORMAT,))
        except sqlite3.DatabaseError as error:
            raise AnatomicalEmbeddingError(
                f"{path}: cannot be used ({error}); check permissions and disk, or make a new cohort elsewhere."
            ) from error

    def close(self) -> None:
        self._db.close()

    @property
    def about(self) -> dict[str, str]:
        """Facts of the cohort: format, model, weights_hash, descriptors."""
        found = self._db.execute("SELECT key, value FROM about")
        return {str(row["key"]): str(row["value"]) for row in found}

    @property
    def weights_hash(self) -> str:
        """Of the weights that all its maps are by. Raises AnatomicalEmbeddingError where that is not known."""
        if found := self.about.get("weights_hash"):
            return found
        raise _damaged(self.path)

    def settle(self, values: dict[str, str]) -> None:
        """Keep facts of the cohort that all later runs share."""
        self._db.executemany("INSERT OR REPLACE INTO about VALUES (?, ?)", values.items())

    def add(self, sources: Iterable[Source], priority: int = 0) -> Counter[str]:
        """Take in scans. Counts of "new", "changed" (the file differs from before: wait again) and "known"."""
        count: Counter[str] = Counter()
        waiting = iter(sources)
        while batch := list(islice(waiting, _BATCH)):  # looked for before, not while, the manifest is locked
            with self._changes():
                count.update(self._add(source, priority) for source in batch)
        return count

    def _add(self, source: Source, priority: int) -> str:
        known = self._db.execute(
            "SELECT id, size, changed_ns FROM scans WHERE path = ? AND series = ?", (source.path, source.series)
        ).fetchone()
        values = (json.dumps(source.files), source.size, source.changed_ns)
        if known is None:
            self._db.execute(
                "INSERT INTO scans (scan, path, series, files, size, changed_ns, priority, state)"
                " VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
                (source.label, source.path, source.series, *values, priority, WAITING),
            )
            return "new"
        if (known["size"], known["changed_ns"]) == values[1:]:
            return "known"
        self._db.execute(
            "UPDATE scans SET files = ?, size = ?, changed_ns = ?, priority = ?, state = ?, reason = '', attempts = 0,"
            " scan_hash = NULL WHERE id = ?",
            (*values, priority, WAITING, known["id"]),
        )
        return "changed"

    def finish(self, row_id: int, state: str, reason: str = "", **values: Any) -> None:
        """Record the end of one scan. values: scan_hash, seconds, software; and of its shard: sha256, size, facts.

        Of scans with the same content, the one that was added first counts as embedded, the others as its duplicates.
        """
        with self._changes():
            self._db.execute(
                "UPDATE scans SET state = ?, reason = ?, attempts = attempts + 1, scan_hash = ?, seconds = ?,"
                " finished = ?, software = ? WHERE id = ?",
                (
                    state, reason, values.get("scan_hash"), values.get("seconds"),
                    datetime.now(UTC).isoformat(timespec="seconds"), values.get("software"), row_id,
                ),
            )  # fmt: skip
            if state == EMBEDDED:
                self._db.execute(
                    "INSERT OR REPLACE INTO shards VALUES (?, ?, ?, ?)",
                    (values["scan_hash"], values["sha256"], values["size"], json.dumps(values["facts"])),
                )
                self._settle_duplicates(values["scan_hash"])

    def _settle_duplicates(self, scan_hash: str) -> None:
        alike = self._db.execute(
            "SELECT id, scan FROM scans WHERE scan_hash = ? AND state IN (?, ?) ORDER BY id",
            (scan_hash, EMBEDDED, DUPLICATE),
        ).fetchall()
        for number, row in enumerate(alike):
            state, reason = (EMBEDDED, "") if number == 0 else (DUPLICATE, f"the same content as {alike[0]['scan']}")
            self._db.execute("UPDATE scans SET state = ?, reason = ? WHERE id = ?", (state, reason, row["id"]))

    def due(self) -> Iterator[Row]:
        """Scans that wait or failed; by priority, then in the order of adding."""
        last: tuple[int, int] | None = None
        while True:  # in pages, so that a hundred thousand rows are never in memory
            after = "" if last is None else "AND (-priority, id) > (?, ?)"
            page = self._db.execute(
                f"SELECT * FROM scans WHERE state IN (?, ?) {after} ORDER BY -priority, id LIMIT 500",
                (WAITING, FAILED, *(last or ())),
            ).fetchall()
            if not page:
                return
            last = (-page[-1]["priority"], page[-1]["id"])
            yield from map(self._row, page)

    def count_due(self) -> int:
        counts = self.counts()
        return counts[WAITING] + counts[FAILED]

    def counts(self) -> dict[str, int]:
        """How many scans are in each of STATES."""
        found = dict(self._db.execute("SELECT state, count(*) FROM scans GROUP BY state").fetchall())
        return {state: found.get(state, 0) for state in STATES}

    def rows(self, *states: str) -> Iterator[Row]:
        """Scans in these states (none given: all), in the order of adding."""
        which = f"WHERE state IN ({', '.join('?' * len(states))})" if states else ""
        yield from map(self._row, self._db.execute(f"SELECT * FROM scans {which} ORDER BY id", states).fetchall())

    def embedded(self) -> list[tuple[Row, dict[str, Any]]]:
        """Embedded scans, and the facts of their shards."""
        found = self._db.execute(
            "SELECT scans.*, facts FROM scans JOIN shards USING (scan_hash) WHERE state = ? ORDER BY id", (EMBEDDED,)
        ).fetchall()
        return [(self._row(row), self._facts(row)) for row in found]

    def shards(self) -> dict[str, tuple[str, int]]:
        """SHA-256 and bytes of every shard, by the scan's content hash."""
        found = self._db.execute("SELECT scan_hash, sha256, size FROM shards ORDER BY scan_hash").fetchall()
        with self._checking():
            return {check_hash(row["scan_hash"]): (str(row["sha256"]), int(row["size"])) for row in found}

    def find(self, scan: str) -> list[Row]:
        """Scans of this name or path, or in the folder of this path; raises AnatomicalEmbeddingError for none."""
        absolute = str(Path(scan).absolute())
        found = [
            self._row(row)
            for row in self._db.execute(
                "SELECT * FROM scans WHERE scan IN (?1, ?2) OR path IN (?1, ?2)"
                " OR substr(path, 1, length(?2) + 1) IN (?2 || '/', ?2 || '\\') ORDER BY id",
                (scan, absolute),
            )
        ]
        if not found:
            raise AnatomicalEmbeddingError(f"{scan}: is not in this cohort; `anatemb cohort status --json` lists all.")
        return found

    def remove(self, rows: Iterable[Row]) -> None:
        """Forget scans. A duplicate takes the place of a removed original."""
        with self._changes():
            for row in rows:
                self._db.execute("DELETE FROM scans WHERE id = ?", (row.id,))
                if row.scan_hash is not None:
                    self._settle_duplicates(row.scan_hash)

    def again(self, scan_hash: str) -> None:
        """Let the scans of a lost shard wait again."""
        with self._changes():
            self._db.execute("DELETE FROM shards WHERE scan_hash = ?", (scan_hash,))
            self._db.execute(
                "UPDATE scans SET state = ?, reason = '', attempts = 0, scan_hash = NULL WHERE scan_hash = ?",
                (WAITING, scan_hash),
            )

    def drop_unused(self) -> list[str]:
        """Forget shards that no scan refers to any more; their content hashes."""
        with self._changes():
            unused = [
                row["scan_hash"]
                for row in self._db.execute(
                    "SELECT scan_hash FROM shards WHERE scan_hash NOT IN"
                    " (SELECT scan_hash FROM scans WHERE scan_hash IS NOT NULL)"
                )
            ]
            self._db.executemany("DELETE FROM shards WHERE scan_hash = ?", [(each,) for each in unused])
        return unused

    def _row(self, row: sqlite3.Row) -> Row:
        with self._checking():
            return Row.of(row)

    def _facts(self, row: sqlite3.Row) -> dict[str, Any]:
        with self._checking():
            facts = parse_json(row["facts"])
            check_facts(facts)
            return facts

    @contextmanager
    def _checking(self) -> Iterator[None]:
        """Names the file where what it holds is none of ours."""
        try:
            yield
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise _damaged(self.path) from error

    @contextmanager
    def _changes(self) -> Iterator[None]:
        """All of the changes inside, or none."""
        self._db.execute("BEGIN IMMEDIATE")
        try:
            yield
        except BaseException:
            self._db.execute("ROLLBACK")
            raise
        self._db.execute("COMMIT")
