"""A family of synthetic patients with labels, named points and the exact map between any two of them."""

from .patient import BODY_RANGE_MM, Phantom, make_phantom, map_points

__all__ = ["BODY_RANGE_MM", "Phantom", "make_phantom", "map_points"]
