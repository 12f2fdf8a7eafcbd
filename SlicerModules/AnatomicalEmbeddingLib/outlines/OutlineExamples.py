"""Segmentations as examples: which scan each was drawn on, and its segments on that scan's voxels."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import slicer

from ..boxes.Segments import maskIn, segmentIds
from ..shared.VolumeNodes import hasVoxels


@dataclass(frozen=True, eq=False)
class OutlinedScan:
    """A scan and the segmentation that was drawn on it."""

    volume: object
    segmentation: object

    def labels(self) -> tuple[np.ndarray, list[str]]:
        """(k, j, i) uint8 on the scan's voxels, 0 or 1 + the number of a structure, and the structures' names; where
        segments overlap, the later one is kept. Raises PointsError where none of them has voxels in the scan.
        """
        from AnatomicalEmbedding.anatomy.names import canonical_name
        from AnatomicalEmbedding.errors import PointsError

        result = np.zeros(self.volume.GetImageData().GetDimensions()[::-1], np.uint8)
        names: list[str] = []
        for segmentId in segmentIds(self.segmentation):
            mask = maskIn(self.volume, self.segmentation, segmentId)
            if mask is not None and mask.any():
                name = canonical_name(self.segmentation.GetSegmentation().GetSegment(segmentId).GetName())
                if name not in names:
                    names.append(name)
                result[mask] = names.index(name) + 1
        if not names:
            raise PointsError(
                f"{self.segmentation.GetName()}: outlines nothing in {self.volume.GetName()}; segment it first."
            )
        return result, names


def outlinedScans(segmentations: Sequence) -> list[OutlinedScan]:
    """Each segmentation with its scan. Raises PointsError, whose sentence says what to mend, for one without a scan,
    and for two of the same scan.
    """
    from AnatomicalEmbedding.errors import PointsError

    found: dict[str, OutlinedScan] = {}
    for node in segmentations:
        volume = node.GetNodeReference(slicer.vtkMRMLSegmentationNode.GetReferenceImageGeometryReferenceRole())
        if volume is None or not hasVoxels(volume):
            raise PointsError(
                f"{node.GetName()}: the scan that it was drawn on is not known; choose it as source volume in the "
                "Segment Editor."
            )
        if volume.GetID() in found:
            raise PointsError(
                f"{node.GetName()}: outlines the same scan as {found[volume.GetID()].segmentation.GetName()}; tick one."
            )
        found[volume.GetID()] = OutlinedScan(volume, node)
    return list(found.values())


def looksOf(segmentations: Sequence) -> dict[str, tuple[str, tuple[float, float, float]]]:
    """Of each structure, name and colour of the first segment of that name: outlines of other scans get the same."""
    from AnatomicalEmbedding.anatomy.names import canonical_name

    found: dict[str, tuple[str, tuple[float, float, float]]] = {}
    for node in segmentations:
        for segmentId in segmentIds(node):
            segment = node.GetSegmentation().GetSegment(segmentId)
            found.setdefault(canonical_name(segment.GetName()), (segment.GetName(), tuple(segment.GetColor())))
    return found
