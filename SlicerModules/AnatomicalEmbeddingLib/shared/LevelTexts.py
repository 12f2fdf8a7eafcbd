"""The level of the spine in each slice view, for example "L3"."""

from AnatomicalEmbedding.spine.vertebrae import level_text

from .maps.MapStore import MapStore
from .Views import viewsOf
from .VolumeNodes import fromWorld, isFilm

_AXIAL = 0.9  # least part of a slice's normal along S


def levelText(volumeNode, sliceNode, store: MapStore) -> str:
    """Return the level of the slice of a view, such as "L3" or "L3 or L4".

    Other than axial views get the level of the scan's first axial view, such as "axial slice: L3". Returns "" if no
    axial view shows the scan, if its slice shows no vertebra, or if the scan has no map.

    Args:
        volumeNode: the scan in the view, or None.
        sliceNode: the view.
        store: the maps.
    """
    embedding = store.map(volumeNode)
    if embedding is None or isFilm(volumeNode):
        return ""
    for node in [sliceNode, *viewsOf(sliceNode.GetScene(), volumeNode)]:
        matrix = node.GetSliceToRAS()
        if abs(matrix.GetElement(2, 2)) > _AXIAL:
            middle = fromWorld(volumeNode, [[matrix.GetElement(axis, 3) for axis in range(3)]])[0]
            level = level_text(embedding.spine, float(middle[2]))
            return level if node is sliceNode or not level else f"axial slice: {level}"
    return ""
