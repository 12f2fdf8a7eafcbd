"""The part of an alignment that runs in the background, on plain values, and what came of it in words."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from AnatomicalEmbedding.registration import AFFINE

from ..shared.maps.Engine import Engine
from ..shared.maps.Worker import Work
from ..shared.VolumeNodes import Snapshot

if TYPE_CHECKING:
    from AnatomicalEmbedding.embedding.map import EmbeddingMap
    from AnatomicalEmbedding.registration.transform import Folding, Registration
    from AnatomicalEmbedding.scan.volume import Volume


@dataclass(frozen=True, eq=False)
class Outcome:
    """registration: fixed -> moving. seconds: without preparing the scans. resampled: the moving scan on the voxels of
    the fixed one, where it was asked for. notes: what was done in another way than asked.
    """

    registration: Registration
    folding: Folding
    seconds: float
    resampled: Volume | None = None
    notes: tuple[str, ...] = ()

    @property
    def text(self) -> str:
        """What a user should know, in a few sentences."""
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
        return " ".join(filter(None, [*sentences, folding.doubt, *self.notes]))


def alignmentWork(
    scans: tuple[Snapshot, Snapshot],
    maps: tuple[EmbeddingMap, EmbeddingMap],
    kind: str,
    engine: Engine,
    resample: bool,
) -> Work:
    """What a `Worker` is to do; its result is an `Outcome`. scans, maps: of the fixed and the moving volume.

    It raises AnatomicalEmbeddingError where the scans cannot be aligned, of it CancelledError when cancelled.
    """

    def work(progress, cancelled) -> Outcome:
        from AnatomicalEmbedding.errors import CancelledError

        def step(share: float, what: str) -> None:
            if cancelled():
                raise CancelledError("The alignment was cancelled.")
            progress(share, what)

        start = time.perf_counter()
        step(0.0, "reading the scans")
        fixed, moving = (scan.volume() for scan in scans)
        found, notes = _registered(maps, (fixed, moving), kind, engine.load().device, step)
        folding = found.folding(maps[0])
        seconds = time.perf_counter() - start
        step(1.0, "resampling" if resample else "done")
        return Outcome(found, folding, seconds, found.warp(moving, fixed) if resample else None, notes)

    return work


def _registered(maps, volumes, kind, device, step) -> tuple[Registration, tuple[str, ...]]:
    """On the CPU where the GPU's memory does not suffice, which the notes state."""
    import torch

    from AnatomicalEmbedding.registration.register import register

    try:
        return register(maps, volumes, kind, device, step), ()
    except torch.cuda.OutOfMemoryError:
        note = f"The memory of {device} did not suffice; it was done on the CPU."
        return register(maps, volumes, kind, "cpu", step), (note,)
