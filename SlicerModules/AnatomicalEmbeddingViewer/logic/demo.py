"""Two synthetic patients, so that the viewer can be tried without data."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

from .origins import UNKNOWN, Origin

if TYPE_CHECKING:
    from AnatomicalEmbedding.scan.volume import Volume

_SPACING = (2.0, 2.0, 2.5)
# as `anatemb demo`: from the sacrum to the neck; from above the iliac crests
_PATIENTS = (("Patient A", 20_001, (120.0, 600.0)), ("Patient B", 20_002, (190.0, 600.0)))


def read_patient(number: int) -> Callable[[Callable[[], bool]], list[tuple[Volume, Origin]]]:
    """A reader for `Scans.read` that makes the patient of that number."""

    def read(_cancelled: Callable[[], bool]) -> list[tuple[Volume, Origin]]:
        from AnatomicalEmbedding.phantom import make_phantom

        name, seed, coverage = _PATIENTS[number]
        volume = make_phantom(seed, spacing=_SPACING, coverage_mm=coverage).volume
        return [(replace(volume, name=name), UNKNOWN)]

    return read


def patients() -> list[tuple[str, Callable]]:
    """Names and readers."""
    return [(_PATIENTS[number][0], read_patient(number)) for number in range(len(_PATIENTS))]
