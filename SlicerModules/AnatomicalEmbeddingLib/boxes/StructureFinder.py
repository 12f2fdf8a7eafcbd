"""Find boxes of structures in scans, with a structure library and a user's own examples. Boxes are grown for a recall.

This code uses no scene nodes, so it may run in a background thread.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from AnatomicalEmbedding.anatomy.names import canonical_name, choose_names
from AnatomicalEmbedding.errors import AnatomicalEmbeddingError, WeightsError
from AnatomicalEmbedding.files import file_sha256, once_a_change
from AnatomicalEmbedding.resources import resource

from .BoxNodes import FoundBox
from .StructureExamples import Marking
from .StructureNames import sortKey

if TYPE_CHECKING:
    from AnatomicalEmbedding.embedding.map import EmbeddingMap
    from AnatomicalEmbedding.structures.library import StructureLibrary
    from AnatomicalEmbedding.structures.locating import Example
    from AnatomicalEmbedding.structures.margins import Margins

_weightsHash = once_a_change(file_sha256)  # cached, because the panel calls it often


def libraryFile(weightsPath: Path, chosen: str = "") -> Path | None:
    """The chosen library file. If none is chosen, the library that ships for these weights; None if none ships."""
    if chosen:
        return Path(chosen)
    if not weightsPath.is_file():
        return None
    wanted = _weightsHash(weightsPath)
    shipped = sorted(resource("Structures").glob("*.structures.safetensors"))
    return next((path for path in shipped if _description(path)["weights_sha256"] == wanted), None)


def namesIn(path: Path) -> list[str]:
    """Sorted names of a library file's structures, read without torch; empty for a file that `openLibrary` refuses."""
    try:
        return sorted(map(canonical_name, _description(path)["structures"]), key=sortKey)
    except Exception:
        return []


def openLibrary(
    path: Path | None, weightsPath: Path, names: Sequence[str], ownExamples: bool, recall: float
) -> StructureLibrary:
    """Read a library file, and check it before a scan is prepared.

    ownExamples: True if a user's own examples are searched for too. Raises AnatomicalEmbeddingError if `path` is None,
    if the file is damaged or was built with other weights, if it lacks one of these names, or if its margins do not
    reach the recall.
    """
    from AnatomicalEmbedding.structures.library import StructureLibrary

    if path is None:
        raise WeightsError(
            f"{weightsPath.stem}: no structure library ships for these weights; choose a library file that was built "
            "with them, or other weights."
        )
    library = StructureLibrary.load(path)
    if library.weights_hash != _weightsHash(weightsPath):
        raise WeightsError(f"{path}: was built with other weights; choose them in the set-up, or another library.")
    choose_names(names, library.examples, "the structure library")
    for margins, isWanted in ((library.margins, names), (library.example_margins, ownExamples)):
        if isWanted:
            _required(margins).times_for(recall)
    return library


class Finder:
    """Finds structures in scans, with a library and a user's examples. remarks: sentences about unusable examples."""

    def __init__(
        self, library: StructureLibrary, names: Sequence[str], markings: Sequence[tuple[Marking, EmbeddingMap]]
    ) -> None:
        """Prepare the search.

        names: structures to find with the library. markings: each example with the map of its scan. Raises
        AnatomicalEmbeddingError if there is no name and no usable example.
        """
        from AnatomicalEmbedding.structures.box_finder import choose_examples
        from AnatomicalEmbedding.structures.locating import make_example
        from AnatomicalEmbedding.structures.margins import located_by_others

        self.remarks: list[str] = []
        own: dict[str, list[tuple[Example, EmbeddingMap]]] = {}
        for marking, embedding in markings:
            try:
                example = make_example(embedding, marking.box, marking.extremes)
                own.setdefault(marking.structure, []).append((example, embedding))
            except AnatomicalEmbeddingError as error:
                self.remarks.append(f"{marking.name}: {error}")
        # each part: (examples by structure, effort, margins, True for the user's own examples)
        self._parts: list[tuple[dict[str, list[Example]], str, Margins, bool]] = []
        if names:
            examples = choose_examples(library.examples, names, "the structure library")
            self._parts.append((examples, library.effort, _required(library.margins), False))
        if own:
            margins = _required(library.example_margins).adapted(located_by_others(own))
            examples = {name: [example for example, _embedding in of] for name, of in own.items()}
            self._parts.append((examples, "standard", margins, True))
        if not self._parts:
            raise AnatomicalEmbeddingError(" ".join(self.remarks))

    def find(self, embedding: EmbeddingMap, recall: float, without: set[str]) -> list[tuple[FoundBox, np.ndarray]]:
        """Search one scan, except for the structures `without`. Returns answers with boxes (2, 3) in RAS mm."""
        from AnatomicalEmbedding.structures.locating import locate

        answers = []
        for structures, effort, margins, byOwn in self._parts:
            wanted = {name: examples for name, examples in structures.items() if name not in without}
            for name, located in locate(wanted, embedding, effort).items():
                box = margins.box(located, recall)
                ungrown = np.ptp(located.in_scan(located.box_ras), axis=0).prod()
                answer = FoundBox(
                    name, located.status, recall, round(located.present, 3),
                    tuple(round(float(mm), 2) for mm in located.sigma_mm), located.cut, located.remarks, byOwn,
                    madeFrom(embedding), round(float(np.ptp(box, axis=0).prod() / max(ungrown, 1.0)), 2),
                )  # fmt: skip
                answers.append((answer, box))
        return answers


def madeFrom(embedding: EmbeddingMap) -> str:
    """A short text that identifies the weights and the scan's voxels from which a map was made."""
    return f"{embedding.provenance.weights_hash[:12]}-{embedding.provenance.scan_hash[:12]}"


def _required(margins: Margins | None) -> Margins:
    if margins is None:
        raise WeightsError("This library has no margins for these boxes; build it again from labelled scans.")
    return margins


@once_a_change
def _description(path: Path) -> dict:
    """The JSON in a library file's header, read with the standard library alone."""
    with path.open("rb") as file:
        length = int.from_bytes(file.read(8), "little")
        header = json.loads(file.read(min(length, path.stat().st_size)))
    return json.loads(next(iter(header["__metadata__"].values())))
