"""Boxes of structures in scans, grown for a recall: by a structure library and by a user's own examples together.

Works on plain values, so that it may run in a background thread.
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

_weightsHash = once_a_change(file_sha256)  # the panel asks at each change of the recall


def libraryFile(weightsPath: Path, chosen: str = "") -> Path | None:
    """The chosen library file, else the one that ships for these weights, or None."""
    if chosen:
        return Path(chosen)
    if not weightsPath.is_file():
        return None
    wanted = _weightsHash(weightsPath)
    shipped = sorted(resource("Structures").glob("*.structures.safetensors"))
    return next((path for path in shipped if _description(path)["weights_sha256"] == wanted), None)


def namesIn(path: Path) -> list[str]:
    """Structures of a library file, sorted, read without torch; empty for a damaged file: `openLibrary` refuses it."""
    try:
        return sorted(map(canonical_name, _description(path)["structures"]), key=sortKey)
    except Exception:
        return []


def openLibrary(
    path: Path | None, weightsPath: Path, names: Sequence[str], ownExamples: bool, recall: float
) -> StructureLibrary:
    """Read the library of these weights, and check it before a scan is prepared.

    Raises AnatomicalEmbeddingError for None, a damaged library, one of other weights, one without these names, and one
    that cannot promise the recall for them, or with `ownExamples` for boxes by a user's own examples.
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
    """Finds structures of a library, and marked ones, in scans. remarks: about examples that could not be used."""

    def __init__(
        self, library: StructureLibrary, names: Sequence[str], markings: Sequence[tuple[Marking, EmbeddingMap]]
    ) -> None:
        """markings: each with its scan's map. Raises AnatomicalEmbeddingError where no structure is left."""
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
        # examples by structure, effort, margins, and whether the examples are the user's own
        self._parts: list[tuple[dict[str, list[Example]], str, Margins, bool]] = []
        if names:
            known = choose_names(names, library.examples, "the structure library")
            examples = {name: library.examples[name] for name in known}
            self._parts.append((examples, library.effort, _required(library.margins), False))
        if own:
            margins = _required(library.example_margins).adapted(located_by_others(own))
            examples = {name: [example for example, _embedding in of] for name, of in own.items()}
            self._parts.append((examples, "standard", margins, True))
        if not self._parts:
            raise AnatomicalEmbeddingError(" ".join(self.remarks))

    def find(self, embedding: EmbeddingMap, recall: float, without: set[str]) -> list[tuple[FoundBox, np.ndarray]]:
        """Search one scan; returns answers, each with its box (2, 3) in the scan's RAS mm.

        without: structures that are not searched for.
        """
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
    """The weights and the voxels that a map, and the boxes found in it, come from."""
    return f"{embedding.provenance.weights_hash[:12]}-{embedding.provenance.scan_hash[:12]}"


def _required(margins: Margins | None) -> Margins:
    if margins is None:
        raise WeightsError("This library has no margins for these boxes; build it again from labelled scans.")
    return margins


@once_a_change
def _description(path: Path) -> dict:
    """The JSON in a library file's header, read without packages."""
    with path.open("rb") as file:
        length = int.from_bytes(file.read(8), "little")
        header = json.loads(file.read(min(length, path.stat().st_size)))
    return json.loads(next(iter(header["__metadata__"].values())))
