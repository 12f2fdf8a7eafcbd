"""Two synthetic patients, so that the viewer can be tried without data."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from AnatomicalEmbedding.scan.volume import Volume

    from .scans import Reader

_SPACING_MM = (2.0, 2.0, 2.5)
# name, seed, covered heights in mm: from the sacrum to the neck; from above the iliac crests
_PATIENTS = (("Patient A", 20_001, (120.0, 600.0)), ("Patient B", 20_002, (190.0, 600.0)))


def patient_readers() -> list[tuple[str, Reader]]:
    """Return the name and the reader of each patient."""
    return [(name, partial(_make_patient, name, seed, heights)) for name, seed, heights in _PATIENTS]


def _make_patient(
    name: str, seed: int, heights_mm: tuple[float, float], _cancelled: Callable[[], bool]
) -> list[Volume]:
    from AnatomicalEmbedding.phantom import make_phantom

    volume = make_phantom(seed, spacing=_SPACING_MM, coverage_mm=heights_mm).volume
    return [replace(volume, name=name)]
