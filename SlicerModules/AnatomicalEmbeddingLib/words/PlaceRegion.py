"""Draws the region of a place as a segmentation over the scan. Only kept segmentations are saved and listed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import slicer
import slicer.util
from vtk.util.numpy_support import numpy_to_vtk
from vtk.util.vtkConstants import VTK_UNSIGNED_CHAR

from ..shared import SceneNodes, Views
from ..shared.Markers import PassingNodes
from ..shared.VolumeNodes import followVolume

if TYPE_CHECKING:
    from AnatomicalEmbedding.words import Place

_FINER = 2  # voxels per cell of the place's grid, along each axis, for smooth edges
# (probability in the region, colour, opacity)
_SHARES = ((0.5, (1.0, 0.82, 0.2), 0.35), (0.9, (0.3, 0.65, 1.0), 0.0))


@dataclass(frozen=True, eq=False)
class Region:
    """The region of a place. masks: two (k, j, i) uint8 arrays, the smallest regions that contain the place with
    50 % and 90 % probability. origin: (3,) centre of the first voxel, the scan's own RAS mm. step: (3,) voxel size, mm.
    """

    masks: tuple[np.ndarray, ...]
    origin: np.ndarray
    step: np.ndarray


def regionOf(place: Place) -> Region | None:
    """Return the region to draw; None if the scan does not show the place. May run in a background thread."""
    if place.point_ras is None or place.region.total <= 0:
        return None
    import torch

    # the probability of each cell, with an empty cell around
    values = torch.from_numpy(np.pad(place.region.values, 1))[None, None]
    fine = torch.nn.functional.interpolate(
        values, scale_factor=_FINER, mode="trilinear", align_corners=False
    )[0, 0]
    masks = tuple(
        (fine.numpy() >= place.least_chance(share)).astype(np.uint8)
        for share, _colour, _inside in _SHARES
    )
    step = np.asarray(place.grid.step, np.float64) / _FINER
    # centre of the first cell, with the empty cell; a cell has `_FINER` voxels along each axis
    first = np.asarray(place.grid.origin) + place.grid.step * (np.array(place.region.first) - 1)
    return Region(masks, first - (_FINER - 1) / 2 * step, step)


class RegionNodes(PassingNodes):
    """The segmentations that draw regions, at most one for each scan."""

    def show(self, volumeNode, title: str, region: Region | None) -> None:
        """Draw a region over a scan and remove the region drawn before.

        Args:
            volumeNode: the scan.
            title: name of the region.
            region: the region; None to draw no region.
        """
        self.drop(volumeNode.GetID())
        if region is None:
            return
        node = self.add(volumeNode, "vtkMRMLSegmentationNode", title)
        SceneNodes.addHiddenItem(self.scene, node)
        node.CreateDefaultDisplayNodes()
        display = node.GetDisplayNode()
        display.SetSaveWithScene(False)
        display.SetVisibility3D(False)  # so that Slicer computes no surface
        node.SetAndObserveTransformNodeID(volumeNode.GetTransformNodeID())
        for mask, (share, colour, inside) in zip(region.masks, _SHARES, strict=True):
            name = f"{title}, region with {share:.0%} of the probability"
            segmentId = node.AddSegmentFromBinaryLabelmapRepresentation(
                _image(mask, region), name, colour
            )
            display.SetSegmentOpacity2DFill(segmentId, inside)
            display.SetSegmentVisibility3D(segmentId, False)
        Views.showOnlyIn(display, self.scene, volumeNode)

    def keep(self) -> None:
        """Make the drawn regions ordinary segmentations, which are listed and saved with the scene."""
        for volumeId, node in self._nodes.items():
            name = f"{node.GetName()} in {self.scene.GetNodeByID(volumeId).GetName()}"
            node.SetName(SceneNodes.freeName(self.scene, name))
            SceneNodes.showItem(self.scene, node)
            for part in (node, node.GetDisplayNode()):
                part.SetSaveWithScene(True)
        self._nodes = {}

    def follow(self) -> None:
        """Give each region the transform of its scan, and draw it only in the views that show the scan."""
        for volumeId, node in list(self._nodes.items()):
            volume = self.scene.GetNodeByID(volumeId)
            if volume is None or node.GetScene() is not self.scene:
                self.drop(volumeId)
            else:
                followVolume(node, volume)
        super().follow()


def _image(mask: np.ndarray, region: Region):
    """Return a mask (k, j, i) of a region as image for a segmentation."""
    image = slicer.vtkOrientedImageData()
    image.SetDimensions(*mask.shape[::-1])
    image.SetOrigin(*region.origin)
    image.SetSpacing(*region.step)
    image.GetPointData().SetScalars(
        numpy_to_vtk(mask.ravel(), deep=True, array_type=VTK_UNSIGNED_CHAR)
    )
    return image
