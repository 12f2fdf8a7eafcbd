"""Volumes cut down to boxes: new volume nodes with exactly the voxels of the source, one scan after the other."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import slicer
import slicer.util

from ..shared import SceneNodes
from ..shared.Signal import Listener, Signal
from ..shared.VolumeNodes import SOURCE_ROLE, copyLooks, hasVoxels, ijkToRas
from .BoxLogic import BoxLogic
from .StructureNames import readable

STRUCTURES, RECALL, MARGIN = (
    f"AnatomicalEmbedding.{what}" for what in ("CropStructures", "CropRecall", "CropMarginMm")
)

_ROUNDING_MM = 1e-3  # by which MRML may have moved the sides of a box that lies on the borders of voxels


@dataclass(eq=False)
class _Batch:
    structures: tuple[str, ...]
    separately: bool
    marginMm: float
    waiting: list
    total: int
    made: list = field(default_factory=list)
    skipped: int = 0


class CropLogic(Listener):
    """changed(): a crop was made, or the batch has ended. reported(sentence): to be read. made(crops): volume nodes
    of a batch that has ended.

    Boxes are those of the scene as they are now, corrected by hand or not, wherever they and the volumes were moved.
    """

    def __init__(self, scene, boxes: BoxLogic) -> None:
        self.scene, self.boxes = scene, boxes
        self.changed, self.reported, self.made = Signal(), Signal(), Signal()
        self._batch: _Batch | None = None
        self.observe(scene, scene.StartCloseEvent, lambda *_: self.cancel())
        self.atEnd(self.cancel)

    def crop(self, volumeNode, structures: Sequence[str], separately: bool = False, marginMm: float = 0.0) -> list:
        """New volume nodes: one around all of the structures that have a box in the volume, or one around each.

        marginMm: further mm on every side. Boxes are clipped to the volume; structures without a box are passed over.
        Raises AnatomicalEmbeddingError where nothing can be cropped, whose sentence names the volume.
        """
        from AnatomicalEmbedding.errors import VolumeError
        from AnatomicalEmbedding.scan.boxes import enclosing

        if not hasVoxels(volumeNode):
            raise VolumeError(f"{volumeNode.GetName()}: holds no 3-D image; choose a CT volume.")
        found = self.boxes.boxesOf(volumeNode, structures)
        if not found:
            wanted = ", ".join(map(readable, structures))
            raise VolumeError(
                f"{volumeNode.GetName()}: has no box of {wanted}; press Find boxes, or it does not show them."
            )
        if not separately:
            around = enclosing([box for box, _recall in found.values()])
            return [self._cut(volumeNode, found, around, "crop", marginMm)]
        crops, missed = [], []
        for name, (box, recall) in found.items():
            try:
                crops.append(self._cut(volumeNode, {name: (box, recall)}, box, readable(name), marginMm))
            except VolumeError as error:
                missed.append(f"{readable(name)} in {error}")
        if not crops:
            raise VolumeError(missed[0])
        for sentence in missed:
            self.reported.emit(sentence)
        return crops

    @property
    def busy(self) -> bool:
        return self._batch is not None

    @property
    def progress(self) -> float:
        """Share of the batch that is done, 0 to 1."""
        return 1.0 if self._batch is None else 1 - len(self._batch.waiting) / self._batch.total

    def start(
        self, volumeNodes: Sequence, structures: Sequence[str], separately: bool = False, marginMm: float = 0.0
    ) -> bool:
        """Crop many volumes, one at each `poll`; one that cannot be cropped is reported and the next follows.

        False where nothing was chosen, which `reported` states.
        """
        self.cancel()
        nodes = [node for node in volumeNodes if node is not None]
        if not nodes or not structures:
            what = "scan" if not nodes else "structure"
            self.reported.emit(f"No {what} was chosen; tick at least one.")
            return False
        self._batch = _Batch(tuple(structures), separately, marginMm, nodes, len(nodes))
        self.changed.emit()
        return True

    def poll(self) -> None:
        """Crop the next volume of the batch."""
        from AnatomicalEmbedding.errors import AnatomicalEmbeddingError

        batch = self._batch
        if batch is None:
            return
        node = batch.waiting.pop(0)
        if self.scene.GetNodeByID(node.GetID()) is node:
            try:
                batch.made += self.crop(node, batch.structures, batch.separately, batch.marginMm)
            except AnatomicalEmbeddingError as error:
                batch.skipped += 1
                self.reported.emit(str(error))
        if self._batch is batch and not batch.waiting:
            self._batch = None
            self.reported.emit(_summary(batch))
            self.made.emit(batch.made)
        self.changed.emit()

    def cancel(self) -> None:
        """Stop; crops that were made stay."""
        if self._batch is not None:
            self._batch = None
            self.changed.emit()

    def _cut(self, volume, found: dict[str, tuple], box: np.ndarray, suffix: str, marginMm: float):
        from AnatomicalEmbedding.scan.boxes import grown
        from AnatomicalEmbedding.scan.cropping import voxel_block

        voxels, matrix = slicer.util.arrayFromVolume(volume), ijkToRas(volume)
        box = grown(box, np.full(6, marginMm - _ROUNDING_MM))
        block = voxel_block(matrix, voxels.shape, box, volume.GetName())
        name = SceneNodes.freeName(self.scene, f"{volume.GetName()} {suffix}")
        crop = self.scene.AddNewNodeByClass("vtkMRMLScalarVolumeNode", name)
        _note(crop, volume, found, marginMm)  # before anyone takes it for another CT
        slicer.util.updateVolumeFromArray(crop, voxels[block].copy())
        first = np.array([part.start for part in reversed(block)])
        crop.CopyOrientation(volume)
        crop.SetOrigin(*(matrix[:3, :3] @ first + matrix[:3, 3]))
        crop.SetVoxelValueQuantity(volume.GetVoxelValueQuantity())
        crop.SetVoxelValueUnits(volume.GetVoxelValueUnits())
        crop.SetAndObserveTransformNodeID(volume.GetTransformNodeID())
        copyLooks(volume, crop)
        SceneNodes.placeNextTo(self.scene, crop, volume)
        return crop


def _note(crop, volume, found: dict[str, tuple], marginMm: float) -> None:
    """Where the crop comes from, on its node. The recall is left out where the user has set a box."""
    crop.SetNodeReferenceID(SOURCE_ROLE, volume.GetID())
    crop.SetAttribute(STRUCTURES, ",".join(found))
    crop.SetAttribute(MARGIN, f"{marginMm:g}")
    recalls = [recall for _box, recall in found.values()]
    if None not in recalls:
        crop.SetAttribute(RECALL, f"{min(recalls):g}")
    crop.SetDescription(f"Part of {volume.GetName()} around {', '.join(map(readable, found))}")


def _summary(batch: _Batch) -> str:
    crops = f"{len(batch.made)} {'crop' if len(batch.made) == 1 else 'crops'}"
    if not batch.skipped:
        return f"{crops} made."
    return f"{crops} made; {batch.skipped} of {batch.total} scans could not be cropped."
