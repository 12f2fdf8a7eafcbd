"""Aligns a moving volume with a fixed volume: registers them in the background, then moves the moving volume."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from AnatomicalEmbedding.errors import stoppable
from AnatomicalEmbedding.registration import AFFINE, DEFORMABLE

from ..shared import Views
from ..shared.maps.MapStore import MapStore
from ..shared.SceneJob import SceneJob, Steps
from ..shared.VolumeNodes import addDerived, snapshot
from .AlignmentNodes import align, alignmentOf, undoAlignment

if TYPE_CHECKING:
    from AnatomicalEmbedding.registration.transform import Folding, Registration

# fraction of the progress bar for preparing the scans, if a scan is not prepared yet
_PREPARING = 0.5


class AlignmentLogic(SceneJob):
    """Runs one alignment at a time. A cancelled alignment does not change the scene."""

    def __init__(self, scene, store: MapStore) -> None:
        super().__init__(scene, store, "align again")

    def problem(self, fixedNode, movingNode) -> str:
        """Return why these volumes cannot be aligned, with the remedy; "" if they can be aligned."""
        if fixedNode is None or movingNode is None:
            return "The fixed or the moving scan is missing; load two CTs, or choose two scans."
        if fixedNode is movingNode:
            return f"{fixedNode.GetName()}: is chosen as fixed and as moving scan; choose two different scans."
        return ""

    def align(self, fixedNode, movingNode, kind: str = DEFORMABLE, resample: bool = False) -> bool:
        """Start to align the moving volume with the fixed volume. Both volumes are embedded first.

        Args:
            kind: "rigid", "affine" or "deformable".
            resample: True to also add a copy of the moving volume, resampled to the voxels of the fixed volume.

        Returns:
            False if the alignment cannot start; `reported` states why.
        """
        self.cancel()
        problem = self.problem(fixedNode, movingNode)
        if problem:
            self.reported.emit(problem)
            return False
        self.start(self._align(fixedNode, movingNode, kind, resample))
        return True

    def _align(self, fixedNode, movingNode, kind: str, resample: bool) -> Steps[None]:
        """Prepare both scans, register them in the background, and add the transform to the scene.

        resample: True to also add the moving scan on the voxels of the fixed scan.
        """
        volumes = (fixedNode, movingNode)
        engine = self.store.engine
        begun = self.store.request(volumes)
        try:
            maps = yield from self.maps(volumes, (0.0, _PREPARING))
        finally:
            self.store.cancel(begun)  # if the wait ended early, stop the preparation
        copies = [snapshot(volume) for volume in volumes]

        def register(progress, cancelled):
            """Return the registration, sentences about it, and the resampled scan or None."""
            step = stoppable(progress, cancelled, "The alignment was cancelled.")
            start = time.perf_counter()
            step(0.0, "reading the scans")
            fixed, moving = (copy.volume() for copy in copies)
            registration, note = _register(maps, (fixed, moving), kind, engine.load().device, step)
            folding = registration.folding(maps[0])
            text = _describe(registration, folding, time.perf_counter() - start, note)
            step(1.0, "resampling" if resample else "done")
            resampled = registration.warp(moving, fixed) if resample else None
            return registration, text, resampled

        part = (_PREPARING if begun else 0.0, 1.0)
        registration, text, resampled = yield from self.inBackground(register, volumes, part)
        align(self.scene, registration, fixedNode, movingNode).SetDescription(text)
        Views.fit(self.scene, movingNode)  # the volume may have moved out of its views
        if resampled is not None:
            name = f"{movingNode.GetName()} on {fixedNode.GetName()}"
            addDerived(
                self.scene, name, movingNode, resampled.voxels, resampled.ijk_to_ras, fixedNode
            )

    def undo(self, volumeNode) -> None:
        """Move an aligned volume back to its place before the alignment. Other volumes do not move."""
        if alignmentOf(volumeNode) is not None:
            undoAlignment(volumeNode)
            Views.fit(self.scene, volumeNode)
            self.changed.emit()


def _register(maps, volumes, kind, device, step) -> tuple[Registration, str]:
    """Return the registration and a note: a sentence if the GPU had too little memory and the CPU was used, or ""."""
    import torch

    from AnatomicalEmbedding.registration.register import register

    try:
        return register(maps, volumes, kind, device, step), ""
    except torch.cuda.OutOfMemoryError:
        note = f"{device} had too little memory; the registration ran on the CPU."
        return register(maps, volumes, kind, "cpu", step), note


def _describe(registration: Registration, folding: Folding, seconds: float, note: str) -> str:
    """Return sentences about a registration for the user. seconds: its duration. note: see `_register`."""
    sentences = [
        f"{registration.moving} was aligned with {registration.fixed} ({registration.kind}).",
        f"The alignment uses {registration.used} of {registration.tried} matched points of {registration.fixed}: "
        f"{registration.quality}.",
    ]
    if registration.field is not None:
        sizes = f"{max(folding.low, 0):.2f} to {folding.high:.2f} times"  # below 0 means folding: next sentence
        sentences.append(
            f"In 98 % of the body, tissue is {sizes} as large in {registration.moving} as in {registration.fixed}."
        )
        sentences.append(f"The deformation is folded in {100 * folding.share:.2f} % of the body.")
    elif registration.kind == AFFINE:
        sentences.append(
            f"Tissue is {folding.low:.2f} times as large in {registration.moving} as in {registration.fixed}."
        )
    sentences.append(f"The alignment took {seconds:.1f} s.")
    sentences += [registration.doubt, folding.doubt, note]
    return " ".join(filter(None, sentences))
