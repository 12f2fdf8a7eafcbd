"""Decides how points are found in another scan: by the correspondence of one patient's scans, or by `match`.

A correspondence is computed once for two scans. It is kept next to the maps in the cache, and so is a refusal. What is
kept contains no names of scans.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import NamedTuple

import numpy as np

from ..embedding.cache import MapCache
from ..embedding.map import EmbeddingMap, Provenance
from ..errors import AnatomicalEmbeddingError, NotSamePatientError
from ..files import write_text
from ..matching.match import Matches, match_all
from ..matching.status import at_most_uncertain
from ..scan.volume import Volume
from .correspondence import FORMAT_VERSION, Correspondence, pair
from .films import film_answers


class Refusal(NamedTuple):
    """Stands for the correspondence of two scans that a user calls scans of one patient, but that cannot be paired.

    reason: what speaks against one patient, for a sentence that begins with the names of the two scans.
    """

    reason: str

    def doubted(self, matches: Matches) -> Matches:
        """Return the matches of the two scans with a status that is at most "uncertain"."""
        if matches.status is None:
            return matches
        return replace(matches, status=at_most_uncertain(matches.status, np.ones(len(matches), dtype=bool)))


class MappedScan(NamedTuple):
    """A scan and its map."""

    volume: Volume
    map: EmbeddingMap


def match_scans(
    template: MappedScan | EmbeddingMap,
    points_ras: np.ndarray,
    targets: Sequence[MappedScan | EmbeddingMap],
    *,
    same_patient: bool | None = None,
    effort: str = "standard",
    cache: MapCache | None = None,
) -> list[tuple[Matches, Correspondence | Refusal | None]]:
    """Find points in several targets, by registration or by match: the choice of the command and of Python.

    Returns the answers in each target, and what was found about the two scans, as `find_correspondence` returns it.

    Args:
        template, targets: scans with their maps. Where only a map is given, the points are matched.
        points_ras: (N, 3) RAS mm in the template.
        same_patient: see `find_correspondence`.
        effort: effort of `match_all`, for the targets that are matched. Its errors are raised.
        cache: where correspondences are kept.

    Raises:
        AnatomicalEmbeddingError: same_patient is True, but only a map of a scan is given.
    """
    known: list[Correspondence | Refusal | None] = []
    for target in targets:
        if not isinstance(template, EmbeddingMap) and not isinstance(target, EmbeddingMap):
            known.append(find_correspondence(template, target, same_patient, cache))
        elif same_patient:
            raise AnatomicalEmbeddingError("scans of one patient are registered by their voxels; give scans, not maps.")
        else:
            known.append(None)
    first, *maps = (scan if isinstance(scan, EmbeddingMap) else scan.map for scan in (template, *targets))
    return list(zip(answers(first, points_ras, maps, known, effort), known, strict=True))


def answers(
    template: EmbeddingMap,
    points_ras: np.ndarray,
    targets: Sequence[EmbeddingMap],
    correspondences: Sequence[Correspondence | Refusal | None],
    effort: str = "standard",
) -> list[Matches]:
    """Find points in several targets. A target that has a correspondence with the template is not matched.

    Films: see `films.film_answers`.

    Args:
        points_ras: (N, 3) RAS mm in the template.
        correspondences: for each target, the correspondence from the template to this target; None to match the
            points; a Refusal to match them with a status that is at most "uncertain".
        effort: effort of `match_all`, whose errors this function raises for the targets without a correspondence.
    """
    asked = zip(targets, correspondences, strict=True)
    others = [target for target, known in asked if known is None or isinstance(known, Refusal)]
    found = match_all(template, points_ras, others, effort)
    if template.is_film:
        pairs = zip(others, found, strict=True)
        found = [film_answers(template, points_ras, target, matches, effort) for target, matches in pairs]
    matched = iter(found)
    results = []
    for known in correspondences:
        if known is None:
            results.append(next(matched))
        elif isinstance(known, Refusal):
            results.append(known.doubted(next(matched)))
        else:
            results.append(known.points(points_ras))
    return results


def find_correspondence(
    template: MappedScan, target: MappedScan, same_patient: bool | None = None, cache: MapCache | None = None
) -> Correspondence | Refusal | None:
    """Return the correspondence of two scans, or None if their points must be matched.

    Films are always matched. same_patient: False always returns None. None returns the correspondence if both scans
    have the same DICOM Patient ID and can be paired. True returns the correspondence, or a Refusal.
    """
    ids = {template.volume.patient_id, target.volume.patient_id}
    if template.volume.is_film or same_patient is False or (same_patient is None and (len(ids) > 1 or "" in ids)):
        return None
    try:
        return correspondence_of(template, target, cache)
    except AnatomicalEmbeddingError as error:
        return Refusal(str(error)) if same_patient else None


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
    scans = (first.volume, second.volume, first.map, second.map)
    make = partial(pair, *scans, progress=progress, cancelled=cancelled)
    found = make() if cache is None else _from_cache(cache, first.map.provenance, second.map.provenance, make)
    return found if first is template else found.inverse()


def _from_cache(
    cache: MapCache, one: Provenance, other: Provenance, make: Callable[[], Correspondence]
) -> Correspondence:
    """Read a correspondence, or the error of its refusal. If neither is stored, call `make` and store its result."""
    path = cache.pair_path(one, other)
    refusal = path.with_suffix(f".refused{FORMAT_VERSION}")  # a later version decides again
    with suppress(OSError):
        raise NotSamePatientError(refusal.read_text(encoding="utf-8", errors="replace"))
    for old in path.parent.glob(f"{path.stem}.refused*"):  # earlier versions kept names in these files
        with suppress(OSError):
            old.unlink()
    with suppress(AnatomicalEmbeddingError):  # a damaged file is replaced
        found = Correspondence.load(path)
        with suppress(OSError):  # a read-only cache can still be read
            path.touch()
        return found
    try:
        found = make()
    except NotSamePatientError as error:
        with suppress(AnatomicalEmbeddingError):
            write_text(refusal, str(error))
        raise
    with suppress(AnatomicalEmbeddingError):
        found.save(path)
        cache.shrink(cache.limit_bytes)
    return found
