"""Describes which part of the body a scan shows, and faults of the scan, such as swapped left and right sides."""

from dataclasses import dataclass

from AnatomicalEmbedding.errors import AnatomicalEmbeddingError

from ..shared.maps.MapStore import FAILED, READY, WAITING, WORKING, MapStore
from ..shared.VolumeNodes import isFilm
from .StructureFinder import madeFrom


@dataclass(frozen=True)
class CoverageRow:
    """The part of the body that one scan shows. holds: a description of this part, or the reason why the part is not
    known. isKnown: True if the part is known. faults: sentences about faults of the scan's stored orientation.
    """

    name: str
    holds: str
    isKnown: bool
    faults: tuple[str, ...] = ()


class CoverageLogic:
    """Makes the rows of the coverage table. The coverage of each map is computed once."""

    def __init__(self, store: MapStore) -> None:
        self.store = store
        # `madeFrom` of a map -> (holds, isKnown) of a CoverageRow
        self._coverage: dict[str, tuple[str, bool]] = {}

    def row(self, volumeNode) -> CoverageRow:
        """Return the row of a volume."""
        name = volumeNode.GetName()
        if isFilm(volumeNode):
            return CoverageRow(name, "a film", False)
        state = self.store.state(volumeNode)
        if state.status != READY:
            sentences = {
                WAITING: "waiting to be prepared",
                WORKING: f"being prepared, {100 * state.share:.0f} %",
                FAILED: state.sentence,
            }
            sentence = sentences.get(state.status, "not prepared yet")
            return CoverageRow(name, sentence, False)
        source = madeFrom(state.embedding)
        if source not in self._coverage:
            from AnatomicalEmbedding.embedding.coverage import find_coverage

            try:
                self._coverage[source] = find_coverage(state.embedding).text, True
            except AnatomicalEmbeddingError as error:
                self._coverage[source] = str(error), False
        return CoverageRow(name, *self._coverage[source], state.embedding.faults)
