"""Structures that exclude one another share the chance of a cell.

A man has no uterus: places of one sex share their chance with those of the other (`OTHER_SEX`).

Each structure's chance is worked out alone, against all that is not it. Odds of structures that exclude one another,
each against none of them, give the chance of each among all: p = o / (1 + sum of all o).
"""

from __future__ import annotations

import numpy as np

from .grid_weights import Field, Grid

_PROSTATE, _UTERUS = "prostate", "uterus"  # the largest organ of each sex alone
_OF_MEN = (_PROSTATE, "seminal_vesicle_left", "seminal_vesicle_right", "testis_left", "testis_right", "penis")
_OF_WOMEN = (_UTERUS, "cervix_uteri", "vagina", "ovary_left", "ovary_right", "adnexa_left", "adnexa_right")
# Place of one sex -> the largest organ of this sex, and that of the other.
OTHER_SEX = dict.fromkeys(_OF_MEN, (_PROSTATE, _UTERUS)) | dict.fromkeys(_OF_WOMEN, (_UTERUS, _PROSTATE))
_SUREST = 0.98


def odds(chance: np.ndarray) -> np.ndarray:
    """Odds of chances; no chance counts as certain."""
    chance = chance.clip(0, _SUREST)
    return chance / (1 - chance)


def total_odds(grid: Grid, fields: list[Field]) -> Field:
    """The sum of the odds of several structures, over a whole grid."""
    total = np.zeros(grid.shape, dtype=np.float32)
    for field in fields:
        total[grid.crop(field)] += odds(field.values)
    return Field((0, 0, 0), total)


def among_others(grid: Grid, field: Field, total: Field, sharing: list[Field]) -> Field:
    """The chance of a structure among its rivals.

    total: `total_odds` of all structures, this one included. sharing: fields of its wholes and parts, which are no
    rivals.
    """
    own = odds(field.values)
    rivals = total.values[grid.crop(field)] - own
    for other in sharing:
        rivals = rivals - grid.values_over(grid.with_values(other, odds(other.values)), field)
    return grid.with_values(field, own / (1 + own + np.maximum(rivals, 0)))
