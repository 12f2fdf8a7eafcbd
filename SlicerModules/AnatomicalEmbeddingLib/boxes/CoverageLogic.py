"""Which part of the body each scan holds, in words, and whether it seems to be stored the wrong way round."""

from __future__ import annotations

from dataclasses import dataclass

from ..shared.maps.MapStore import FAILED, READY, WAITING, WORKING, MapStore
from .StructureFinder import madeFrom


@dataclass(frozen=True)
class CoverageRow:
    """Of one volume. holds: the part of the body in words, or why it is not known. known: is it? faults: how it seems
    to be stored wrongly.
    """

    name: str
    holds: str
    known: bool
    faults: tuple[str, ...] = ()


class CoverageLogic:
    """Rows of volumes; what was found of a map is kept."""

    def __init__(self, store: MapStore) -> None:
        self.store = store
        self._held: dict[str, tuple[str, bool]] = {}  # what the map is made from: words, known

    def row(self, volumeNode) -> CoverageRow:
        """What is known of a volume now."""
        state = self.store.state(volumeNode)
        if state.status != READY:
            why = {WAITING: "waiting to be prepared", WORKING: f"being prepared, {100 * state.share:.0f} %"}
            sentence = state.sentence if state.status == FAILED else why.get(state.status, "not prepared yet")
            return CoverageRow(volumeNode.GetName(), sentence, False)
        return CoverageRow(volumeNode.GetName(), *self._holds(state.embedding), state.embedding.faults)

    def _holds(self, embedding) -> tuple[str, bool]:
        from AnatomicalEmbedding.embedding.coverage import find_coverage
        from AnatomicalEmbedding.errors import AnatomicalEmbeddingError

        source = madeFrom(embedding)
        if source not in self._held:
            try:
                self._held[source] = find_coverage(embedding).text, True
            except AnatomicalEmbeddingError as error:
                self._held[source] = str(error), False
        return self._held[source]
