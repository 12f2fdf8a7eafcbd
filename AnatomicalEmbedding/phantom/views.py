"""Synthetic patients as measurements see them: whole, and each half of the trunk alone."""

from __future__ import annotations

from .patient import Phantom, make_phantom

# body heights in mm
VIEWS = {"whole": None, "lower half": (-100.0, 330.0), "upper half": (250.0, 620.0)}
_SPACING_MM = (2.0, 2.0, 3.0)


def phantom_views(seed: int) -> dict[str, Phantom]:
    """A synthetic patient in each of VIEWS."""
    return {view: make_phantom(seed, spacing=_SPACING_MM, coverage_mm=heights) for view, heights in VIEWS.items()}
