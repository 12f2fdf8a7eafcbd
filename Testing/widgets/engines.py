# ruff: noqa: N802 - the names are those of the engine
"""Doubles of the engine with known results, for panels that only show results; and small scans for these doubles."""

import threading
from pathlib import Path
from typing import ClassVar

import numpy as np
import slicer.util

from AnatomicalEmbedding.errors import CancelledError
from AnatomicalEmbeddingLib.shared.maps.Engine import Engine


def add_ct(name: str = "CT"):
    """A volume node that passes for a CT: a block of tissue in air, 10 mm voxels."""
    voxels = np.full((20, 20, 20), -1000, np.int16)
    voxels[4:16, 4:16, 4:16] = 40
    return slicer.util.addVolumeFromArray(voxels, np.diag([10.0, 10.0, 10.0, 1.0]), name=name)


class NamedMap(str):
    """A map that is but the name of its scan, and what the engine noted of it."""

    notes: tuple[str, ...] = ()
    faults: tuple[str, ...] = ()
    unit_mm = 1.0


class InstantEngine(Engine):
    """Embeds at once. missing, weights: what the user's computer is like. noted: of every scan."""

    noted: ClassVar[tuple[str, ...]] = ()
    missing: ClassVar[list[str]] = []
    weights: ClassVar[Path | None] = None
    released: ClassVar[int] = 0

    @classmethod
    def missingPackages(cls) -> list[str]:
        return list(cls.missing)

    def weightsPath(self) -> Path:
        return type(self).weights or super().weightsPath()

    def embed(self, volume, progress, cancelled, only_kept=False):
        if only_kept:
            raise CancelledError(volume.name)
        progress(0.4, "embedding")
        return self._mapOf(volume)

    def _mapOf(self, volume) -> NamedMap:
        found = NamedMap(volume.name)
        found.notes = type(self).noted
        return found

    def release(self) -> None:
        type(self).released += 1


class HeldEngine(InstantEngine):
    """Reports 40 % of a scan and goes on only when told to, or when cancelled."""

    go: ClassVar[threading.Event] = threading.Event()
    ended: ClassVar[list[str]] = []

    def embed(self, volume, progress, cancelled, only_kept=False):
        progress(0.4, "embedding")
        while not type(self).go.wait(0.01):
            if cancelled():
                type(self).ended.append(volume.name)
                raise CancelledError(volume.name)
        return self._mapOf(volume)


def fresh(engine: type[InstantEngine]) -> type[InstantEngine]:
    """A class of the engine's kind whose settings are the test's own."""
    return type(
        engine.__name__,
        (engine,),
        {
            "missing": [],
            "noted": (),
            "weights": None,
            "released": 0,
            "go": threading.Event(),
            "ended": [],
        },
    )
