"""Landmark sets in a scene: which set a point list was made from, and what its examples answer in a scan."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from AnatomicalEmbedding.errors import PointsError

from ..shared.maps.SceneRelations import SceneRelations
from ..shared.VolumeNodes import isFilm
from .ControlPoints import labelOf

if TYPE_CHECKING:
    from AnatomicalEmbedding.landmarks.landmark_set import LandmarkSet
    from AnatomicalEmbedding.matching.match import Matches

_FILE = "AnatomicalEmbedding.LandmarkSet"  # attribute of a point list: path of its landmark set
_PLACED = "landmark set: "  # start of the description of a point that was placed by its set


class LandmarkSets:
    """Reads the landmark sets of point lists. A file is read again when it has changed."""

    def __init__(self, relations: SceneRelations) -> None:
        self._relations = relations
        self._read: dict[str, tuple[float, str, LandmarkSet]] = {}

    def key(self, points, pointId: str) -> str:
        """Return a text that identifies the examples of a point in its set; "" without a set or such a landmark."""
        path = setFile(points)
        label = labelOf(points, pointId)
        if not path:
            return ""
        try:
            digest, landmarkSet = self._load(path)
        except PointsError:
            return "?+"  # then the points are matched again, and the user gets the message
        return f"{digest}+" if label in landmarkSet.names else ""

    def examplesIn(
        self, points, target, ids: Sequence[str]
    ) -> dict[str, tuple[Matches, np.ndarray]]:
        """Find the places of points in a target by the examples of their set.

        Args:
            points: a point list; without a set, nothing is found.
            target: a volume node with a map. In a film, nothing is found.
            ids: IDs of the points.

        Returns:
            By the ID of a point: the answers and weights of its examples, see `LandmarkSet.examples_in`.

        Raises:
            MapError: the set was made with other weights.
            PointsError: the set cannot be read.
        """
        path = setFile(points)
        if not path or isFilm(target):
            return {}
        _digest, landmarkSet = self._load(path)
        labels = {pointId: labelOf(points, pointId) for pointId in ids}
        embedding = self._relations.store.map(target)
        answers = landmarkSet.examples_in(embedding, labels.values())
        return {pointId: answers[label] for pointId, label in labels.items() if label in answers}

    def _load(self, path: str) -> tuple[str, LandmarkSet]:
        """Return a hash of the file and its landmark set."""
        from AnatomicalEmbedding.landmarks.landmark_set import read_landmark_set

        try:
            time = Path(path).stat().st_mtime
            if self._read.get(path, (0.0,))[0] != time:
                digest = hashlib.sha256(Path(path).read_bytes()).hexdigest()[:12]
                self._read[path] = time, digest, read_landmark_set(path)
        except OSError as error:
            raise PointsError(
                f"{path}: the landmark set of these points cannot be read; put the file back, or open the set again."
            ) from error
        return self._read[path][1:]


def setFile(points) -> str:
    """Return the path of the set that a point list was made from; "" if it was not made from a set."""
    return points.GetAttribute(_FILE) or ""


def setSetFile(points, path: str) -> None:
    points.SetAttribute(_FILE, path)


def isFromSet(points, pointId: str) -> bool:
    """Return True if a point was placed by its set, and the user has neither moved nor confirmed it."""
    index = points.GetControlPointIndexByID(pointId)
    return points.GetNthControlPointDescription(index).startswith(_PLACED)


def markFromSet(points, index: int, text: str) -> None:
    """Note that a point was placed by its set.

    Args:
        points: the point list, line, angle or curve.
        index: index of the point.
        text: status and error for the user.
    """
    points.SetNthControlPointDescription(index, _PLACED + text)


def confirm(points, pointId: str) -> None:
    """Note that the place of a point is the user's: it is an example from now on."""
    if isFromSet(points, pointId):
        points.SetNthControlPointDescription(points.GetControlPointIndexByID(pointId), "")
