"""The usual body: where structures lie, how large they are, and how the usual body is fitted to the labels of a scan.

The table `Resources/Structures/usual.csv` says where structures lie in the average body; `make_usual_table.py` in
tools measures it. A frame moves its places into a patient.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import NamedTuple

import numpy as np

from ..resources import read_table

_SCALE_SPREAD = 0.12  # of a patient's size, relative to the average body
COST_LIMIT = 12.0  # largest cost of one label


@dataclass(frozen=True, eq=False)
class Usual:
    """What n structures are usually like. places, spreads: (n, 3) body coordinates and their standard deviations, mm.
    volume: (n,) natural logarithms of the volume in ml; volume_spread: (n,) their standard deviations. gap_mm: (n,) how
    far pieces usually lie apart. flat: (n,) usual largest `MeasuredLabel.flat`. patients: (n,) number of patients."""

    names: tuple[str, ...]
    places: np.ndarray
    spreads: np.ndarray
    volume: np.ndarray
    volume_spread: np.ndarray
    gap_mm: np.ndarray
    flat: np.ndarray
    patients: np.ndarray

    @cached_property
    def index(self) -> dict[str, int]:
        return {name: n for n, name in enumerate(self.names)}


@lru_cache(maxsize=1)
def load_usual() -> Usual:
    """Read the shipped table."""
    rows = read_table("Structures/usual.csv")
    names = tuple(row.pop("name") for row in rows)
    patients, *numbers = np.array([list(row.values()) for row in rows], np.float64).T
    places = np.stack(numbers[:3], axis=1)
    spreads = np.stack(numbers[3:6], axis=1)
    volume_ml, volume_spread, gap_mm, flat = numbers[6:]
    return Usual(names, places, spreads, np.log(volume_ml), volume_spread, gap_mm, flat, patients)


class Frame(NamedTuple):
    """Moves places of the average body into a patient: RAS mm = scale x body coordinate + shift. Both fields: (3,).
    The scale is negative along a mirrored axis."""

    scale: np.ndarray
    shift: np.ndarray

    @classmethod
    def fit(
        cls,
        centres: np.ndarray,
        places: np.ndarray,
        spreads: np.ndarray,
        weight: np.ndarray,
        prior_scale: np.ndarray,
    ) -> Frame:
        """Fit a frame by least squares to n labels.

        Args:
            centres: (n, 3) RAS mm, centres of the labels.
            places, spreads: (n, 3), as in `Usual`.
            weight: (n,).
            prior_scale: (3,) the fitted scale stays near this scale.
        """
        w = weight[:, None] / (spreads * prior_scale) ** 2  # (n, 3), 1 / variance
        # a weighted linear regression along each axis, with a prior for the slope
        middle = (w * centres).sum(axis=0) / w.sum(axis=0)
        mean = (w * places).sum(axis=0) / w.sum(axis=0)
        prior = 1 / (_SCALE_SPREAD * prior_scale) ** 2
        slope = (w * (places - mean) * (centres - middle)).sum(axis=0) + prior * prior_scale
        slope = slope / ((w * (places - mean) ** 2).sum(axis=0) + prior)
        scale = prior_scale * np.maximum(slope / prior_scale, 0.2)
        return cls(scale, middle - scale * mean)

    def to_ras(self, body_mm: np.ndarray) -> np.ndarray:
        """Move places (n, 3) of the average body into the patient, RAS mm."""
        return body_mm * self.scale + self.shift


def fit_frame(
    centres: np.ndarray,
    places: np.ndarray,
    spreads: np.ndarray,
    weight: np.ndarray,
    prior_scale: Sequence[float] = (1.0, 1.0, 1.0),
) -> tuple[Frame, np.ndarray, float]:
    """Fit a frame like `Frame.fit`; labels at unusual places count less.

    Args:
        centres, places, spreads, weight, prior_scale: as for `Frame.fit`.

    Returns the frame, robust weights (n,), and the total cost, which is lower for a better fit.
    """
    # the first weights: by the distance of each label from the median shift, as if all had one scale
    scale = np.array(prior_scale, np.float64)
    shifts = centres - places * scale
    off = (shifts - np.median(shifts, axis=0)) / (spreads * scale)
    robust = np.exp(-(off**2).sum(axis=1) / 12) + 1e-3
    for _ in range(6):
        frame = Frame.fit(centres, places, spreads, weight * robust, scale)
        off = (centres - frame.to_ras(places)) / (spreads * frame.scale)
        costs = (off**2).sum(axis=1) / 2
        robust = 1 / (1 + costs / 3)
    stretch = np.log(frame.scale / scale) / _SCALE_SPREAD
    total = float((weight * np.minimum(costs, COST_LIMIT)).sum()) + float((stretch**2).sum() / 2)
    return frame, robust, total
