"""Aligning a moving volume with a fixed one: prepares both, registers them in the background, moves the volume."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from AnatomicalEmbedding.errors import CancelledError
from AnatomicalEmbedding.registration import AFFINE, COARSE, DEFORMABLE

from ..shared import Views
from ..shared.maps.Engine import Engine
from ..shared.maps.MapStore import MapStore
from ..shared.maps.Worker import Work
from ..shared.SceneJob import SceneJob, Steps
from ..shared.VolumeNodes import Snapshot, snapshot
from .AlignmentNodes import addResampled, align, alignmentOf, undoAlignment, whyNotInto

if TYPE_CHECKING:
    from AnatomicalEmbedding.embedding.map import EmbeddingMap
    from AnatomicalEmbedding.registration.transform import Folding, Registration
    from AnatomicalEmbedding.scan.volume import Volume

_PREPARING = 0.5  # share of the progress, where a scan is not prepared


class AlignmentLogic(SceneJob):
    """One alignment at a time; cancelling leaves the scene as it was."""

    def __init__(self, scene, store: MapStore) -> None:
        super().__init__(scene, store, "align again")

    def problem(self, fixedNode, movingNode, kind: str, transformNode=None) -> str:
        """Why these volumes cannot be aligned, a sentence with the remedy; "" where nothing is known against it."""
        if fixedNode is None or movingNode is None:
            return "Load two CTs, or choose a fixed and a moving scan."
        if fixedNode is movingNode:
            return f"{fixedNode.GetName()}: is chosen as fixed and as moving; choose another scan for one of them."
        if transformNode is None:
            return ""
        return whyNotInto(transformNode, fixedNode, movingNode, kind in (COARSE, DEFORMABLE))

    def align(self, fixedNode, movingNode, kind: str = DEFORMABLE, transformNode=None, resample: bool = False) -> bool:
        """Align the moving volume with the fixed one; both are prepared first.

        Args:
            kind: "rigid", "affine", "coarse" or "deformable".
            transformNode: its content is replaced; None for a new node.
            resample: also make a volume on the fixed one's voxels.

        Returns:
            False where it cannot start; `reported` states why.
        """
        self.cancel()
        if problem := self.problem(fixedNode, movingNode, kind, transformNode):
            self.reported.emit(problem)
            return False
        self.start(self._align((fixedNode, movingNode), kind, transformNode, resample))
        return True

    def _align(self, volumes: tuple, kind: str, transformNode, resample: bool) -> Steps[None]:
        begun = self.store.request(volumes)
        try:
            maps = yield from self.maps(volumes, (0.0, _PREPARING))
        finally:
            self.store.cancel(begun)  # of scans that are not prepared yet
        scans = [snapshot(volume) for volume in volumes]
        work = _registering(scans, maps, kind, self.store.engine, resample)
        outcome = yield from self.inBackground(work, volumes, (_PREPARING if begun else 0.0, 1.0))
        fixedNode, movingNode = volumes
        chosen = transformNode if transformNode is not None and transformNode.GetScene() is self.scene else None
        transform = align(self.scene, outcome.registration, fixedNode, movingNode, chosen)
        transform.SetDescription(outcome.text)
        Views.fit(self.scene, movingNode)  # it may have moved by a metre, out of its own views
        if outcome.resampled is not None:
            addResampled(self.scene, outcome.resampled, fixedNode, movingNode)

    def undo(self, volumeNode) -> None:
        """Put an aligned volume back to where it was; other volumes stay where they are."""
        if alignmentOf(volumeNode) is not None:
            undoAlignment(volumeNode)
            Views.fit(self.scene, volumeNode)
            self.changed.emit()


@dataclass(frozen=True, eq=False)
class _Outcome:
    """registration: fixed -> moving. seconds: without preparing the scans. resampled: the moving scan on the voxels of
    the fixed one, or None. note: a sentence where the registration ran otherwise than asked, or "".
    """

    registration: Registration
    folding: Folding
    seconds: float
    resampled: Volume | None
    note: str

    @property
    def text(self) -> str:
        """The result in a few sentences."""
        found, folding = self.registration, self.folding
        sentences = [
            f"{found.moving} lies on {found.fixed} ({found.kind}).",
            f"{found.used} of {found.tried} places of {found.fixed} were found in {found.moving}.",
        ]
        if found.field is not None:
            sizes = f"{max(folding.low, 0):.2f} to {folding.high:.2f} times"  # below 0: see the next sentence
            sentences.append(f"Tissue is {sizes} as large in {found.moving} (98 % of the body).")
            sentences.append(f"{100 * folding.share:.2f} % of the body is turned inside out.")
        elif found.kind == AFFINE:
            sentences.append(f"Tissue is {folding.low:.2f} times as large in {found.moving}.")
        sentences.append(f"It took {self.seconds:.1f} s.")
        return " ".join(filter(None, [*sentences, folding.doubt, self.note]))


def _registering(
    scans: Sequence[Snapshot], maps: Sequence[EmbeddingMap], kind: str, engine: Engine, resample: bool
) -> Work:
    """The registration for a Worker, with an _Outcome. scans, maps: of the fixed and the moving volume."""

    def work(progress, cancelled) -> _Outcome:
        def step(share: float, title: str) -> None:
            if cancelled():
                raise CancelledError("The alignment was cancelled.")
            progress(share, title)

        start = time.perf_counter()
        step(0.0, "reading the scans")
        fixed, moving = (scan.volume() for scan in scans)
        found, note = _register(maps, (fixed, moving), kind, engine.load().device, step)
        folding = found.folding(maps[0])
        seconds = time.perf_counter() - start
        step(1.0, "resampling" if resample else "done")
        return _Outcome(found, folding, seconds, found.warp(moving, fixed) if resample else None, note)

    return work


def _register(maps, volumes, kind, device, step) -> tuple[Registration, str]:
    """Register on the device, or on the CPU where the GPU's memory does not suffice, which the note states."""
    import torch

    from AnatomicalEmbedding.registration.register import register

    try:
        return register(maps, volumes, kind, device, step), ""
    except torch.cuda.OutOfMemoryError:
        note = f"The memory of {device} did not suffice; the registration ran on the CPU."
        return register(maps, volumes, kind, "cpu", step), note
