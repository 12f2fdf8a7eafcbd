"""The common type of all relations, and the relation of two scans by their maps alone.

The other kinds are `registration.correspondence.Correspondence` (two CTs of one patient), `registration.films.FilmPair`
(two films), and `films.patient.CTInFilm` and `FilmInCT` (a CT and a film of the patient).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Protocol, Self

import numpy as np

from ..embedding.map import EmbeddingMap
from ..matching.match import Matches, match_all
from ..matching.status import at_most_uncertain
from ..registration import BY_MATCH


class Relation(Protocol):
    """Where the points of a template lie in a target."""

    @property
    def found_by(self) -> str:
        """How the relation finds points: BY_MATCH or BY_REGISTRATION."""

    @property
    def refusal(self) -> str:
        """What speaks against one patient although the user says that both scans show one; "" if nothing does.

        A sentence that begins with the names of the two scans can end with it.
        """

    def points(self, points_ras: np.ndarray) -> Matches:
        """Find points (N, 3), RAS mm of the template, in the target.

        Raises PointsError if a point lies outside the template.
        """

    def inverse(self) -> Relation:
        """Return the relation from the target to the template."""

    def prepare(self) -> None:
        """Compute now, in both directions, what the first call of `points` would compute and keep."""


@dataclass(frozen=True)
class MapRelation:
    """Points are matched, see `matching.match.match_all`. With a refusal, no answer is better than "uncertain"."""

    template: EmbeddingMap
    target: EmbeddingMap
    effort: str = "standard"
    refusal: str = ""
    found_by = BY_MATCH

    def points(self, points_ras: np.ndarray) -> Matches:
        """Find points of the template in the target; see `Relation`."""
        return matches_in_all([self], points_ras)[0]

    def inverse(self) -> Self:
        """Return the relation from the target to the template."""
        return replace(self, template=self.target, target=self.template)

    def prepare(self) -> None:
        """Nothing is computed before the points are known; see `Relation`."""

    def judge(self, matches: Matches) -> Matches:
        """Return matches with the status that the refusal allows."""
        if not self.refusal or matches.status is None:
            return matches
        return replace(matches, status=at_most_uncertain(matches.status, True))


def matches_in_all(relations: Sequence[Relation], points_ras: np.ndarray) -> list[Matches]:
    """Find points of one template in several targets. Targets that are matched are matched together, which saves time.

    Args:
        relations: relations of one template. The relations by maps have the same effort.
        points_ras: (N, 3) RAS mm in the template.

    Returns:
        The matches of each relation.
    """
    by_map = [relation for relation in relations if isinstance(relation, MapRelation)]
    targets = [relation.target for relation in by_map]
    matches: Iterator[Matches] = iter(())  # of the relations in `by_map`, in their order
    if by_map:
        matches = iter(match_all(by_map[0].template, points_ras, targets, by_map[0].effort))
    return [
        relation.judge(next(matches))
        if isinstance(relation, MapRelation)
        else relation.points(points_ras)
        for relation in relations
    ]
