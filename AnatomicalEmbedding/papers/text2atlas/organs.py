"""The organs of the atlas as clouds of points in the body frame: what a text's point is trained and scored against."""

from collections.abc import Sequence
from functools import lru_cache

import numpy as np

from ...anatomy.terms import load_terms
from ...words.atlas import LOW_MM, STEP_MM, shipped_atlas
from ...words.presence import frame_fields

_LEVEL = 0.5  # of a place's peak in the atlas, that bounds it
_NEAR = 12  # places that count as near


class Organs:
    """All places of the terms. names: of the terms. best: (k, 3) mm in the body frame, where each is most often.

    cells: of each, (n, 3) mm, centres of the cells of 6 mm that hold it in at least half as many bodies as its best.
    """

    def __init__(self, names: Sequence[str], cells: Sequence[np.ndarray], best: np.ndarray) -> None:
        self.names, self.cells, self.best = tuple(names), tuple(cells), best
        self.index = {name: n for n, name in enumerate(self.names)}
        middle = np.array([of.mean(axis=0) for of in self.cells])
        apart = np.linalg.norm(middle[:, None] - middle[None], axis=-1)
        self._near = apart.argsort(axis=1, kind="stable")[:, 1 : _NEAR + 1]

    def near(self, name: str) -> list[str]:
        """The places whose middles are nearest to that of a place."""
        return [self.names[n] for n in self._near[self.index[name]]]

    def sample(
        self, named: Sequence[Sequence[str]], count: int, rng: np.random.Generator
    ) -> tuple[np.ndarray, np.ndarray]:
        """`count` random cells of each organ that texts name: (b, m, count, 3) float32 mm, and which of m there are."""
        most = max(map(len, named))
        points = np.zeros((len(named), most, count, 3), dtype=np.float32)
        held = np.zeros((len(named), most), dtype=bool)
        for n, names in enumerate(named):
            for m, name in enumerate(names):
                cells = self.cells[self.index[name]]
                points[n, m] = cells[rng.integers(len(cells), size=count)]
                held[n, m] = True
        return points, held

    def distance(self, point_mm: np.ndarray, names: Sequence[str]) -> float:
        """mm from a point (3,) to the nearest cell of any of some organs; 0 inside."""
        gaps = [np.maximum(np.abs(self.cells[self.index[n]] - point_mm) - STEP_MM / 2, 0) for n in names]
        return min(float(np.sqrt(np.square(gap).sum(axis=1).min())) for gap in gaps)

    def name_at(self, point_mm: np.ndarray) -> str:
        """The smallest place that a point (3,) lies in, else the nearest."""
        return min(self.names, key=lambda name: (self.distance(point_mm, [name]), len(self.cells[self.index[name]])))


@lru_cache(maxsize=1)
def shipped_organs() -> Organs:
    """Every place of the terms, by the shipped atlas and the recipes of derived places."""
    fields = frame_fields(shipped_atlas(""))
    names, cells, best = [], [], []
    for name in load_terms().by_name:
        field = fields.field(name)
        if field.total <= 0:
            continue
        peak = field.values.max()
        index = np.argwhere(field.values >= _LEVEL * peak)
        mm = (LOW_MM + STEP_MM * (index[:, ::-1] + np.array(field.first))).astype(np.float32)
        # of equally good cells the one nearest to their middle, which is not always in the organ itself
        top = mm[field.values[tuple(index.T)] >= peak]
        names.append(name)
        cells.append(mm)
        best.append(top[np.linalg.norm(top - top.mean(axis=0), axis=1).argmin()])
    return Organs(names, cells, np.array(best))
