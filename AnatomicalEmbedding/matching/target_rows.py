"""One batch for several targets: what is asked of each map is read map by map, what follows is worked out together.

A click is answered in ten scans: ten times the same hundred small tensor operations on one row each would take several
times as long as once on ten rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import torch

from ..embedding.map import EmbeddingMap

_Found = TypeVar("_Found")  # a tensor, or a tuple of tensors


@dataclass(frozen=True)
class TargetRows:
    """Which map each row of a batch belongs to: the first counts[0] rows to maps[0], and so on."""

    maps: tuple[EmbeddingMap, ...]
    counts: tuple[int, ...]

    @classmethod
    def each(cls, maps: Sequence[EmbeddingMap], count: int) -> TargetRows:
        """So many rows for each of the maps."""
        return cls(tuple(maps), (count,) * len(maps))

    def read(self, what: Callable[..., _Found], *rows: torch.Tensor) -> _Found:
        """what(map, its part of each tensor), the parts of the answers laid together again."""
        parts = zip(self.maps, *(values.split(self.counts) for values in rows), strict=True)
        found: list[Any] = [what(*part) for part in parts if len(part[1])]
        if len(found) == 1:
            return found[0]
        if isinstance(found[0], tuple):
            joined: Any = tuple(torch.cat(values) for values in zip(*found, strict=True))
            return joined
        return torch.cat(found)

    def select(self, index: torch.Tensor) -> TargetRows:
        """Of the rows with these numbers, ascending."""
        ends = torch.tensor(self.counts).cumsum(0)
        before = torch.searchsorted(index, ends).tolist()
        return TargetRows(self.maps, tuple(end - start for start, end in zip([0, *before], before, strict=False)))

    def split(self, size: int) -> list[TargetRows]:
        """Of each of the parts that tensors split into parts of this size fall into."""
        total = sum(self.counts)
        return [self.select(torch.arange(total)[start : start + size]) for start in range(0, total, size)]

    def __iter__(self) -> Iterator[EmbeddingMap]:
        """The map of each row."""
        for embedding, count in zip(self.maps, self.counts, strict=True):
            for _ in range(count):
                yield embedding
