"""What locate and crop share: which structures to look for, by which examples, in which scans."""

from __future__ import annotations

import argparse
import glob
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from ..errors import AnatomicalEmbeddingError, WeightsError, did_you_mean
from .console import add_model_options, add_series_option, open_model, progress_bar, read_scan, unique_names

if TYPE_CHECKING:
    import numpy as np

    from ..embedding import EmbeddingMap
    from ..inference import Model
    from ..localization import Example, Located
    from ..margins import Margins
    from ..structure_library import StructureLibrary
    from ..volume import Volume

_ROI_SUFFIX = ".roi.mrk.json"


def add_box_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("scans", nargs="+", metavar="SCAN", help="CT files, DICOM folders, or folders of CT files")
    parser.add_argument(
        "--structures", metavar="A,B,...", help="names of structures (see `anatemb structures`); default: all there are"
    )
    parser.add_argument("--library", type=Path, metavar="FILE", help="structure library (default: the shipped one)")
    parser.add_argument(
        "--examples",
        type=Path,
        metavar="DIR",
        help="your own examples, in place of the library's: scans NAME.nii.gz with NAME.seg.nii.gz + NAME.labels.json, "
        f"or with boxes drawn in Slicer, each saved as NAME.STRUCTURE{_ROI_SUFFIX}",
    )
    parser.add_argument(
        "--recall", type=float, default=0.95, metavar="R",
        help="grow boxes until they are expected to hold this share of the structure (default: 0.95)",
    )  # fmt: skip
    parser.add_argument("-o", "--output", type=Path, required=True, metavar="DIR", help="folder for the results")
    add_series_option(parser)
    add_model_options(parser)


class BoxFinder:
    """Examples, effort and margins by what the options say, ready to locate in any scan."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.model: Model = open_model(options)
        self._options = options
        self.effort, margins, examples = self._from_examples() if options.examples else self._from_library()
        if options.structures:
            names = [name.strip() for name in options.structures.split(",") if name.strip()]
            missing = [name for name in names if name not in examples]
            if missing or not names:
                unknown = [f"{name}{did_you_mean(name, examples)}" for name in missing]
                raise AnatomicalEmbeddingError(
                    f"{', '.join(unknown) or '--structures'}: not among the structures: {', '.join(sorted(examples))}."
                )
            examples = {name: examples[name] for name in names}
        self.examples: dict[str, list[Example]] = examples
        if margins is None:
            raise WeightsError("no margins are known for these weights; build a structure library with them.")
        margins.times_for(options.recall)  # refuses a recall that cannot be promised, before long work
        self.margins: Margins = margins

    def locate(self, volume: Volume) -> dict[str, Located]:
        """Every structure in a scan."""
        from ..localization import locate

        with progress_bar(volume.name or "scan") as progress:
            return locate(self.examples, self.model.embed(volume, progress), self.effort)

    def box(self, located: Located) -> np.ndarray:
        """With the margins that the recall needs."""
        return self.margins.box(located, self._options.recall)

    def _from_library(self) -> tuple[str, Margins | None, dict[str, list[Example]]]:
        library = open_library(self.model, self._options.library)
        return library.effort, library.margins, dict(library.examples)

    def _from_examples(self) -> tuple[str, Margins | None, dict[str, list[Example]]]:
        from ..margins import located_by_others

        margins = open_library(self.model, self._options.library).example_margins
        marked = read_examples(self._options.examples, self.model)
        examples = {name: [example for example, _ in of] for name, of in marked.items()}
        return "standard", None if margins is None else margins.adapted(located_by_others(marked)), examples


def open_library(model: Model, path: Path | None) -> StructureLibrary:
    """The library in a file, or the one that ships; for these weights."""
    from ..structure_library import StructureLibrary, shipped_library

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


def read_examples(folder: Path, model: Model) -> dict[str, list[tuple[Example, EmbeddingMap]]]:
    """Examples by structure, each with its scan's map, from a folder of labelled scans and of scans with ROI files.

    Raises AnatomicalEmbeddingError where there is none; structures that cannot be examples are named on stderr.
    """
    from ..evaluation.box_cases import labelled_boxes
    from ..evaluation.dataset import list_scans, load_case
    from ..localization import make_example, stored
    from ..volume import Volume

    if not folder.is_dir():
        raise AnatomicalEmbeddingError(f"{folder}: no such folder; give a folder of example scans.")
    examples: dict[str, list[tuple[Example, EmbeddingMap]]] = {}
    for scan in list_scans(folder):
        case = load_case(scan)
        marked: dict[str, tuple[np.ndarray, np.ndarray | None]] = {}
        if case is not None and case.structures:
            known = next(iter(labelled_boxes([case]))).structures
            marked = {name: (structure.box_ras, structure.extremes_ras) for name, structure in known.items()}
        for name, reason in case.left_out.items() if case is not None else ():
            print(f"anatemb: {scan.name}: {name} is no example: {reason}", file=sys.stderr)
        marked |= {name: (box, None) for name, box in _drawn_boxes(scan).items()}
        if marked:
            embedding = model.embed(Volume.read(scan))
            for name, (box, extremes) in marked.items():
                examples.setdefault(name, []).append((stored(make_example(embedding, box, extremes)), embedding))
    if not examples:
        raise AnatomicalEmbeddingError(
            f"{folder}: holds no example; put NAME.seg.nii.gz + NAME.labels.json or NAME.STRUCTURE{_ROI_SUFFIX} beside "
            "a scan NAME."
        )
    return examples


def _drawn_boxes(scan: Path) -> dict[str, np.ndarray]:
    """Boxes of the ROI files beside a scan, by structure: named in the file, or in its name, as Slicer saves none."""
    from ..boxes import read_rois
    from ..evaluation.structures import normalise_name
    from ..image_files import display_name

    stem = display_name(scan)
    boxes: dict[str, np.ndarray] = {}
    for path in sorted(scan.parent.glob(f"{glob.escape(stem)}.*")):
        if not path.name.endswith(_ROI_SUFFIX):
            continue
        named = path.name.removeprefix(f"{stem}.").removesuffix(_ROI_SUFFIX[1:]).strip(".")
        for name, box in read_rois(path, unnamed=named or "box").items():
            boxes[normalise_name(name)] = box
    return boxes


def read_all(options: argparse.Namespace, failed: list[str]) -> Iterator[tuple[str, str, Volume, int]]:
    """Path, short name and volume of each scan, and how many scans there are.

    One that cannot be read is named and the next one follows.

    failed: gets a sentence for each; a single scan that fails ends the command.
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
    """Say which scan failed and go on, or end the command where it was the only one."""
    if scans == 1:
        raise error
    failed.append(str(error))
    print(f"anatemb: skipped: {error}", file=sys.stderr)


def finish(failed: list[str], done: list) -> None:
    """Raise where no scan came to anything, or some did not: the exit code tells."""
    if failed:
        count = "no scan" if not done else f"all but {len(failed)} of the scans"
        raise AnatomicalEmbeddingError(f"{count} could be used; see the lines above.")


def scan_paths(given: list[str]) -> list[Path]:
    """Scans as given; folders that hold image files stand for these."""
    from ..evaluation.dataset import list_scans

    paths: list[Path] = []
    for path in map(Path, given):
        paths += (list_scans(path) if path.is_dir() else []) or [path]
    return paths
