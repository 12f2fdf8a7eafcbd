"""Cache of maps on disk, of limited size. A map is found by the hashes of its scan and of its weights.

The cache also keeps the correspondences of pairs of scans (`relations.one_patient`) next to the maps.
"""

from __future__ import annotations

import os
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from ..errors import MapError

if TYPE_CHECKING:
    from .map import EmbeddingMap, Provenance

DEFAULT_LIMIT_BYTES = 2 * 2**30  # by hand; users can change it
_MAPS, _PAIRS = "*.map.safetensors", "*.pair.*"  # names of the files


def default_folder() -> Path:
    """Return the cache folder: $ANATEMB_CACHE, or AnatomicalEmbedding in the user's cache folder."""
    if setting := os.environ.get("ANATEMB_CACHE"):
        return Path(setting)
    base = (
        os.environ.get("XDG_CACHE_HOME") or os.environ.get("LOCALAPPDATA") or Path.home() / ".cache"
    )
    return Path(base) / "AnatomicalEmbedding"


@dataclass(frozen=True)
class MapCache:
    """A folder of maps. When it exceeds `limit_bytes`, the least recently used files are removed."""

    folder: Path
    limit_bytes: int = DEFAULT_LIMIT_BYTES

    def get(self, provenance: Provenance) -> EmbeddingMap | None:
        """Read the map with this provenance. Returns None if no such map is stored. A damaged file is deleted."""
        from .map import EmbeddingMap  # loads torch, which the other methods do not need

        path = self._path(provenance)
        if not path.exists():
            return None
        try:
            # no name of the scan is kept
            embedding = replace(EmbeddingMap.load(path), provenance=provenance)
        except MapError:
            with suppress(OSError):
                path.unlink()
            return None
        with suppress(OSError):  # a read-only cache can still be read
            os.utime(path)
        return embedding

    def put(self, embedding: EmbeddingMap) -> None:
        """Store a map without the name of its scan, then remove the least recently used maps beyond the limit.

        Raises no error if writing fails.
        """
        nameless = replace(embedding, provenance=replace(embedding.provenance, scan=""))
        with suppress(MapError, OSError):
            self.folder.mkdir(parents=True, exist_ok=True)
            nameless.save(self._path(embedding.provenance))
            self.shrink(self.limit_bytes)

    def pair_path(self, first: Provenance, second: Provenance) -> Path:
        """Return the path of the correspondence of two scans, whose maps have these provenances. It may be missing."""
        scans = f"{first.scan_hash[:24]}-{second.scan_hash[:24]}"
        return self.folder / f"{scans}-{first.weights_hash[:16]}.pair.safetensors"

    def size_bytes(self) -> int:
        """Return the size of all files together, in bytes."""
        return sum(size for _, size, _ in self._files(_MAPS, _PAIRS))

    def count(self) -> int:
        """Return the number of maps."""
        return len(self._files(_MAPS))

    def shrink(self, limit_bytes: int) -> int:
        """Remove the least recently used files until all files together have at most `limit_bytes`.

        A file that another program has open may stay. Returns the number of removed files.
        """
        files = sorted(self._files(_MAPS, _PAIRS))
        excess = sum(size for _, size, _ in files) - limit_bytes
        removed = 0
        for _, size, path in files:
            if excess <= 0:
                break
            with suppress(OSError):
                path.unlink()
                excess -= size
                removed += 1
        return removed

    def _files(self, *patterns: str) -> list[tuple[float, int, Path]]:
        """Return the time of the last use, the size in bytes and the path of each file."""
        files = []
        for pattern in patterns:
            for path in self.folder.glob(pattern):
                with suppress(OSError):  # another program may have just removed the file
                    stat = path.stat()
                    files.append((stat.st_mtime, stat.st_size, path))
        return files

    def _path(self, provenance: Provenance) -> Path:
        from .map_file import FORMAT_VERSION, SUFFIX  # loads torch

        scan = provenance.scan_hash[:24]
        weights = provenance.weights_hash[:16]
        return self.folder / f"{scan}-{weights}.{FORMAT_VERSION}{SUFFIX}"
