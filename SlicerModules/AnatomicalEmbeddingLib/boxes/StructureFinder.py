"""Finds boxes of structures in scans, with a structure library and a user's own examples.

Each box is enlarged to reach a recall, that is, the fraction of the structure that the box should contain. This code
uses no scene nodes, so it may run in a background thread.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from AnatomicalEmbedding.anatomy.names import canonical_name
from AnatomicalEmbedding.errors import AnatomicalEmbeddingError, WeightsError
from AnatomicalEmbedding.files import file_sha256, once_a_change
from AnatomicalEmbedding.resources import companions

from .BoxNodes import FoundBox
from .StructureNames import sortKey

if TYPE_CHECKING:
    from AnatomicalEmbedding.embedding.map import EmbeddingMap
    from AnatomicalEmbedding.structures.box_finder import BoxFinder, StructureBox
    from AnatomicalEmbedding.structures.library import StructureLibrary
    from AnatomicalEmbedding.structures.locating import Example

_weightsHash = once_a_change(file_sha256)  # cached, because the panel calls it often


def libraryFile(weightsPath: Path, chosen: str = "") -> Path | None:
    """Return the library file `chosen`. If `chosen` is "", return the library of the weights, or None.

    The library of the weights lies next to the weights file, or ships with this program.
    """
    if chosen:
        return Path(chosen)
    if not weightsPath.is_file():
        return None
    weightsHash = _weightsHash(weightsPath)
    for path in companions("Structures", ".structures.safetensors", weightsPath):
        if _description(path)["weights_sha256"] == weightsHash:
            return path
    return None


def namesIn(path: Path) -> list[str]:
    """Return the sorted names of the structures in a library file, read without torch; empty for a damaged file."""
    try:
        return sorted(map(canonical_name, _description(path)["structures"]), key=sortKey)
    except Exception:
        return []


def openLibrary(
    path: Path | None, weightsPath: Path, names: Sequence[str], ownExamples: bool, recall: float
) -> StructureLibrary:
    """Read a library file and check it. Call this before scans are embedded, so that the user gets errors early.

    Args:
        path: the library file; None if there is none.
        weightsPath: the weights that the library must be built with.
        names: structures that the library must contain.
        ownExamples: True if the user's own examples are used too.
        recall: share of each structure that its box must contain, 0 to 1.

    Raises:
        AnatomicalEmbeddingError: `path` is None, or the library file is damaged, was built with other weights, lacks
            one of the structures, or has margins that do not reach the recall.
    """
    from AnatomicalEmbedding.structures.box_finder import BoxFinder
    from AnatomicalEmbedding.structures.library import StructureLibrary

    if path is None:
        raise WeightsError(
            f"{weightsPath.stem}: no structure library ships for these weights; choose other weights, or a library "
            "file that was built with these weights."
        )
    library = StructureLibrary.load(path)
    if library.weights_hash != _weightsHash(weightsPath):
        raise WeightsError(
            f"{path}: the library was built with other weights; choose the weights of this library, or another library."
        )
    # both raise the error of names or margins; the finders themselves are made by `Finder`
    if names:
        BoxFinder.by_library(library, names, recall)
    if ownExamples:
        BoxFinder({}, library.example_margins, recall=recall)
    return library


class Finder:
    """Finds structures with a library and the user's examples. remarks: sentences about unusable examples."""

    def __init__(
        self,
        library: StructureLibrary,
        names: Sequence[str],
        markings: Sequence[tuple[str, str, np.ndarray, np.ndarray | None, EmbeddingMap]],
        recall: float,
    ) -> None:
        """Prepare the search.

        names: structures to find with the library. markings: one tuple for each example (structure, name for
        messages, box, positions, map of the scan); box and positions come from `MarkedExample.read`. Raises
        AnatomicalEmbeddingError if `names` is empty and no example is usable, or if margins do not reach the recall.
        """
        from AnatomicalEmbedding.structures.box_finder import BoxFinder
        from AnatomicalEmbedding.structures.locating import make_example
        from AnatomicalEmbedding.structures.margins import locate_examples

        self.remarks: list[str] = []
        # structure -> its examples, each with the map of its scan
        ownExamples: dict[str, list[tuple[Example, EmbeddingMap]]] = {}
        for structure, name, box, extremes, embedding in markings:
            try:
                example = make_example(embedding, box, extremes)
                ownExamples.setdefault(structure, []).append((example, embedding))
            except AnatomicalEmbeddingError as error:
                self.remarks.append(f"{name}: {error}")
        # (finder, whether it uses the user's examples)
        self._finders: list[tuple[BoxFinder, bool]] = []
        if names:
            self._finders.append((BoxFinder.by_library(library, names, recall), False))
        if ownExamples:
            # the margins of the library, adapted to how well these examples find each other
            margins = library.example_margins.adapted(locate_examples(ownExamples))
            examples = {
                name: [example for example, _embedding in pairs]
                for name, pairs in ownExamples.items()
            }
            self._finders.append((BoxFinder(examples, margins, recall=recall), True))
        if not self._finders:
            raise AnatomicalEmbeddingError(" ".join(self.remarks))

    def find(
        self, embedding: EmbeddingMap, without: set[str]
    ) -> list[tuple[FoundBox, np.ndarray | None]]:
        """Search one scan for all structures except those in `without`. Returns (answer, box) for each structure; the
        box is (2, 3) in RAS mm, or None if the structure is absent.
        """
        answers = []
        for finder, byOwn in self._finders:
            searched = {
                name: examples for name, examples in finder.examples.items() if name not in without
            }
            for name, result in replace(finder, examples=searched).find(embedding).items():
                located = result.located
                answer = FoundBox(
                    name,
                    located.status,
                    finder.recall,
                    round(located.present, 3),
                    tuple(round(float(mm), 2) for mm in located.sigma_mm),
                    located.cut,
                    located.remarks,
                    byOwn,
                    madeFrom(embedding),
                    _enlargement(result),
                )
                answers.append((answer, result.box_ras))
        return answers


def _enlargement(result: StructureBox) -> float:
    """Return the volume of a box, divided by its volume before it was enlarged; 0 for an absent structure."""
    if result.box_ras is None:
        return 0.0
    ungrownMm3 = np.ptp(result.located.in_scan(result.located.box_ras), axis=0).prod()
    return round(float(np.ptp(result.box_ras, axis=0).prod() / max(ungrownMm3, 1.0)), 2)


def madeFrom(embedding: EmbeddingMap) -> str:
    """Return a short key that identifies the weights of a map and the voxels of the map's scan."""
    return f"{embedding.provenance.weights_hash[:12]}-{embedding.provenance.scan_hash[:12]}"


@once_a_change
def _description(path: Path) -> dict:
    """Return the JSON text in the header of a library file as a dict. The header is read without torch."""
    # a .safetensors file begins with the length of its header (8 bytes), then the header, which is JSON
    with path.open("rb") as file:
        length = int.from_bytes(file.read(8), "little")
        header = json.loads(file.read(min(length, path.stat().st_size)))
    return json.loads(next(iter(header["__metadata__"].values())))
