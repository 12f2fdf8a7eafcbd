"""Places all boundaries between vertebrae along the spine at the least cost, by dynamic programming.

Each boundary has a cost at each place. The distance of two neighbouring boundaries, the height of the vertebra between
them, costs the more the farther it is from the usual height of this vertebra.
"""

from typing import NamedTuple

import numpy as np

STEP_MM = 1.5  # distance of two places
_SPREAD_SHARE = 0.07  # standard deviation of the heights of one patient's vertebrae, as a fraction of the height
# limits of the height of a vertebra, relative to its usual height
_LEAST_SHARE, _LARGEST_SHARE = 0.7, 1.35
# size of a patient relative to the usual size, and its spread
_SCALES, _SCALE_SPREAD = np.arange(0.8, 1.26, 0.05), 0.1
_CORRELATED = 4.0  # number of neighbouring boundaries whose coordinates have similar errors
_NEAR_PLACES = 2  # the cost of a boundary is the least within this number of places


class Boundaries(NamedTuple):
    """The boundaries between n + 1 vertebrae at the least total cost, head first.

    Args:
        place: (n,) index of the place of each boundary.
        cost: (n, places) least total cost if a boundary lies at a place.
    """

    place: np.ndarray
    cost: np.ndarray

    def level_chances(self, vertebra: int) -> np.ndarray:
        """Return three chances (3,) for the vertebra below boundary `vertebra`: that it is really one level higher in
        the body, at this level, or one level lower.

        If the true level is one higher, each boundary lies where `place` has the next lower boundary (step 1).
        """
        costs = np.zeros(3)
        for n, step in enumerate((1, 0, -1)):
            for boundary in (vertebra, vertebra + 1):
                place = self.place[min(max(boundary + step, 0), len(self.place) - 1)]
                nearby = slice(max(place - _NEAR_PLACES, 0), place + _NEAR_PLACES + 1)
                costs[n] += self.cost[boundary, nearby].min() / 2
        weight = np.exp(-np.clip((costs - costs.min()) / _CORRELATED, 0, 50))
        return weight / weight.sum()


def place_boundaries(cost: np.ndarray, sizes_mm: np.ndarray) -> Boundaries:
    """Place all boundaries for the size of the patient at which the total cost is least.

    Args:
        cost: (n, places) cost of each boundary at each place, head first; places are STEP_MM apart.
        sizes_mm: (n - 1,) usual heights of the vertebrae between the boundaries.
    """
    least = np.inf
    for scale in _SCALES:
        scale_above = _costs_above(cost, scale * sizes_mm)
        total = float(scale_above[-1].min() + ((scale - 1) / _SCALE_SPREAD) ** 2 / 2)
        if total <= least:  # <=: also if no size fits, the cost being infinite for all
            least = total
            above = scale_above
            patient_mm = scale * sizes_mm
    # the same from the feet to the head; the cost of the boundary itself is in both sums
    below = _costs_above(cost[::-1, ::-1], patient_mm[::-1])[::-1, ::-1]
    return Boundaries(_traced(above, patient_mm), above + below - cost)


def _costs_above(cost: np.ndarray, sizes_mm: np.ndarray) -> np.ndarray:
    """Return (n, places): the least cost of each boundary and all boundaries before it, if it lies there.

    sizes_mm: (n - 1,) expected heights of the vertebrae.
    """
    total = cost.copy()
    for n, size_mm in enumerate(sizes_mm):
        least = np.full(cost.shape[1], np.inf)  # if the vertebra's lower boundary lies there
        # for each height of the vertebra: its upper boundary lies `steps` places before
        for steps, size_cost in zip(*_size_costs(size_mm), strict=True):
            least[steps:] = np.minimum(least[steps:], total[n][: len(least) - steps] + size_cost)
        total[n + 1] += least
    return total


def _size_costs(size_mm: float) -> tuple[np.ndarray, np.ndarray]:
    """Return the heights that a vertebra may have, in steps, and the cost of each. size_mm: its usual height."""
    shortest = max(int(_LEAST_SHARE * size_mm / STEP_MM), 1)
    steps = np.arange(shortest, int(_LARGEST_SHARE * size_mm / STEP_MM) + 2)
    return steps, np.square((steps * STEP_MM - size_mm) / (_SPREAD_SHARE * size_mm)) / 2


def _traced(above: np.ndarray, sizes_mm: np.ndarray) -> np.ndarray:
    """Return the place (n,) of each boundary at the least total cost. above: result of `_costs_above`."""
    places = [int(above[-1].argmin())]
    # from the feet to the head: the place of the boundary above follows from the place of the one below
    for total, size_mm in zip(above[-2::-1], sizes_mm[::-1], strict=True):
        steps, size_cost = _size_costs(size_mm)
        before = places[-1] - steps
        costs = np.where(before >= 0, total[np.maximum(before, 0)] + size_cost, np.inf)
        places.append(max(int(before[costs.argmin()]), 0))
    return np.array(places[::-1])
