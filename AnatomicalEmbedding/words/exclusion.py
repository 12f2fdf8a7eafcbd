"""Where one structure is, no other is: of a cell that several could hold, each has its share.

A man has no uterus: places of one sex share their chance with those of the other (`OTHER_SEX`).

Each structure's chance is worked out alone, against all that is not it. Odds of structures that exclude one another,
each against none of them, give the chance of each among all: p = o / (1 + sum of all o).
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from .atlas import Atlas
from .grid_weights import Field, Grid

_PROSTATE, _UTERUS = "prostate", "uterus"  # the largest organ of each sex alone
_OF_MEN = (_PROSTATE, "seminal_vesicle_left", "seminal_vesicle_right", "testis_left", "testis_right", "penis")
_OF_WOMEN = (_UTERUS, "cervix_uteri", "vagina", "ovary_left", "ovary_right", "adnexa_left", "adnexa_right")
# Place of one sex -> the largest organ of this sex, and that of the other.
OTHER_SEX = dict.fromkeys(_OF_MEN, (_PROSTATE, _UTERUS)) | dict.fromkeys(_OF_WOMEN, (_UTERUS, _PROSTATE))
_SUREST = 0.98
_MORE_THAN_ONE = 1.15  # shares of structures that exclude one another add up to one; those of different bodies to more


def odds(chance: np.ndarray) -> np.ndarray:
    """Of chances, none of which counts as certain."""
    chance = chance.clip(0, _SUREST)
    return chance / (1 - chance)


def total_odds(grid: Grid, fields: list[Field]) -> Field:
    """Of several structures together, over a whole grid."""
    total = np.zeros(grid.shape, dtype=np.float32)
    for field in fields:
        total[grid.crop(field)] += odds(field.values)
    return Field((0, 0, 0), total)


def among_others(grid: Grid, field: Field, total: Field, sharing: list[Field]) -> Field:
    """The chance of a structure where others may be. total: `total_odds`, its own among them. sharing: fields of those
    of them that may lie where it lies.
    """
    own = odds(field.values)
    rivals = total.values[grid.crop(field)] - own
    for other in sharing:
        rivals = rivals - grid.taken(grid.with_values(other, odds(other.values)), field)
    return grid.with_values(field, own / (1 + own + np.maximum(rivals, 0)))


@lru_cache(maxsize=4096)
def sharing_places(atlas: Atlas, name: str) -> tuple[str, ...]:
    """Structures of an atlas that may lie where this one lies, as its parts and what it is part of do: both are so
    often at some place that they cannot exclude one another.
    """
    own = atlas.occupancies[name]
    found = []
    for other, occupancy in atlas.occupancies.items():
        low = np.maximum(own.first, occupancy.first)
        high = np.minimum(
            np.add(own.first, own.share.shape[::-1]), np.add(occupancy.first, occupancy.share.shape[::-1])
        )
        if other == name or (high <= low).any():
            continue
        one, two = (
            of.share[tuple(slice(a - f, b - f) for a, b, f in zip(low, high, of.first, strict=True))[::-1]]
            for of in (own, occupancy)
        )
        if int(np.add(one, two, dtype=np.uint16).max()) > 255 * _MORE_THAN_ONE:
            found.append(other)
    return tuple(found)
