"""Reads the correspondence of two scans of one patient from the cache, or computes it once.

A correspondence is kept next to the maps in the cache, and so is a refusal. What is kept contains no names of scans.
"""

from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import NamedTuple

from ..embedding.cache import MapCache
from ..embedding.map import EmbeddingMap
from ..errors import AnatomicalEmbeddingError, CancelCallback, NotSamePatientError, ProgressCallback
from ..files import write_text
from ..registration.correspondence import FORMAT_VERSION, Correspondence, pair
from ..scan.volume import Volume


class MappedScan(NamedTuple):
    """A scan and its map."""

    volume: Volume
    map: EmbeddingMap


def correspondence_of(
    template: MappedScan,
    target: MappedScan,
    cache: MapCache | None = None,
    progress: ProgressCallback | None = None,
    cancelled: CancelCallback | None = None,
) -> Correspondence:
    """Read the correspondence of two scans from the cache, or compute and store it. See `correspondence.pair`.

    Args:
        template, target: the scans.
        cache: where the result is kept; None to compute it.
        progress: called as progress(share, step) during the work; share is 0 to 1.
        cancelled: returns True to stop the work.

    Raises:
        NotSamePatientError: the scans do not show one patient and one region; also if the cache knows this.
        CancelledError: `cancelled()` returned True.
        AnatomicalEmbeddingError: the scans have too few places in common.
    """
    # two scans are always paired in one order, so that both directions give the same places
    first, second = sorted((template, target), key=lambda scan: scan.map.provenance.scan_hash)
    scans = (first.volume, second.volume, first.map, second.map)
    compute = partial(pair, *scans, progress=progress, cancelled=cancelled)
    correspondence = compute() if cache is None else _from_cache(cache, first, second, compute)
    return correspondence if first is template else correspondence.inverse()


def _from_cache(
    cache: MapCache, first: MappedScan, second: MappedScan, compute: Callable[[], Correspondence]
) -> Correspondence:
    """Read a correspondence, or the error of its refusal. If neither is stored, compute and store it."""
    path = cache.pair_path(first.map.provenance, second.map.provenance)
    refusal = path.with_suffix(f".refused{FORMAT_VERSION}")  # a later version decides again
    with suppress(OSError):
        raise NotSamePatientError(refusal.read_text(encoding="utf-8", errors="replace"))
    with suppress(AnatomicalEmbeddingError):  # a damaged file is replaced
        correspondence = Correspondence.load(path)
        with suppress(OSError):  # a read-only cache can still be read
            path.touch()
        return correspondence
    try:
        correspondence = compute()
    except NotSamePatientError as error:
        with suppress(AnatomicalEmbeddingError):
            write_text(refusal, str(error))
        raise
    with suppress(AnatomicalEmbeddingError):
        correspondence.save(path)
        cache.shrink(cache.limit_bytes)
    return correspondence
