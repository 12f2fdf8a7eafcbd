"""The level of the spine in each axial slice view, for example "L3"."""

from __future__ import annotations

from .maps.MapStore import MapStore
from .VolumeNodes import fromWorld, isFilm

_AXIAL = 0.9  # least part of a slice's normal along S


def levelText(volumeNode, sliceNode, store: MapStore) -> str:
    """Return the level of the slice of a view, such as "L3" or "L3 or L4". volumeNode: the scan in the view, or None.

    Returns "" for a view that is not axial, if the slice shows no vertebra, or if the scan has no map.
    """
    matrix = sliceNode.GetSliceToRAS()
    embedding = store.map(volumeNode) if abs(matrix.GetElement(2, 2)) > _AXIAL else None
    if embedding is None or isFilm(volumeNode):
        return ""
    from AnatomicalEmbedding.words.scan_levels import level_at  # loads torch

    middle = fromWorld(volumeNode, [[matrix.GetElement(axis, 3) for axis in range(3)]])[0]
    return level_at(embedding, float(middle[2]))
