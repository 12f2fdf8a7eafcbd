"""Maps kept on disk, found again by content hash of the scan and hash of the weights; bounded in size."""

from __future__ import annotations

import os
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from ..errors import MapError

if TYPE_CHECKING:
    from .map import EmbeddingMap, Provenance

DEFAULT_LIMIT_BYTES = 2 * 2**30


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
        """Keep a map, and remove the least recently used ones beyond the limit. Does nothing on a full disk."""
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            embedding.save(self._path(embedding.provenance))
            self.shrink(self.limit_bytes)
        except (MapError, OSError):
            return

    def size_bytes(self) -> int:
        """Bytes of all maps."""
        return sum(size for _, size, _ in self._files())

    def count(self) -> int:
        """How many maps are kept."""
        return len(self._files())

    def shrink(self, limit_bytes: int) -> int:
        """Remove the least recently used maps until at most `limit_bytes` are kept; returns how many were removed.

        Maps that another program holds stay.
        """
        excess, removed = self.size_bytes() - limit_bytes, 0
        for _, size, path in sorted(self._files()):
            if excess > 0:
                with suppress(OSError):
                    path.unlink()
                    excess -= size
                    removed += 1
        return removed

    def _files(self) -> list[tuple[float, int, Path]]:
        """Time of last use, bytes and path of each map."""
        found = []
        for path in self.folder.glob("*.map.safetensors"):
            with suppress(OSError):  # another program has just removed it
                about = path.stat()
                found.append((about.st_mtime, about.st_size, path))
        return found

    def _path(self, provenance: Provenance) -> Path:
        from .map_file import FORMAT_VERSION, SUFFIX  # loads torch

        scan, weights = provenance.scan_hash[:24], provenance.weights_hash[:16]
        return self.folder / f"{scan}-{weights}.{FORMAT_VERSION}{SUFFIX}"
