"""Errors a user can meet. Every message is one sentence that names the file, what is wrong and what to do."""

from collections.abc import Iterable
from difflib import get_close_matches


class AnatomicalEmbeddingError(Exception):
    """Base of all errors raised for a reason the user can act on."""


class VolumeError(AnatomicalEmbeddingError):
    """A scan cannot be read, or is not a CT this engine can embed."""


class PointsError(AnatomicalEmbeddingError):
    """A list of points cannot be read, or a point lies outside its scan."""


class WeightsError(AnatomicalEmbeddingError):
    """Model weights are missing, damaged, or not what their card says."""


class MapError(AnatomicalEmbeddingError):
    """An embedding map cannot be read, or does not fit the map it is compared with."""


class MemoryLimitError(AnatomicalEmbeddingError):
    """The work does not fit the memory budget, even in slabs."""


class CancelledError(AnatomicalEmbeddingError):
    """The user pressed Cancel; nothing was written."""


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """The words (did you mean ...?), the nearest of what is known, or "" where nothing is near."""
    near = get_close_matches(name.lower(), known, 1, 0.75)
    return f" (did you mean {near[0]}?)" if near else ""
