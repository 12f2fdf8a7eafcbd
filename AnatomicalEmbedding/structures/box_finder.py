"""Finds boxes of structures in a scan, from a structure library or from a user's examples, with margins."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from ..anatomy.names import choose_names
from ..embedding.inference import Model
from ..embedding.map import EmbeddingMap
from ..errors import WeightsError
from ..matching.status import ABSENT
from .examples import SYNTHETIC, read_examples
from .library import StructureLibrary, shipped_library
from .locating import Example, Located, locate
from .margins import Margins, locate_examples

RECALL = 0.95  # usual share of a structure that its box shall hold; users choose another
_UNPROVEN = "the library knows this structure from synthetic patients only: in a patient, the box may cut it"


@dataclass(frozen=True, eq=False)
class StructureBox:
    """One structure in one scan.

    Args:
        name: name of the structure.
        status: "whole", "cut" (by the scan's edge), "uncertain" or "absent".
        box_ras: (2, 3) RAS mm, lowest and highest corner, with margins and clipped to the scan; None if absent.
        located: the box without margins, with its likely errors and remarks.
    """

    name: str
    status: str
    box_ras: np.ndarray | None
    located: Located


@dataclass(frozen=True, eq=False)
class BoxFinder:
    """Finds the boxes of structures in maps, by matching with examples of the structures.

    Args:
        examples: name of structure -> examples of the structure.
        margins: margins for boxes that are found from these examples.
        effort: effort of matching.
        recall: expected share of a structure inside its box, between 0 and 1.
        compare_examples: say which examples disagree with the others; False for a library, which a user cannot correct.

    Raises:
        AnatomicalEmbeddingError: the margins are None or cannot guarantee this recall.
    """

    examples: Mapping[str, Sequence[Example]]
    margins: Margins
    effort: str = "standard"
    recall: float = RECALL
    compare_examples: bool = True

    def __post_init__(self) -> None:
        if self.margins is None:
            raise WeightsError(
                "box margins are not measured for these weights; build their structure library, which measures them."
            )
        self.margins.times_for(self.recall)

    @classmethod
    def by_library(
        cls,
        library: StructureLibrary,
        structures: Sequence[str] | None = None,
        recall: float = RECALL,
    ) -> BoxFinder:
        """Make a finder from a library.

        Args:
            library: the library.
            structures: names in any spelling; None for all structures of the library.
            recall: expected share of a structure inside its box.
        """
        examples = choose_examples(library.examples, structures, "the structure library")
        return cls(examples, library.margins, library.effort, recall, compare_examples=False)

    @classmethod
    def by_folder(
        cls,
        folder: Path,
        model: Model,
        margins: Margins | None,
        structures: Sequence[str] | None = None,
        recall: float = RECALL,
        report: Callable[[str], None] = lambda sentence: None,
    ) -> BoxFinder:
        """Make a finder from the structures that a user marked in the scans of a folder; see `examples.read_examples`.

        Args:
            margins: general margins for a user's examples. These margins are adapted to the examples in the folder.
            report: called with a sentence for each structure that cannot be an example.
        """
        marked = read_examples(folder, model, report)
        if margins is not None:
            margins = margins.adapted(locate_examples(marked))
        examples = {name: [example for example, _ in pairs] for name, pairs in marked.items()}
        return cls(choose_examples(examples, structures, str(folder)), margins, recall=recall)

    def find(self, embedding: EmbeddingMap) -> dict[str, StructureBox]:
        """Find every structure in a map. Returns name of the structure -> box."""
        located = locate(self.examples, embedding, self.effort, self.compare_examples)
        boxes = {}
        for name, structure in located.items():
            if all(example.scan.startswith(SYNTHETIC) for example in self.examples[name]):
                structure = replace(structure, remarks=(*structure.remarks, _UNPROVEN))
            box = None
            if structure.status != ABSENT:
                box = self.margins.box(structure, self.recall)
            boxes[name] = StructureBox(name, structure.status, box, structure)
        return boxes


def choose_examples(
    examples: Mapping[str, Sequence[Example]], structures: Sequence[str] | None, holder: str
) -> dict[str, Sequence[Example]]:
    """Return the examples of some structures.

    Args:
        examples: name of structure -> examples.
        structures: names in any spelling; None for all structures.
        holder: the source of the examples, for messages.
    """
    names = choose_names(structures, examples, holder) if structures else examples
    return {name: examples[name] for name in names}


def open_library(
    weights_hash: str, model: str, path: str | Path | None = None, weights: Path | None = None
) -> StructureLibrary:
    """Read a structure library from a file; without `path`, read the library next to the weights, or a shipped library.

    Args:
        weights_hash: SHA-256 of the weights.
        model: name of the weights, for messages.
        path: file of the library.
        weights: file of the weights, if it is known.

    Raises WeightsError if there is no library for these weights.
    """
    if path is not None:
        library = StructureLibrary.load(path)
        if library.weights_hash != weights_hash:
            raise WeightsError(
                f"{path}: this library was built with other weights; use those weights, or build a new library."
            )
        return library
    shipped = shipped_library(weights_hash, weights)
    if shipped is None:
        raise WeightsError(
            f"{model}: no structure library ships for these weights; make a library with `anatemb structures build "
            "DATA -o FILE` and give this FILE as the library."
        )
    return shipped
