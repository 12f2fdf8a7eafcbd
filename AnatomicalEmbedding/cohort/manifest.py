"""The manifest: one SQLite file with the scans of a cohort and their states. Interruptions do not damage the file."""

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
DUPLICATE = "duplicate"  # has the same content as an embedded scan
UNUSABLE = "unusable"  # not a CT, damaged or too large; embedded only after the file has changed
FAILED = "failed"  # the worker crashed, or an unexpected error occurred; the next run tries again
STATES = (WAITING, EMBEDDED, DUPLICATE, UNUSABLE, FAILED)
_FORMAT = 4  # stores of formats 1 to 3 have maps in an older format
_BATCH_SCANS = 100  # scans added in one transaction
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
    """One scan. scan: the scan's label, PATH or PATH#SERIES. reason: cause of `state`. Other fields: see `Source`."""

    id: int
    scan: str
    path: str
    series: str
    files: tuple[str, ...]
    size: int
    changed_ns: int
    state: str
    reason: str
    scan_hash: str | None

    @property
    def source(self) -> Source:
        """The Source of the scan; its method `read` reads the scan."""
        return Source(
            self.path, self.series, self.files, self.scan == self.path, self.size, self.changed_ns
        )

    @classmethod
    def of(cls, row: sqlite3.Row) -> Row:
        """Convert a row of the SQLite table. Raises ValueError or TypeError if another program changed the row."""
        values = {name: row[name] for name in cls.__dataclass_fields__}
        files = parse_json(row["files"])
        texts = [*(values[name] for name in ("scan", "path", "series", "reason")), *files]
        numbers = [values[name] for name in ("id", "size", "changed_ns")]
        if (
            not isinstance(files, list)
            or not all(isinstance(text, str) and "\0" not in text for text in texts)
            or not all(type(number) is int for number in numbers)
            or row["state"] not in STATES
        ):
            raise ValueError("not a scan")
        if row["scan_hash"] is not None:
            check_hash(row["scan_hash"])
        return cls(**values | {"files": tuple(files)})


class Manifest:
    """Reads and writes the manifest of a store. One process may write while other processes read.

    Every method raises AnatomicalEmbeddingError, naming the file, if the file is damaged or cannot be used.
    """

    def __init__(self, path: Path, create: bool = False) -> None:
        if not create and not path.is_file():
            raise AnatomicalEmbeddingError(
                f"{path.parent}: is not a cohort; make a cohort with `anatemb cohort run {path.parent} DIR`."
            )
        self.path = path
        with self._naming_file():
            self._db = sqlite3.connect(
                path, timeout=30, isolation_level=None, check_same_thread=False
            )
        self._db.row_factory = sqlite3.Row
        for command in ("PRAGMA journal_mode=WAL", "PRAGMA synchronous=NORMAL", *_TABLES):
            self._execute(command)
        self._upgrade()

    def close(self) -> None:
        self._db.close()

    @property
    def about(self) -> dict[str, str]:
        """Facts about the cohort: format, model (the weights), weights_hash, descriptors ("yes" or "no")."""
        return {
            str(row["key"]): str(row["value"])
            for row in self._execute("SELECT key, value FROM about")
        }

    @property
    def weights_hash(self) -> str:
        """SHA-256 of the weights with which all maps were made."""
        weights_hash = self.about.get("weights_hash")
        if not weights_hash:
            raise self._damaged("it names no weights")
        return weights_hash

    def set_about(self, values: dict[str, str]) -> None:
        """Record facts about the cohort. They hold for all later runs."""
        for pair in values.items():
            self._execute("INSERT OR REPLACE INTO about VALUES (?, ?)", pair)

    def add(self, sources: Iterable[Source]) -> Counter[str]:
        """Add scans. Returns counts of "new", "changed" and "known" scans; changed scans get the state waiting."""
        count = Counter[str]()
        remaining = iter(sources)
        # a batch is listed before the manifest is locked
        while batch := list(islice(remaining, _BATCH_SCANS)):
            with self._transaction():
                count.update(map(self._add, batch))
        return count

    def _add(self, source: Source) -> str:
        """Add a scan, or update a scan whose files have changed. Returns "new", "known" or "changed"."""
        rows = self._execute(
            "SELECT id, size, changed_ns, scan_hash FROM scans WHERE path = ? AND series = ?",
            (source.path, source.series),
        )
        values = (json.dumps(source.files), source.size, source.changed_ns, WAITING)
        if not rows:
            self._execute(
                "INSERT INTO scans (files, size, changed_ns, state, scan, path, series) VALUES (?, ?, ?, ?, ?, ?, ?)",
                (*values, source.label, source.path, source.series),
            )
            return "new"
        if (rows[0]["size"], rows[0]["changed_ns"]) == (source.size, source.changed_ns):
            return "known"
        self._execute(
            "UPDATE scans SET files = ?, size = ?, changed_ns = ?, state = ?, reason = '', scan_hash = NULL"
            " WHERE id = ?",
            (*values, rows[0]["id"]),
        )
        self._mark_duplicates(rows[0]["scan_hash"])  # a duplicate takes its place
        return "changed"

    def finish(self, row_id: int, state: str, reason: str = "", **values: Any) -> None:
        """Record the result of one scan.

        If several scans have the same content, the scan added first is embedded, and the other scans are duplicates.

        Args:
            row_id: id of the scan's row.
            state: how it ended.
            reason: why it was not embedded; else "".
            values: scan_hash; after embedding, also facts, sha256 and size of the map.
        """
        with self._transaction():
            finished = datetime.now(UTC).isoformat(timespec="seconds")
            self._execute(
                "UPDATE scans SET state = ?, reason = ?, scan_hash = ?, finished = ? WHERE id = ?",
                (state, reason, values.get("scan_hash"), finished, row_id),
            )
            if state == EMBEDDED:
                scan_hash = values["scan_hash"]
                facts = json.dumps(values["facts"])
                self._execute(
                    "INSERT OR REPLACE INTO maps VALUES (?, ?, ?, ?)",
                    (scan_hash, values["sha256"], values["size"], facts),
                )
                self._mark_duplicates(scan_hash)

    def _mark_duplicates(self, scan_hash: str | None) -> None:
        """Of all scans with this content, mark the first as embedded and the later ones as its duplicates.

        scan_hash: the content; no scan has the content None.
        """
        equal = self._execute(
            "SELECT id, scan FROM scans WHERE scan_hash = ? AND state IN (?, ?) ORDER BY id",
            (scan_hash, EMBEDDED, DUPLICATE),
        )
        for number, row in enumerate(equal):
            state = EMBEDDED
            reason = ""
            if number > 0:
                state = DUPLICATE
                reason = f"the same content as {equal[0]['scan']}"
            self._execute(
                "UPDATE scans SET state = ?, reason = ? WHERE id = ?", (state, reason, row["id"])
            )

    def due(self) -> list[int]:
        """Return the row IDs of the waiting and failed scans, in the order in which they were added."""
        rows = self._execute(
            "SELECT id FROM scans WHERE state IN (?, ?) ORDER BY id", (WAITING, FAILED)
        )
        return [row["id"] for row in rows]

    def row(self, row_id: int) -> Row:
        """Return the scan with this id."""
        return self._rows(self._execute("SELECT * FROM scans WHERE id = ?", (row_id,)))[0]

    def counts(self) -> dict[str, int]:
        """Return how many scans are in each state of STATES."""
        counts = dict.fromkeys(STATES, 0)
        for row in self._execute("SELECT state, count(*) AS scans FROM scans GROUP BY state"):
            counts[row["state"]] = row["scans"]
        return counts

    def rows(self, *states: str) -> list[Row]:
        """Return the scans in these states, in the order of addition. If no state is given, return all scans."""
        condition = f"WHERE state IN ({', '.join('?' * len(states))})" if states else ""
        return self._rows(self._execute(f"SELECT * FROM scans {condition} ORDER BY id", states))

    def embedded(self) -> list[tuple[Row, dict[str, Any]]]:
        """Return the embedded scans and their facts."""
        rows = self._execute(
            "SELECT scans.*, facts FROM scans JOIN maps USING (scan_hash) WHERE state = ? ORDER BY id",
            (EMBEDDED,),
        )
        with self._naming_file():
            facts = [parse_json(row["facts"]) for row in rows]
            for row_facts in facts:
                check_facts(row_facts)
        return list(zip(self._rows(rows), facts, strict=True))

    def map_files(self) -> dict[str, tuple[str, int]]:
        """Return SHA-256 and size in bytes of every map file, by the content hash of the scan."""
        rows = self._execute("SELECT scan_hash, sha256, size FROM maps ORDER BY scan_hash")
        with self._naming_file():
            return {
                check_hash(row["scan_hash"]): (str(row["sha256"]), int(row["size"])) for row in rows
            }

    def find(self, scan: str) -> list[Row]:
        """Return the scans whose label, path or folder is `scan`. Raises AnatomicalEmbeddingError if no scan fits."""
        rows = self._execute(
            "SELECT * FROM scans WHERE scan IN (?1, ?2) OR path IN (?1, ?2)"
            " OR substr(path, 1, length(?2) + 1) IN (?2 || '/', ?2 || '\\') ORDER BY id",
            (scan, str(Path(scan).absolute())),
        )
        if not rows:
            raise AnatomicalEmbeddingError(
                f"{scan}: not in the cohort; list scans by `anatemb cohort status --json`."
            )
        return self._rows(rows)

    def remove(self, rows: Iterable[Row]) -> None:
        """Remove scans from the manifest. The first duplicate of a removed scan gets the state embedded."""
        with self._transaction():
            for row in rows:
                self._execute("DELETE FROM scans WHERE id = ?", (row.id,))
                if row.scan_hash is not None:
                    self._mark_duplicates(row.scan_hash)

    def embed_again(self, scan_hash: str) -> None:
        """Set all scans of a lost map file to the state waiting, so that the next run embeds these scans again."""
        with self._transaction():
            self._execute("DELETE FROM maps WHERE scan_hash = ?", (scan_hash,))
            self._execute(
                "UPDATE scans SET state = ?, reason = '', scan_hash = NULL WHERE scan_hash = ?",
                (WAITING, scan_hash),
            )

    def drop_unused(self) -> list[str]:
        """Remove the entries of map files that no scan uses. Returns the content hashes in these entries."""
        unused = "scan_hash NOT IN (SELECT scan_hash FROM scans WHERE scan_hash IS NOT NULL)"
        with self._transaction():
            rows = self._execute(f"SELECT scan_hash FROM maps WHERE {unused}")
            self._execute(f"DELETE FROM maps WHERE {unused}")
        return [row["scan_hash"] for row in rows]

    def _upgrade(self) -> None:
        """Write the current format number into the manifest. If the manifest had an older format, all scans that have a
        map get the state "waiting", so that they are embedded again."""
        with self._naming_file():
            version = int(self.about.get("format", 0))
        if version > _FORMAT:
            raise AnatomicalEmbeddingError(
                f"{self.path}: was written by a newer program; update this program."
            )
        if version < _FORMAT:
            with self._transaction():
                self._execute(
                    "UPDATE scans SET state = ?, reason = '', scan_hash = NULL WHERE state IN (?, ?)",
                    (WAITING, EMBEDDED, DUPLICATE),
                )
                self.set_about({"format": str(_FORMAT)})

    def _execute(self, command: str, values: Sequence[Any] = ()) -> list[sqlite3.Row]:
        """Run an SQL command with the values of its parameters. Returns the rows of its result."""
        with self._naming_file():
            return self._db.execute(command, values).fetchall()

    def _rows(self, records: Iterable[sqlite3.Row]) -> list[Row]:
        with self._naming_file():
            return list(map(Row.of, records))

    @contextmanager
    def _naming_file(self) -> Iterator[None]:
        """Turn the errors of a damaged file into AnatomicalEmbeddingError, which names the file."""
        try:
            yield
        except (sqlite3.Error, AttributeError, KeyError, TypeError, ValueError) as error:
            raise self._damaged(error) from error

    def _damaged(self, error: object) -> AnatomicalEmbeddingError:
        return AnatomicalEmbeddingError(
            f"{self.path}: is damaged or cannot be used ({error}); check its permissions and the disk, or make a new "
            "cohort in another folder."
        )

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        """Do all changes in the `with` block or, if it raises an error, none of them."""
        with self._naming_file(), self._db:
            self._db.execute("BEGIN IMMEDIATE")
            yield
