"""What is said about a level: the vertebra, the chance that it is right, and the two candidates."""

from typing import NamedTuple

import numpy as np

from ..anatomy.names import VERTEBRAE
from .average import HEIGHT_MM, height_of

_LAST = len(VERTEBRAE) - 1
_LEAST_CHANCE = 0.8  # least chance, for a certain level, that it is right; for two scans, that both levels are right


class Level(NamedTuple):
    """The level of a point or of a slice.

    Args:
        vertebra: the likely level, such as "L3".
        chance: chance that it is right, 0 to 1.
        candidates: the two likely levels, such as "L3 or L4".
        is_certain: whether the level is counted from an end of the spine, and has a high chance.
    """

    vertebra: str
    chance: float
    candidates: str
    is_certain: bool

    @property
    def doubt(self) -> str:
        """The two candidates if the level is not certain, otherwise ""."""
        return "" if self.is_certain else self.candidates

    @property
    def text(self) -> str:
        """ "L3", or "L3 or L4" if the level is not certain."""
        return self.doubt or self.vertebra

    @property
    def possible(self) -> list[str]:
        """The level if it is certain, otherwise both candidates."""
        return self.text.split(" or ")


def is_level_certain(chance: np.ndarray) -> np.ndarray:
    """Whether levels of the spine with these chances (n,) to be right count as certain. Returns (n,) bool."""
    return chance >= _LEAST_CHANCE


def level_sentence(candidates: str) -> str:
    """Return the remark for an answer whose level is not certain, "L3 or L4"; "" if `candidates` is ""."""
    return f"the level is not certain: {candidates}" if candidates else ""


def two_levels(upper: int) -> str:
    """Name two neighbouring levels, such as "L3 or L4". upper: index of the upper level in VERTEBRAE."""
    upper = min(max(upper, 0), _LAST - 1)
    return f"{VERTEBRAE[upper]} or {VERTEBRAE[upper + 1]}"


def candidates_at(heights: np.ndarray) -> np.ndarray:
    """For each body height (n,), name the vertebrae above and below this height: (n,) texts such as "L3 or L4"."""
    lower = np.searchsorted(-HEIGHT_MM, -heights)
    return np.array([two_levels(index - 1) for index in lower], str)


def structure_candidates(structure: str, level: str, body_height: float) -> str:
    """Name the two possible levels of a numbered structure whose level is not certain.

    Args:
        structure: name of a vertebra, disc or rib.
        level: the level in this name.
        body_height: height of the structure in the body frame, mm. If it is lower than usual for `level`, the second
            level is the level below it in the body (L4 for L3); if not, the level above it (L2 for L3).

    Returns:
        "L3 or L4"; for ribs "rib 11 or 12". For a rib 12 at too low a place, "rib 12 or a process of L1".
    """
    step = 1 if body_height < height_of(level) else -1
    second = VERTEBRAE[min(max(VERTEBRAE.index(level) + step, 0), _LAST)]
    if not structure.startswith("rib"):
        return f"{level} or {second}"
    if second == "L1":
        return "rib 12 or a process of L1"
    return f"rib {level[1:]} or {second[1:] if second[0] == 'T' else 2}"
