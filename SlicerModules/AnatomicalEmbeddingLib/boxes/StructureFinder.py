"""Where structures are in scans, with boxes grown for a recall: the library and a user's own examples together.

All of it works on plain values and may run in a background thread.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from .BoxNodes import FoundBox
from .StructureExamples import Marking

if TYPE_CHECKING:
    from AnatomicalEmbedding.embedding.map import EmbeddingMap
    from AnatomicalEmbedding.structures.library import StructureLibrary
    from AnatomicalEmbedding.structures.locating import Example
    from AnatomicalEmbedding.structures.margins import Margins


@dataclass(frozen=True, eq=False)
class Part:
    """Structures that are looked for in one way. byOwn: by a user's own examples."""

    examples: dict[str, list[Example]]
    effort: str
    margins: Margins
    byOwn: bool


@dataclass(frozen=True, eq=False)
class Finder:
    """Finds structures in any scan by the same weights. remarks: sentences about examples that could not be used."""

    parts: tuple[Part, ...]
    recall: float
    remarks: tuple[str, ...] = field(default=())

    def find(self, embedding: EmbeddingMap, without: Collection[str] = ()) -> list[tuple[FoundBox, np.ndarray]]:
        """What is known of each structure, but for some, and its box (2, 3) in the scan's own RAS mm."""
        from AnatomicalEmbedding.structures.locating import locate

        found = []
        for part in self.parts:
            wanted = {name: of for name, of in part.examples.items() if name not in without}
            for name, located in locate(wanted, embedding, part.effort).items():
                sigma = tuple(round(float(mm), 2) for mm in located.sigma_mm)
                box = part.margins.box(located, self.recall)
                own = located.in_scan(located.box_ras)
                times = float(np.ptp(box, axis=0).prod() / max(np.ptp(own, axis=0).prod(), 1.0))
                known = FoundBox(
                    name, located.status, self.recall, round(located.present, 3), sigma, located.cut, located.remarks,
                    part.byOwn, madeFrom(embedding), round(times, 2),
                )  # fmt: skip
                found.append((known, box))
        return found


def madeFrom(embedding: EmbeddingMap) -> str:
    """Which weights and which voxels a box is from."""
    return f"{embedding.provenance.weights_hash[:12]}-{embedding.provenance.scan_hash[:12]}"


def openLibrary(path: Path | None, weightsHash: str, weightsName: str) -> StructureLibrary:
    """The library in a file. Raises WeightsError where there is none for these weights, or it is damaged."""
    from AnatomicalEmbedding.errors import WeightsError
    from AnatomicalEmbedding.structures.library import StructureLibrary

    if path is None:
        raise WeightsError(
            f"{weightsName}: no structure library ships for these weights; choose a library file that was built with "
            "them, or other weights."
        )
    library = StructureLibrary.load(path)
    if library.weights_hash != weightsHash:
        raise WeightsError(f"{path}: was built with other weights; choose those in the set-up, or another library.")
    return library


def checkRecall(library: StructureLibrary, names: Sequence[str], ownNames: Sequence[str], recall: float) -> None:
    """Raise AnatomicalEmbeddingError where this recall cannot be promised, before anything takes long."""
    library.select(names)
    for margins, wanted in ((library.margins, names), (library.example_margins, ownNames)):
        if wanted:
            _known(margins).times_for(recall)


def makeFinder(
    library: StructureLibrary, names: Sequence[str], marked: Sequence[tuple[Marking, EmbeddingMap]], recall: float
) -> Finder:
    """What looks for structures of the library and for those that are marked, each mark with its scan's map.

    Raises AnatomicalEmbeddingError where nothing can be looked for: its sentences state why.
    """
    from AnatomicalEmbedding.errors import AnatomicalEmbeddingError
    from AnatomicalEmbedding.structures.locating import stored
    from AnatomicalEmbedding.structures.margins import located_by_others

    own: dict[str, list[tuple[Example, EmbeddingMap]]] = {}
    remarks = []
    for marking, embedding in marked:
        try:
            example = stored(marking.example(embedding))
        except AnatomicalEmbeddingError as error:
            remarks.append(f"{marking.name}: {error}")
            continue
        own.setdefault(marking.structure, []).append((example, embedding))
    parts = []
    if names:
        parts.append(Part(library.select(names), library.effort, _known(library.margins), False))
    if own:
        margins = _known(library.example_margins).adapted(located_by_others(own))
        examples = {name: [example for example, _embedding in of] for name, of in own.items()}
        parts.append(Part(examples, "standard", margins, True))
    if not parts:
        raise AnatomicalEmbeddingError(" ".join(remarks) or "No structure was chosen; tick some in the library.")
    return Finder(tuple(parts), recall, tuple(remarks))


def _known(margins: Margins | None) -> Margins:
    from AnatomicalEmbedding.errors import WeightsError

    if margins is None:
        raise WeightsError("This library knows no margins for these boxes; build it again from labelled scans.")
    return margins
