"""The report of a registration: fixed and moving scan in two colours, before and after. One HTML file."""

from collections.abc import Mapping
from pathlib import Path

import numpy as np

from ..registration.transform import Registration
from ..scan.volume import Volume
from . import pictures
from .page import fill_page, package_versions
from .pictures import OUTSIDE_HU, PLANES, Window

_PIXELS = 320


def write_registration_report(
    path: str | Path, fixed: Volume, moving: Volume, found: Registration, facts: Mapping[str, str]
) -> Path:
    """Write a page of the scans before registration (centres aligned) and after it. facts: name -> text to show."""
    middle = fixed.bounds_ras.mean(axis=0)
    shift = moving.bounds_ras.mean(axis=0) - middle
    side_mm = float(np.ptp(fixed.bounds_ras, axis=0).max())
    window = pictures.choose_window(fixed, middle)
    pairs = []
    for plane in PLANES:
        own = pictures.slice_hu(fixed, middle, plane, side_mm, side_mm / _PIXELS)
        points = pictures.slice_points(middle, plane, side_mm, side_mm / _PIXELS)
        drawn = []
        for places in (points + shift, found.transform_points(points)):
            other = moving.sample(places, outside=OUTSIDE_HU).reshape(own.shape)
            drawn.append(pictures.data_uri(_two_colours(window, own, other)))
        pairs.append({"plane": plane, "before": drawn[0], "after": drawn[1]})
    return fill_page(
        path, "reports/registration.html.j2", found=found, facts=facts, pairs=pairs, window=window.name,
        versions=package_versions(),
    )  # fmt: skip


def _two_colours(window: Window, fixed: np.ndarray, moving: np.ndarray) -> np.ndarray:
    """Return (n, n, 3) uint8: the moving scan in red, the fixed scan in cyan. Where both are equal, pixels are grey."""
    red, cyan = window.to_grey(moving), window.to_grey(fixed)
    return np.stack([red, cyan, cyan], axis=-1)
