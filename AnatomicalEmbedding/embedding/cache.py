"""Maps kept on disk, found again by content hash of the scan and hash of the weights; bounded in size."""

from __future__ import annotations

import os
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from ..errors import MapError

if TYPE_CHECKING:
    from .map import EmbeddingMap, Provenance

DEFAULT_LIMIT_BYTES = 2 * 2**30
_CLOCKS_AGREE_NS = 60 * 10**9  # this computer and the one that serves the folder


def default_folder() -> Path:
    """Cache folder: $ANATEMB_CACHE, or AnatomicalEmbedding in the user's cache folder."""
    if given := os.environ.get("ANATEMB_CACHE"):
        return Path(given)
    base = os.environ.get("XDG_CACHE_HOME") or os.environ.get("LOCALAPPDATA") or Path.home() / ".cache"
    return Path(base) / "AnatomicalEmbedding"


@dataclass(frozen=True)
class MapCache:
    """A folder of maps. The least recently used are removed once the folder exceeds `limit_bytes`."""

    folder: Path
    limit_bytes: int = DEFAULT_LIMIT_BYTES

    def get(self, provenance: Provenance) -> EmbeddingMap | None:
        """Read the map of this scan by these weights; None for an unknown scan. A damaged file is removed."""
        from .map import EmbeddingMap  # loads torch, which the other methods do not need

        path = self._path(provenance)
        if not path.exists():
            return None
        try:
            found = EmbeddingMap.load(path)
        except MapError:
            with suppress(OSError):
                path.unlink()
            return None
        with suppress(OSError):  # a read-only cache still serves
            os.utime(path)
        return found

    def put(self, embedding: EmbeddingMap) -> None:
        """Keep a map; remove it by older versions, and the oldest beyond the limit. Does nothing on a full disk."""
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            path = self._path(embedding.provenance)
            embedding.save(path)
            for other in self.folder.glob(f"{path.name.partition('.')[0]}.*"):
                if other != path:  # of an older version
                    other.unlink(missing_ok=True)
            self.shrink(self.limit_bytes)
        except (MapError, OSError):
            return

    def size_bytes(self) -> int:
        """Bytes of all maps."""
        return sum(_size(path) for path in self._files())

    def count(self) -> int:
        """How many maps are kept."""
        return len(self._files())

    def shrink(self, limit_bytes: int) -> int:
        """Remove the least recently used maps until at most `limit_bytes` are kept; returns how many were removed.

        Maps that another program holds stay.
        """
        now = time.time_ns()
        oldest_first = sorted(self._files(), key=lambda path: _last_used(path, now))
        excess = self.size_bytes() - limit_bytes
        removed = 0
        for path in oldest_first:
            if excess <= 0:
                break
            size = _size(path)
            with suppress(OSError):
                path.unlink()
                excess -= size
                removed += 1
        return removed

    def _files(self) -> list[Path]:
        return list(self.folder.glob("*.map.safetensors")) if self.folder.is_dir() else []

    def _path(self, provenance: Provenance) -> Path:
        from .map_file import FORMAT_VERSION, SUFFIX  # loads torch

        scan, weights = provenance.scan_hash[:24], provenance.weights_hash[:16]
        return self.folder / f"{scan}-{weights}.{FORMAT_VERSION}{SUFFIX}"


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:  # another program has just removed it
        return 0


def _last_used(path: Path, now: int) -> int:
    """Time of the last use, ns; 0 for a map dated in the future, as after a clock was set back."""
    try:
        used = path.stat().st_mtime_ns
    except OSError:
        return 0
    return used if used <= now + _CLOCKS_AGREE_NS else 0
