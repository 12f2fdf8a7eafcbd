"""A query: the values of a template at given points that matching needs to find them in any scan."""

from __future__ import annotations

from functools import cached_property

import numpy as np
import torch

from ..embedding.levels import ENDS_MM, above_ends, spine_ends
from ..embedding.map import EmbeddingMap
from ..errors import PointsError
from ..scan.geometry import transform_points
from .blocks import Blocks, describe_blocks
from .coordinates import read_coordinates
from .image_step import read_windows


class Query:
    """Values of a template at n points, (n, 3) RAS mm; each is read at first use."""

    def __init__(self, template: EmbeddingMap, points_ras: np.ndarray) -> None:
        self._template, self._points_ras = template, points_ras
        self.weights_hash = template.provenance.weights_hash

    @cached_property
    def coordinates(self) -> torch.Tensor:
        """(n, 3) float64 in the unit of the map."""
        return self._read[0]

    @cached_property
    def sizes(self) -> torch.Tensor:
        """(n,) volume of the body frame in a unit volume of the template."""
        return self._read[1]

    @cached_property
    def descriptors(self) -> torch.Tensor | None:
        """(n, l) descriptors of the points themselves; None for a map without descriptors."""
        return None if self._template.local is None else self._template.describe(self._points_ras)

    @cached_property
    def blocks(self) -> Blocks | None:
        """Descriptors of the tissue around the points; None for a map without descriptors."""
        if self._template.local is None:
            return None
        return describe_blocks(self._template, self._cells)

    @cached_property
    def above_ends_mm(self) -> np.ndarray:
        """(n, len(ENDS_MM)) mm above each end of the spine; NaN for an end that the template does not show."""
        return above_ends(self._points_ras[:, 2], spine_ends(self._template))

    @cached_property
    def windows(self) -> torch.Tensor | None:
        """(n, m) the image around the points; None for a map without image."""
        return read_windows(self._template, self._cells)

    @cached_property
    def _cells(self) -> torch.Tensor:
        return torch.from_numpy(transform_points(self._template.ras_to_cell, self._points_ras))

    @cached_property
    def _read(self) -> tuple[torch.Tensor, torch.Tensor]:
        return read_coordinates(self._template, self._points_ras)


class StoredQuery(Query):
    """A query whose values are kept without the template."""

    def __init__(
        self,
        weights_hash: str,
        coordinates: torch.Tensor,
        sizes: torch.Tensor,
        descriptors: torch.Tensor | None = None,
        blocks: Blocks | None = None,
        above_ends_mm: np.ndarray | None = None,
    ) -> None:
        self.weights_hash, self.coordinates, self.sizes = weights_hash, coordinates, sizes
        self.descriptors, self.blocks = descriptors, blocks
        unknown = np.full((len(coordinates), len(ENDS_MM)), np.nan)
        self.above_ends_mm = unknown if above_ends_mm is None else above_ends_mm

    @classmethod
    def of(cls, query: Query, with_blocks: bool = True) -> StoredQuery:
        """Read a query. with_blocks: also the tissue around the points, which effort "fast" does not need."""
        blocks = query.blocks if with_blocks else None
        return cls(query.weights_hash, query.coordinates, query.sizes, query.descriptors, blocks, query.above_ends_mm)

    @classmethod
    def joined(cls, parts: list[StoredQuery]) -> StoredQuery:
        """Join the points of several queries. Raises PointsError where they are of different weights or kinds."""
        if len({part.weights_hash for part in parts}) > 1:
            raise PointsError("these examples were read with different weights; read them again with the same.")
        if len({(part.descriptors is None, part.blocks is None) for part in parts}) > 1:
            raise PointsError("some of these points were read with descriptors and some without; read them again.")
        descriptors = blocks = None
        if parts[0].descriptors is not None:
            descriptors = torch.cat([part.descriptors for part in parts])
        if parts[0].blocks is not None:
            every = [part.blocks for part in parts]
            blocks = Blocks(torch.cat([b.descriptors for b in every]), torch.cat([b.seen for b in every]))
        sizes = torch.cat([part.sizes for part in parts])
        coordinates = torch.cat([part.coordinates for part in parts])
        above_ends_mm = np.concatenate([part.above_ends_mm for part in parts])
        return cls(parts[0].weights_hash, coordinates, sizes, descriptors, blocks, above_ends_mm)
