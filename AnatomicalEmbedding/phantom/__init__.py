"""Synthetic patients with labels, named points and the exact transform between any two patients."""

from .patient import BODY_RANGE_MM, SPACING_MM, Phantom, make_phantom, map_points

__all__ = ["BODY_RANGE_MM", "SPACING_MM", "Phantom", "make_phantom", "map_points"]
