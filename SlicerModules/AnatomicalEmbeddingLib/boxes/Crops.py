"""Crops volumes to boxes. A crop is a new volume node with unchanged voxels of the source volume.

The box is used as it is in the scene now, with all corrections and transforms of the user.
"""

from collections.abc import Sequence

import numpy as np
import slicer.util

from AnatomicalEmbedding.errors import AnatomicalEmbeddingError, PointsError, VolumeError
from AnatomicalEmbedding.scan.boxes import enclosing, grown

from ..shared.VolumeNodes import addDerived, hasVoxels, ijkToRas
from .BoxLogic import BoxLogic
from .StructureNames import readable

_ROUNDING_MM = 1e-3  # boxes shrink by MRML's rounding error, so that a side on a voxel border adds no layer of voxels


def cropAll(
    boxes: BoxLogic,
    volumeNodes: Sequence,
    structures: Sequence[str],
    separately: bool = False,
    marginMm: float = 0.0,
) -> list:
    """Crop several volumes with `crop`, and return the new nodes. Report the volumes that cannot be cropped.

    Args:
        boxes: the boxes of the scene.
        volumeNodes: the volumes.
        structures, separately, marginMm: as in `crop`.
    """
    crops = []
    failed = 0
    for volume in volumeNodes:
        try:
            crops += crop(boxes, volume, structures, separately, marginMm)
        except AnatomicalEmbeddingError as error:
            failed += 1
            boxes.reported.emit(str(error))
    failures = f"; {failed} of {len(volumeNodes)} scans could not be cropped" if failed else ""
    boxes.reported.emit(f"{len(crops)} {'crop' if len(crops) == 1 else 'crops'} made{failures}.")
    return crops


def crop(
    boxes: BoxLogic,
    volumeNode,
    structures: Sequence[str],
    separately: bool = False,
    marginMm: float = 0.0,
) -> list:
    """Crop a volume around the structures that have a box in this volume, and return the new volume nodes.

    Args:
        separately: True to make one crop for each structure, False to make one crop that contains all structures.
        marginMm: mm added on every side of the box. The crop ends at the volume's border.

    Raises:
        AnatomicalEmbeddingError: no crop can be made; the message names the volume.
    """
    if not hasVoxels(volumeNode):
        raise VolumeError(f"{volumeNode.GetName()}: holds no 3-D image; choose a CT volume.")
    boxByName = boxes.boxesOf(volumeNode, structures)
    if not boxByName:
        names = ", ".join(map(readable, structures))
        raise PointsError(
            f"{volumeNode.GetName()}: has no box of {names}; press Find boxes, or do not crop this scan."
        )
    if not separately:
        box = enclosing(list(boxByName.values()))
        return [_cut(volumeNode, list(boxByName), box, "crop", marginMm)]
    crops = []
    errors = []
    for name, box in boxByName.items():
        try:
            crops.append(_cut(volumeNode, [name], box, readable(name), marginMm))
        except VolumeError as error:
            errors.append(f"{readable(name)} in {error}")
    if not crops:
        raise VolumeError(errors[0])
    for sentence in errors:
        boxes.reported.emit(sentence)
    return crops


def _cut(volume, structures: list[str], box: np.ndarray, suffix: str, marginMm: float):
    """Add the part of a volume in a box as a volume of its own. box: (2, 3) in the volume's own RAS mm."""
    from AnatomicalEmbedding.scan.cropping import voxel_block

    voxels = slicer.util.arrayFromVolume(volume)
    matrix = ijkToRas(volume)
    box = grown(box, np.full(6, marginMm - _ROUNDING_MM))
    block = voxel_block(matrix, voxels.shape, box, volume.GetName())
    # to the first voxel of the block; the block is (k, j, i), the matrix takes (i, j, k)
    matrix[:3, 3] += matrix[:3, :3] @ [part.start for part in reversed(block)]
    name = f"{volume.GetName()} {suffix}"
    cropNode = addDerived(volume.GetScene(), name, volume, voxels[block].copy(), matrix, volume)
    cropNode.SetAttribute("AnatomicalEmbedding.CropStructures", ",".join(structures))
    cropNode.SetAttribute("AnatomicalEmbedding.CropMarginMm", f"{marginMm:g}")
    names = ", ".join(map(readable, structures))
    cropNode.SetDescription(f"Part of {volume.GetName()} around {names}")
    return cropNode
