"""A patient with structured reports: findings of every kind, at known places."""

from collections.abc import Sequence
from datetime import date

import numpy as np

from AnatomicalEmbedding.followup.lesions import (
    PROPOSED,
    Axis,
    Finding,
    Guess,
    Measurement,
    Point,
    Study,
)
from AnatomicalEmbedding.followup.record import FollowUp
from AnatomicalEmbedding.scan.volume import Volume

PRIOR = Study("prior", "CT before", date(2024, 1, 15))
CURRENT = Study("current", "CT after", date(2024, 4, 2))
SHARES = (
    (0.5, 0.5, 0.5),
    (0.4, 0.55, 0.3),
    (0.6, 0.45, 0.7),
    (0.45, 0.4, 0.6),
    (0.55, 0.5, 0.2),
    (0.5, 0.6, 0.4),
)


def place_in(volume: Volume, share: Sequence[float]) -> Point:
    """RAS mm, at these shares of a scan's voxels along its i, j and k axes."""
    ijk = (np.array(volume.shape[::-1]) - 1) * share
    return tuple(float(value) for value in (volume.ijk_to_ras @ (*ijk, 1))[:3])


def axes_at(
    point: Point, long_mm: float, short_mm: float, degrees: float = 25.0
) -> tuple[Axis, Axis]:
    """A cross of two diameters in the axial plane."""
    turn = np.radians(degrees)
    along = np.array((np.cos(turn), np.sin(turn), 0))
    across = np.array((-np.sin(turn), np.cos(turn), 0))
    middle = np.array(point)
    return tuple(
        (tuple(map(float, middle - unit * mm / 2)), tuple(map(float, middle + unit * mm / 2)))
        for unit, mm in ((along, long_mm), (across, short_mm))
    )


def patient_record(
    prior: Volume, current: Volume, studies: tuple[Study, Study] = (PRIOR, CURRENT)
) -> FollowUp:
    """L1 measured in both; L2 a node, moved; L3 gone; L4 proposed and left so; L5 outside; L6 merged with L1."""
    before, after = (study.key for study in studies)
    record = FollowUp().with_studies(studies)
    for n, share in enumerate(SHARES, start=1):
        point = place_in(prior, share)
        record = record.mark(before, point)
        record = record.measure(f"L{n}", before, *axes_at(point, 20.0 + n, 12.0 + n))
        guess = Guess("matched", before, 3.0 + n, 0.9)
        there = place_in(current, share)
        record = record.propose(
            after,
            {
                f"L{n}": Finding(
                    PROPOSED, there, guess, Measurement(*axes_at(there, 20 + n, 12 + n))
                )
            },
        )
    record = record.describe("L1", name="dome", site="liver")
    record = record.describe("L2", name="hilar node", site="left lung", nodal=True)
    record = record.measure("L1", after, *axes_at(place_in(current, SHARES[0]), 15.5, 9.25))
    moved = place_in(current, (0.42, 0.56, 0.3))
    record = record.move("L2", after, moved).measure("L2", after, *axes_at(moved, 14.0, 8.0))
    return record.not_visible("L3", after).outside("L5", after).merge("L6", after, target_id="L1")
