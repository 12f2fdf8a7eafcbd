"""Read the scans of a command one after another. A scan that cannot be used is reported and skipped."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from ..errors import AnatomicalEmbeddingError
from . import console

if TYPE_CHECKING:
    from ..embedding.inference import Model
    from ..embedding.map import EmbeddingMap
    from ..scan.volume import Volume


class Scans:
    """Finds the scans in the arguments of a command, and records the error of each scan that could not be used.

    Args:
        options: options of the command, with `scans`, `series` and `output`.
        paths, series: used instead of `options.scans` and `options.series` if `paths` is given.
    """

    def __init__(
        self, options: argparse.Namespace, paths: Sequence[str | Path] | None = None, series: Sequence[str] = ()
    ) -> None:
        from ..scan.sources import find_scans

        given, chosen = (options.scans, options.series) if paths is None else (paths, series)
        self._options = options
        self.sources = find_scans(given, console.warn, chosen, getattr(options, "output", None))
        self.names = {source.label: name for name, source in self.sources.items()}
        self.failed: list[str] = []

    @property
    def paths(self) -> list[Path]:
        """Files and folders of the scans. Results must not overwrite them."""
        return [Path(source.path) for source in self.sources.values()]

    def read(self) -> Iterator[tuple[str, str, Volume]]:
        """Yield the path (as tables print it), the name and the volume of each scan that can be read."""
        for name, source in self.sources.items():
            with self.skipping():
                volume = console.noted(replace(source.read(), name=name), source.label)
                yield source.label, name, volume

    @contextmanager
    def skipping(self) -> Iterator[None]:
        """Report the error of one scan and continue with the next scan. If only one scan was given, raise its error."""
        try:
            yield
        except AnatomicalEmbeddingError as error:
            if len(self.sources) == 1:
                raise
            self.failed.append(str(error))
            console.warn(f"skipped: {error}")

    def embedded(self, model: Model) -> Iterator[tuple[str, str, Volume, EmbeddingMap]]:
        """Yield the path, the name, the volume and the map of each scan that can be read and embedded."""
        for path, name, volume in self.read():
            with self.skipping():
                yield path, name, volume, console.embed(model, volume, self._options)

    def write_table(self, name: str, columns: Sequence[str], rows: Sequence[Sequence[object]]) -> list[Path]:
        """If there are rows, write NAME.csv into the output folder and return [path]; if not, return []."""
        path = self._options.output / f"{name}.csv"
        if rows:
            console.write_table(path, columns, rows)
        return [path] if rows else []

    def finish(
        self, results: dict[str, Sequence[object]], table: tuple[Sequence[str], Sequence[Sequence[object]]] | None,
        written: Sequence[Path],
    ) -> None:  # fmt: skip
        """Print the results of all scans. If a scan was skipped, raise AnatomicalEmbeddingError (exit code 2).

        Args:
            results: name -> records, printed with --json.
            table: header and rows, printed without --json.
            written: files that were written; their paths are printed.
        """
        if self._options.json:
            console.print_json(results | {"files": list(map(str, written)), "skipped": self.failed})
        else:
            if table is not None:
                console.print_table(*table)
            console.say_written(written)
        self.check()

    def check(self) -> None:
        """Raise AnatomicalEmbeddingError if a scan was skipped."""
        if self.failed:
            raise AnatomicalEmbeddingError(
                f"{len(self.failed)} of {len(self.sources)} scans were skipped; the lines above give the reasons."
            )
