"""The places of the atlas, here called organs, as sets of points in the body frame, for training and evaluation."""

from collections.abc import Sequence
from functools import lru_cache

import numpy as np

from ...anatomy.terms import load_terms
from ...words.atlas import LOW_MM, STEP_MM, shipped_atlas
from ...words.presence import frame_fields

_LEVEL = 0.5  # a cell belongs to a place if its value in the atlas is at least this fraction of the largest value
_NEAR = 12  # number of places that are called near


class Organs:
    """All k places that have a name in `anatomy.terms`, as cells of 6 mm of the body frame.

    Args:
        names: name of each place.
        best: (k, 3) mm, the centre of each place's best cell. This cell lies in the place in the most bodies.
        cells: for each place, (n, 3) mm, the centres of the cells that lie in the place in at least half as many
            bodies as the best cell.
    """

    def __init__(self, names: Sequence[str], cells: Sequence[np.ndarray], best: np.ndarray) -> None:
        self.names = tuple(names)
        self.cells = tuple(cells)
        self.best = best
        self.index = {name: n for n, name in enumerate(self.names)}
        middle = np.array([points.mean(axis=0) for points in self.cells])
        distance = np.linalg.norm(middle[:, None] - middle[None], axis=-1)
        self._near = distance.argsort(axis=1, kind="stable")[:, 1 : _NEAR + 1]

    def near(self, name: str) -> list[str]:
        """Return the names of the 12 places whose middles are nearest to the middle of the place `name`."""
        return [self.names[n] for n in self._near[self.index[name]]]

    def sample(
        self, named: Sequence[Sequence[str]], count: int, rng: np.random.Generator
    ) -> tuple[np.ndarray, np.ndarray]:
        """For each of b texts, choose `count` random cells of every organ that the text names.

        Args:
            named: for each text, the names of its organs; a text has at most m organs.
            count: number of cells of each organ.
            rng: random numbers.

        Returns the cells, float32 (b, m, count, 3) mm; and bool (b, m): False for the unused entries of a text with
        fewer than m organs.
        """
        most = max(map(len, named))
        points = np.zeros((len(named), most, count, 3), dtype=np.float32)
        used = np.zeros((len(named), most), dtype=bool)
        for n, names in enumerate(named):
            for m, name in enumerate(names):
                cells = self.cells[self.index[name]]
                points[n, m] = cells[rng.integers(len(cells), size=count)]
                used[n, m] = True
        return points, used

    def distance(self, point_mm: np.ndarray, names: Sequence[str]) -> float:
        """Return the distance, mm, of a point (3,) from the nearest of the named organs; 0 inside an organ."""
        gaps = [
            np.maximum(np.abs(self.cells[self.index[n]] - point_mm) - STEP_MM / 2, 0) for n in names
        ]
        return min(float(np.sqrt(np.square(gap).sum(axis=1).min())) for gap in gaps)

    def name_at(self, point_mm: np.ndarray) -> str:
        """Return the name of the smallest place that contains a point (3,) mm, or else of the nearest place."""
        return min(
            self.names,
            key=lambda name: (self.distance(point_mm, [name]), len(self.cells[self.index[name]])),
        )


@lru_cache(maxsize=1)
def shipped_organs() -> Organs:
    """Return the places of the shipped atlas, and the places that only a rule in `anatomy.terms` describes."""
    fields = frame_fields(shipped_atlas(""))
    names = []
    cells = []
    best = []
    for name in load_terms().by_name:
        field = fields.field(name)
        if field.total <= 0:
            continue
        peak = field.values.max()
        index = np.argwhere(field.values >= _LEVEL * peak)
        mm = (LOW_MM + STEP_MM * (index[:, ::-1] + np.array(field.first))).astype(np.float32)
        # if several cells are best, the cell nearest to their middle is used; the middle may lie outside the organ
        top = mm[field.values[tuple(index.T)] >= peak]
        names.append(name)
        cells.append(mm)
        best.append(top[np.linalg.norm(top - top.mean(axis=0), axis=1).argmin()])
    return Organs(names, cells, np.array(best))
