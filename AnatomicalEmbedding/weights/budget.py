"""Splits a budget of hours over the stages of a build of weights, and states how much data each stage uses."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from .data_index import DataEntry

FULL_HOURS = 5.0  # with fewer hours, the numbers below are reduced in proportion
# by hand; the shipped calibrations, libraries and atlases were made with these
NUMBERS = {
    "phantoms": 70,
    "label_images": 6,
    "drawn_scans": 26,
    "calibration_scans": 120,
    "calibration_phantoms": 10,
    "library_phantoms": 8,
    "atlas_phantoms": 18,
    "mirror_steps": 600,
}
_LEAST = {"label_images": 1}  # least value of a number; 3 for the others
ROUND = "round "
# The stages in their order. Each round of training has a share of the hours of training, each other stage has a share
# of the other hours. Chosen on the times of a small build.
_LAST = {
    "organs": 0.03,
    "orientation": 0.15,
    "calibration": 0.25,
    "library": 0.12,
    "atlas": 0.08,
    "figures": 0.07,
}
_TWO_ROUNDS = {"scans": 0.2, "round A": 0.4, "align B": 0.1, "round B": 0.6, **_LAST}
_THREE_ROUNDS = {
    "scans": 0.2,
    "round A": 0.25,
    "align B": 0.05,
    "round B": 0.25,
    "align C": 0.05,
    "round C": 0.5,
    **_LAST,
}
_THREE_ROUNDS_HOURS = 4.0  # least budget of three rounds
# other hours: a constant, and a share of the budget; at most half of the budget
_OTHER_HOURS = 0.4
_OTHER_SHARE = 0.1


@dataclass(frozen=True)
class BuildPlan:
    """How a build uses its budget.

    Args:
        terms: "open" or "all".
        recipe: name of the recipe.
        seed: seed of the first round; each later round has the next number.
        scans, label_maps: names of the data.
        hours: stage -> wall-clock hours, in the order of the stages.
        numbers: how many scans, images and synthetic patients of each kind are made or used.
    """

    terms: str
    recipe: str
    seed: int
    scans: list[str]
    label_maps: list[str]
    hours: dict[str, float]
    numbers: dict[str, int]

    @classmethod
    def make(
        cls,
        terms: str,
        recipe: str,
        seed: int,
        hours: float,
        scans: Sequence[DataEntry],
        label_maps: Sequence[DataEntry],
    ) -> BuildPlan:
        """Plan a build.

        Args:
            terms, recipe, seed: as in `BuildPlan`.
            hours: wall-clock hours of all stages together.
            scans, label_maps: the data.
        """
        other_hours = min(hours / 2, _OTHER_HOURS + _OTHER_SHARE * hours)
        shares = _THREE_ROUNDS if hours >= _THREE_ROUNDS_HOURS else _TWO_ROUNDS
        planned = {}
        for stage, share in shares.items():
            budget = hours - other_hours if stage.startswith(ROUND) else other_hours
            planned[stage] = round(share * budget, 4)
        part = min(1.0, hours / FULL_HOURS)
        numbers = {}
        for name, full in NUMBERS.items():
            numbers[name] = max(_LEAST.get(name, 3), round(part * full))
        return cls(
            terms,
            recipe,
            seed,
            [scan.name for scan in scans],
            [label_map.name for label_map in label_maps],
            planned,
            numbers,
        )

    @property
    def rounds(self) -> list[str]:
        """The names of the rounds of training, in their order: "A", "B" and perhaps "C"."""
        return [stage.removeprefix(ROUND) for stage in self.hours if stage.startswith(ROUND)]

    def hours_to_end(self, stage: str, share: float) -> float:
        """Return the planned hours to the end of the build, after a share (0 to 1) of a stage."""
        number = list(self.hours).index(stage)
        later_hours = list(self.hours.values())[number + 1 :]
        return (1 - share) * self.hours[stage] + sum(later_hours)
