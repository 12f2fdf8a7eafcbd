"""Decides how points are found in another scan: by the correspondence of one patient's scans, or by `match`.

A correspondence is computed once for two scans. It is kept next to the maps in the cache, and so is a refusal.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import numpy as np

from ..embedding.cache import MapCache
from ..embedding.map import EmbeddingMap
from ..errors import AnatomicalEmbeddingError, CancelledError
from ..files import write_text
from ..matching.match import Matches, match_all
from ..scan.volume import Volume
from . import BY_MATCH, BY_REGISTRATION
from .correspondence import Correspondence, NotSamePatientError, pair


class MappedScan(NamedTuple):
    """A scan and its map."""

    volume: Volume
    map: EmbeddingMap


class Answers(NamedTuple):
    """The matches in one target. found_by: BY_REGISTRATION if they come from the correspondence, otherwise BY_MATCH."""

    matches: Matches
    found_by: str


def answers(
    template: EmbeddingMap,
    points_ras: np.ndarray,
    targets: Sequence[EmbeddingMap],
    correspondences: Sequence[Correspondence | None],
    effort: str = "standard",
) -> list[Answers]:
    """Find points in several targets. A target that has a correspondence with the template is not matched.

    Args:
        points_ras: (N, 3) RAS mm in the template.
        correspondences: for each target, the correspondence from the template to this target, or None.
        effort: effort of `match_all`, whose errors this function raises for the targets without a correspondence.
    """
    others = [target for target, known in zip(targets, correspondences, strict=True) if known is None]
    matched = iter(match_all(template, points_ras, others, effort))
    return [
        Answers(next(matched), BY_MATCH) if known is None else Answers(known.points(points_ras), BY_REGISTRATION)
        for known in correspondences
    ]


def find_correspondence(
    template: MappedScan, target: MappedScan, same_patient: bool | None = None, cache: MapCache | None = None
) -> Correspondence | None:
    """Return the correspondence of two scans, or None if their points must be matched.

    same_patient: False always returns None. None returns the correspondence if both scans have the same DICOM Patient
    ID and are not refused. True returns the correspondence, and raises the errors of `correspondence_of`.
    """
    ids = {template.volume.patient_id, target.volume.patient_id}
    if same_patient is False or (same_patient is None and (len(ids) > 1 or "" in ids)):
        return None
    try:
        return correspondence_of(template, target, cache)
    except AnatomicalEmbeddingError:
        if same_patient:
            raise
        return None


def correspondence_of(
    template: MappedScan,
    target: MappedScan,
    cache: MapCache | None = None,
    progress: Callable[[float, str], None] | None = None,
    cancelled: Callable[[], bool] | None = None,
) -> Correspondence:
    """Read the correspondence of two scans from the cache, or compute and store it. See `correspondence.pair`.

    Raises:
        NotSamePatientError: the scans do not show one patient and one region; also if the cache knows this.
        CancelledError: `cancelled()` returned True.
        AnatomicalEmbeddingError: the scans have too few places in common.
    """
    # two scans are always paired in one order, so that both directions give the same places
    first, second = sorted((template, target), key=lambda scan: scan.map.provenance.scan_hash)
    path = None if cache is None else cache.pair_path(first.map.provenance, second.map.provenance)
    found = None if path is None else _read(path)
    if found is None:
        try:
            found = pair(first.volume, second.volume, first.map, second.map, progress=progress, cancelled=cancelled)
        except NotSamePatientError as error:
            _keep(cache, path, lambda: write_text(_refusal(path), str(error)))
            raise
        _keep(cache, path, lambda: found.save(path))
    return found if first is template else found.inverse()


def _read(path: Path) -> Correspondence | None:
    """Read a stored correspondence. Raises NotSamePatientError if a refusal is stored. A damaged file is deleted."""
    with suppress(OSError):
        raise NotSamePatientError(_refusal(path).read_text(encoding="utf-8"))
    if not path.exists():
        return None
    try:
        found = Correspondence.load(path)
    except AnatomicalEmbeddingError:
        path.unlink(missing_ok=True)
        return None
    with suppress(OSError):  # a read-only cache can still be read
        path.touch()
    return found


def _keep(cache: MapCache | None, path: Path | None, write: Callable[[], None]) -> None:
    """Write a file of the cache and keep the cache's limit. Raises no error if writing fails."""
    if cache is not None and path is not None:
        with suppress(AnatomicalEmbeddingError, OSError):
            write()
            cache.shrink(cache.limit_bytes)


def _refusal(path: Path) -> Path:
    return path.with_suffix(".refused")
