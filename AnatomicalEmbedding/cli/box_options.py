"""Common part of locate and crop: structures, examples and scans by the options."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from ..anatomy.names import choose_names
from ..errors import AnatomicalEmbeddingError, WeightsError
from .console import names_in, open_model, progress_bar, read_scan, report_faults, unique_names

if TYPE_CHECKING:
    import numpy as np

    from ..embedding.inference import Model
    from ..scan.volume import Volume
    from ..structures.library import StructureLibrary
    from ..structures.locating import Example, Located
    from ..structures.margins import Margins


def add_box_options(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("scans", nargs="+", metavar="SCAN", help="CT files, DICOM folders, or folders of CT files")
    add(
        "--structures", metavar="A,B,...", help="names of structures (see `anatemb structures`); default: all there are"
    )
    add("--library", type=Path, metavar="FILE", help="structure library (default: the shipped one)")
    add(
        "--examples",
        type=Path,
        metavar="DIR",
        help="your own examples, in place of the library's: scans NAME.nii.gz with NAME.seg.nii.gz + NAME.labels.json, "
        "or with boxes drawn in Slicer, each saved as NAME.STRUCTURE.roi.mrk.json",
    )
    add(
        "--recall",
        type=float,
        default=0.95,
        metavar="R",
        help="grow boxes until they are expected to hold this share of the structure (default: 0.95)",
    )
    add("-o", "--output", type=Path, required=True, metavar="DIR", help="folder for the results")


class BoxFinder:
    """Examples, effort and margins by the options, ready to locate in any scan."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.model: Model = open_model(options)
        self._options = options
        self.effort, margins, examples = self._from_examples() if options.examples else self._from_library()
        if options.structures:
            wanted, holder = names_in(options.structures), str(options.examples or "the structure library")
            if not wanted:
                raise AnatomicalEmbeddingError("--structures: names no structure; write --structures liver,spleen.")
            examples = {name: examples[name] for name in choose_names(wanted, examples, holder)}
        self.examples: dict[str, list[Example]] = examples
        if margins is None:
            raise WeightsError("there are no margins for these weights; build a structure library with them.")
        margins.times_for(options.recall)  # raises for a recall that cannot be guaranteed, before long work
        self.margins: Margins = margins

    def locate(self, volume: Volume) -> dict[str, Located]:
        """Every structure in a scan."""
        from ..structures.locating import locate

        with progress_bar(volume.name or "scan") as progress:
            embedding = self.model.embed(volume, progress)
            found = locate(self.examples, embedding, self.effort)
        report_faults(volume, embedding)
        return found

    def box(self, located: Located) -> np.ndarray:
        """With the margins that the recall needs."""
        return self.margins.box(located, self._options.recall)

    def _from_library(self) -> tuple[str, Margins | None, dict[str, list[Example]]]:
        library = open_library(self.model, self._options.library)
        return library.effort, library.margins, dict(library.examples)

    def _from_examples(self) -> tuple[str, Margins | None, dict[str, list[Example]]]:
        from ..structures.examples import read_examples
        from ..structures.margins import located_by_others

        margins = open_library(self.model, self._options.library).example_margins
        marked = read_examples(self._options.examples, self.model, _report)
        examples = {name: [example for example, _ in of] for name, of in marked.items()}
        return "standard", None if margins is None else margins.adapted(located_by_others(marked)), examples


def _report(line: str) -> None:
    print(f"anatemb: {line}", file=sys.stderr)


def open_library(model: Model, path: Path | None) -> StructureLibrary:
    """The library in a file, or the one that ships; for these weights."""
    from ..structures.library import StructureLibrary, shipped_library

    if path is not None:
        library = StructureLibrary.load(path)
        library.check(model.weights_hash, path)
        return library
    shipped = shipped_library(model.weights_hash)
    if shipped is None:
        raise WeightsError(
            f"{model.name}: no structure library ships for these weights; build one with `anatemb structures "
            "build` and give it with --library."
        )
    return shipped


def read_all(options: argparse.Namespace, failed: list[str]) -> Iterator[tuple[str, str, Volume, int]]:
    """Path, short name and volume of each scan, and how many scans there are.

    One that cannot be read is reported and skipped.

    failed: receives a sentence for each; a single scan that fails ends the command.
    """
    paths = scan_paths(options.scans)
    for path, name in zip(paths, unique_names(paths), strict=True):
        try:
            volume = read_scan(path, options.series)
        except AnatomicalEmbeddingError as error:
            note_failure(error, failed, len(paths))
            continue
        yield str(path), name, volume, len(paths)


def note_failure(error: AnatomicalEmbeddingError, failed: list[str], scans: int) -> None:
    """Report a scan that failed, or end the command where it was the only one."""
    if scans == 1:
        raise error
    failed.append(str(error))
    print(f"anatemb: skipped: {error}", file=sys.stderr)


def finish(failed: list[str], done: list) -> None:
    """Raise AnatomicalEmbeddingError, for the exit code, where some or all scans failed."""
    if failed:
        count = "no scan" if not done else f"all but {len(failed)} of the scans"
        raise AnatomicalEmbeddingError(f"{count} could be used; see the lines above.")


def scan_paths(given: list[str]) -> list[Path]:
    """Paths of scans; folders of image files are replaced by these files."""
    from ..structures.labelled_scans import list_scans

    paths: list[Path] = []
    for path in map(Path, given):
        paths += (list_scans(path) if path.is_dir() else []) or [path]
    return paths
