"""Boxes of structures in scans, grown for a recall: by a structure library and by a user's own examples together.

Works on plain values, so that it may run in a background thread.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from AnatomicalEmbedding.anatomy.names import canonical_name, choose_names
from AnatomicalEmbedding.errors import AnatomicalEmbeddingError, WeightsError
from AnatomicalEmbedding.files import file_sha256, once_a_change

from ..shared.maps.Worker import Work
from .BoxNodes import FoundBox
from .StructureExamples import Marking
from .StructureNames import sortKey

if TYPE_CHECKING:
    from AnatomicalEmbedding.embedding.map import EmbeddingMap
    from AnatomicalEmbedding.structures.library import StructureLibrary
    from AnatomicalEmbedding.structures.locating import Example
    from AnatomicalEmbedding.structures.margins import Margins

weightsHash = once_a_change(file_sha256)  # the panel asks at each change of the recall


def libraryFile(weightsPath: Path, chosen: str = "") -> Path | None:
    """The chosen library file, else the one that ships for these weights, or None."""
    from AnatomicalEmbedding.resources import resource

    if chosen:
        return Path(chosen)
    if not weightsPath.is_file():
        return None
    wanted = weightsHash(weightsPath)
    shipped = sorted(resource("Structures").glob("*.structures.safetensors"))
    return next((path for path in shipped if _description(path).get("weights_sha256") == wanted), None)


def namesIn(path: Path) -> list[str]:
    """Structures of a library file, sorted, read without torch; empty for a damaged file: `openLibrary` refuses it."""
    return sorted(map(canonical_name, _description(path).get("structures", ())), key=sortKey)


def openLibrary(path: Path | None, weightsPath: Path) -> StructureLibrary:
    """Read the library of these weights. Raises WeightsError for a damaged one, one of other weights, and for None."""
    from AnatomicalEmbedding.structures.library import StructureLibrary

    if path is None:
        raise WeightsError(
            f"{weightsPath.stem}: no structure library ships for these weights; choose a library file that was built "
            "with them, or other weights."
        )
    library = StructureLibrary.load(path)
    if library.weights_hash != weightsHash(weightsPath):
        raise WeightsError(f"{path}: was built with other weights; choose them in the set-up, or another library.")
    return library


def checkRecall(library: StructureLibrary, names: Sequence[str], ownNames: Sequence[str], recall: float) -> None:
    """Raise AnatomicalEmbeddingError where this recall cannot be promised, before a scan is prepared for it."""
    choose_names(names, library.examples, "the structure library")
    for margins, wanted in ((library.margins, names), (library.example_margins, ownNames)):
        if wanted:
            _required(margins).times_for(recall)


@dataclass(frozen=True, eq=False)
class _Part:
    """Structures that are found in one way. byOwn: by a user's own examples."""

    examples: dict[str, list[Example]]
    effort: str
    margins: Margins
    byOwn: bool


@dataclass(frozen=True, eq=False)
class Finder:
    """Finds structures in scans of the same weights. remarks: sentences about examples that could not be used."""

    parts: tuple[_Part, ...]
    recall: float
    remarks: tuple[str, ...]

    def work(self, embedding: EmbeddingMap, without: Collection[str] = ()) -> Work:
        """The search in one scan, for a Worker; its result is a list of (answer, box (2, 3) in the scan's RAS mm).

        without: structures that are not searched for.
        """
        return lambda *_: [
            found for part in self.parts for found in _findPart(part, embedding, self.recall, set(without))
        ]


def makeFinder(
    library: StructureLibrary, names: Sequence[str], markings: Sequence[tuple[Marking, EmbeddingMap]], recall: float
) -> Finder:
    """Prepare the search for structures of the library and for marked ones.

    markings: each with its scan's map. Raises AnatomicalEmbeddingError where no structure is left to search for.
    """
    from AnatomicalEmbedding.structures.margins import located_by_others

    own: dict[str, list[tuple[Example, EmbeddingMap]]] = {}
    remarks = []
    for marking, embedding in markings:
        try:
            example = marking.example(embedding)
        except AnatomicalEmbeddingError as error:
            remarks.append(f"{marking.name}: {error}")
        else:
            own.setdefault(marking.structure, []).append((example, embedding))
    parts = []
    if names:
        known = {
            name: library.examples[name] for name in choose_names(names, library.examples, "the structure library")
        }
        parts.append(_Part(known, library.effort, _required(library.margins), False))
    if own:
        margins = _required(library.example_margins).adapted(located_by_others(own))
        examples = {name: [example for example, _embedding in of] for name, of in own.items()}
        parts.append(_Part(examples, "standard", margins, True))
    if not parts:
        raise AnatomicalEmbeddingError(" ".join(remarks) or "No structure was chosen; tick some in the library.")
    return Finder(tuple(parts), recall, tuple(remarks))


def madeFrom(embedding: EmbeddingMap) -> str:
    """The weights and the voxels that a map, and the boxes found in it, come from."""
    return f"{embedding.provenance.weights_hash[:12]}-{embedding.provenance.scan_hash[:12]}"


def _findPart(part: _Part, embedding: EmbeddingMap, recall: float, without: set[str]):
    from AnatomicalEmbedding.structures.locating import locate

    wanted = {name: examples for name, examples in part.examples.items() if name not in without}
    for name, located in locate(wanted, embedding, part.effort).items():
        box = part.margins.box(located, recall)
        ungrown = np.ptp(located.in_scan(located.box_ras), axis=0).prod()
        answer = FoundBox(
            name, located.status, recall, round(located.present, 3),
            tuple(round(float(mm), 2) for mm in located.sigma_mm), located.cut, located.remarks, part.byOwn,
            madeFrom(embedding), round(float(np.ptp(box, axis=0).prod() / max(ungrown, 1.0)), 2),
        )  # fmt: skip
        yield answer, box


def _required(margins: Margins | None) -> Margins:
    if margins is None:
        raise WeightsError("This library has no margins for these boxes; build it again from labelled scans.")
    return margins


def _description(path: Path) -> dict:
    """The JSON in a library file's header; empty where it cannot be read."""
    try:
        header = _header(path)
    except (OSError, ValueError, KeyError, StopIteration, TypeError, AttributeError):
        return {}
    return header if isinstance(header, dict) else {}


@once_a_change
def _header(path: Path) -> object:
    with path.open("rb") as file:
        length = int.from_bytes(file.read(8), "little")
        header = json.loads(file.read(min(length, path.stat().st_size)))
    return json.loads(next(iter(header["__metadata__"].values())))
