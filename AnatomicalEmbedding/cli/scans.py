"""Read the scans of a command one after another. A scan that cannot be used is reported and skipped."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from ..errors import AnatomicalEmbeddingError
from ..files import write_table
from . import console

if TYPE_CHECKING:
    from ..dicom.source import SourceSeries
    from ..embedding.inference import Model
    from ..embedding.map import EmbeddingMap
    from ..scan.points import Measurement, PointList
    from ..scan.sources import Source
    from ..scan.volume import Volume


class Scans:
    """Finds the scans in the arguments of a command, and records the error of each scan that could not be used.

    series: with --dicom, the DICOM images of the scan that was read last; its DICOM results refer to them.

    Args:
        options: options of the command, with `scans`, `series` and `output`.
        paths, series: used instead of `options.scans` and `options.series` if `paths` is given.
    """

    def __init__(
        self,
        options: argparse.Namespace,
        paths: Sequence[str | Path] | None = None,
        series: Sequence[str] = (),
    ) -> None:
        from ..scan.sources import find_scans

        if paths is None:
            paths = options.scans
            series = options.series
        self._options = options
        self.sources = find_scans(paths, console.warn, series, getattr(options, "output", None))
        self.names = {source.label: name for name, source in self.sources.items()}
        self.failed: list[str] = []
        self.series: SourceSeries | None = None

    @property
    def paths(self) -> list[Path]:
        """Files and folders of the scans. Results must not overwrite them."""
        return [Path(source.path) for source in self.sources.values()]

    def read(
        self, check: Callable[[Volume], Volume] | None = None
    ) -> Iterator[tuple[str, str, Volume]]:
        """Yield the path (as tables print it), the name and the volume of each scan that can be read.

        check: which scans the weights accept, as in `Volume.read`.
        """
        from ..scan.volume import Film

        for name, source in self.sources.items():
            with self.skipping():
                self._find_series(source)
                volume = source.read(check)
                if isinstance(volume, Film):
                    volume = volume.with_width(getattr(self._options, "film_width_mm", None))
                volume = console.noted(replace(volume, name=name), source.label)
                yield source.label, name, volume

    def _find_series(self, source: Source) -> None:
        """With --dicom, read the headers of the scan's slices, to which its DICOM results refer."""
        if getattr(self._options, "dicom", False):
            from ..dicom.source import source_of

            self.series = source_of(source)

    def write_points_report(
        self,
        name: str,
        points: PointList,
        error_mm: Sequence[float | None] = (),
        tracking_uids: Sequence[str] = (),
        measurements: Sequence[Measurement] = (),
    ) -> list[Path]:
        """With --dicom, write the points of a scan to NAME.sr.dcm in the output folder.

        Args:
            name: name of the scan.
            points, error_mm, tracking_uids, measurements: as for `dicom.sr.write_points_report`.

        Returns [path], or [] without --dicom or without points.
        """
        if self.series is None:
            return []
        from ..dicom.sr import write_points_report

        if not len(points):
            console.warn(f"{self.series.label}: shows no point, so no DICOM report was written.")
            return []
        path = self._options.output / f"{name}.sr.dcm"
        write_points_report(points, self.series, path, error_mm, tracking_uids, measurements)
        return [path]

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
        for path, name, volume in self.read(model.check_scan):
            with self.skipping():
                yield path, name, volume, console.embed(model, volume, self._options.json)

    def write_table(
        self, name: str, columns: Sequence[str], rows: Sequence[Sequence[object]]
    ) -> list[Path]:
        """If there are rows, write NAME.csv into the output folder and return [path]; if not, return [].

        Args:
            name: name of the table.
            columns: names of the columns.
            rows: the rows.
        """
        if not rows:
            return []
        path = self._options.output / f"{name}.csv"
        write_table(path, columns, rows)
        return [path]

    def finish(
        self,
        results: dict[str, Sequence[object]],
        table: tuple[Sequence[str], Sequence[Sequence[object]]] | None,
        written: Sequence[Path],
    ) -> None:
        """Print the results of all scans. With --store, send the DICOM files. If a scan was skipped, raise
        AnatomicalEmbeddingError (exit code 2).

        Args:
            results: name -> records, printed with --json.
            table: header and rows, printed without --json.
            written: files that were written; their paths are printed.
        """
        if self._options.json:
            console.print_json(results | console.as_files(written) | {"skipped": self.failed})
        else:
            if table is not None:
                console.print_table(*table)
            console.say_written(written)
        console.store(self._options, written)
        self.check()

    def check(self) -> None:
        """Raise AnatomicalEmbeddingError if a scan was skipped."""
        if self.failed:
            raise AnatomicalEmbeddingError(
                f"{len(self.failed)} of {len(self.sources)} scans were skipped; the lines above give the reasons."
            )


class StoredScans(Scans):
    """The embedded scans of a cohort. Their maps are read from the store; their images are not read.

    Args:
        options: as for `Scans`.
        folder: folder of the cohort.
    """

    def __init__(self, options: argparse.Namespace, folder: Path) -> None:
        from ..cohort.manifest import EMBEDDED
        from ..cohort.store import Store
        from ..scan.sources import distinct_names

        with Store(folder) as store:
            rows = store.manifest.rows(EMBEDDED)
            paths = [store.map_path(str(row.scan_hash)) for row in rows]
        if not rows:
            raise AnatomicalEmbeddingError(
                f"{folder}: has no embedded scan yet; run `anatemb cohort run` first."
            )
        names = distinct_names([row.scan for row in rows])
        super().__init__(options, [])
        self.sources = {name: row.source for name, row in zip(names, rows, strict=True)}
        self.names = {row.scan: name for name, row in zip(names, rows, strict=True)}
        self._map_paths = dict(zip(names, paths, strict=True))

    def maps(self) -> Iterator[tuple[str, str, None, EmbeddingMap]]:
        """Yield the path, the name, None and the map of each scan whose map can be read."""
        from ..embedding.map import EmbeddingMap

        for name, source in self.sources.items():
            with self.skipping():
                self._find_series(source)
                yield source.label, name, None, EmbeddingMap.load(self._map_paths[name])
