"""Maps of three scans of one body, each shifted by a known vector, and a follow-up record of these scans."""

from datetime import date

import numpy as np
from small_models import analytic_map

from AnatomicalEmbedding.embedding.map import EmbeddingMap
from AnatomicalEmbedding.followup.lesions import Study
from AnatomicalEmbedding.followup.record import FollowUp

STEPS = {"a": np.zeros(3), "b": np.array([7.0, -4.0, 11.0]), "c": np.array([-6.0, 9.0, 5.0])}
MIDDLE = np.array([6.0, 5.0, 396.0])  # of every scan
STUDIES = (
    Study("a", "first", date(2024, 1, 1)),
    Study("b", "second", date(2024, 6, 1)),
    Study("c", "third", date(2024, 7, 1)),
)
EMPTY = FollowUp().with_studies(STUDIES)


def moved_map(key: str, body: np.ndarray | None = None) -> EmbeddingMap:
    """The anatomy at p in scan "a" lies at p + STEPS[key] in scan `key`."""
    return analytic_map(lambda points: points - STEPS[key], name=key, body=body)
