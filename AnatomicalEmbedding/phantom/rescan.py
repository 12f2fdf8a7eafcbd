"""The same synthetic patient in another scan, with other weight, breathing and position."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from .deformation import Bumps, Deformation, rotation_by, solve_displacement

_MAX_SLOPE = 0.75  # Lipschitz bound of the moves
_BREATH_MM = 12.0  # standard deviation of the diaphragm's height
_MOST_BREATH_MM = 22.0
_TURN_DEG = 2.5
# Where breathing moves the body: centre (body frame, mm), reach (mm), share of the diaphragm's move.
_BREATH = (
    ((75, 10, 390), 150, 0.75),
    ((-78, 10, 385), 150, 0.75),
    ((70, 25, 300), 150, 0.45),
    ((-90, -15, 300), 130, 0.35),
    ((-22, 45, 405), 120, 0.15),
)
# Random changes of position: number of places, their reach (mm) and move (mm, standard deviation along each axis).
_LIMP = ((10, (90.0, 150.0), 4.5), (4, (230.0, 320.0), 9.0))


@dataclass(frozen=True)
class Rescan:
    """A patient's map at another time: p -> turn and shift back onto the table -> p + moves(p) -> the patient's map.

    All points (N, 3), mm.
    """

    patient: Deformation
    rotation: np.ndarray
    middle: np.ndarray
    shift: np.ndarray
    moves: Bumps

    @classmethod
    def random(cls, patient: Deformation, rng: np.random.Generator) -> Rescan:
        """A random rescan of a patient."""
        breath = float(np.clip(rng.normal(0, _BREATH_MM), -_MOST_BREATH_MM, _MOST_BREATH_MM))
        fat = replace(patient.fat, change=float(np.clip(patient.fat.change + rng.uniform(-0.3, 0.3), -0.6, 0.65)))
        patient = replace(patient, fat=fat, thickness_scale=patient.thickness_scale * (1 - 0.002 * breath))
        center = [np.array(c, float) for c, _, _ in _BREATH]
        reach = [float(r) for _, r, _ in _BREATH]
        move = [share * breath * np.array([0.0, 0.2, -1.0]) for _, _, share in _BREATH]
        for count, reaches, size in _LIMP:
            center += list(rng.uniform((-140, -80, -40), (140, 110, 580), (count, 3)))
            reach += list(rng.uniform(*reaches, count))
            move += list(rng.normal(0, size, (count, 3)))
        moves = Bumps(patient.from_body(np.array(center)), np.array(reach), np.array(move))
        moves = Bumps(moves.center, moves.reach_mm, moves.shift_mm / max(moves.slope_bound / _MAX_SLOPE, 1.0))
        return cls(
            patient,
            rotation_by(np.deg2rad(rng.normal(0, _TURN_DEG, 3)).clip(-0.1, 0.1)),
            patient.from_body(np.array([[0.0, 0.0, 300.0]]))[0],
            rng.uniform((-40, -40, -300), (40, 40, 300)),
            moves,
        )

    def to_body(self, points_ras: np.ndarray) -> np.ndarray:
        """Patient RAS of the rescan (N, 3) -> canonical body frame (N, 3)."""
        points = (np.atleast_2d(points_ras) - self.shift - self.middle) @ self.rotation.T + self.middle
        return self.patient.to_body(points + self.moves(points))

    def from_body(self, points_body: np.ndarray) -> np.ndarray:
        """Canonical body frame (N, 3) -> patient RAS of the rescan (N, 3); inverse of `to_body`."""
        points = solve_displacement(self.patient.from_body(points_body), self.moves)
        return (points - self.middle) @ self.rotation + self.middle + self.shift
