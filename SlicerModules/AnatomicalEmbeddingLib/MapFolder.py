"""The folder in which the engine keeps maps of scans: how much is in it, and emptying it. Loads no torch."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

_PATTERN = "*.map.safetensors"


@dataclass(frozen=True)
class MapFolder:
    """path: need not exist. Only files of maps are counted and removed, whatever else lies in the folder."""

    path: Path

    @classmethod
    def of(cls, setting: str) -> MapFolder:
        """setting: a folder; "": the engine's default one."""
        return cls(Path(setting) if setting else defaultFolder())

    def count(self) -> int:
        return len(self._files())

    def sizeBytes(self) -> int:
        return sum(_size(path) for path in self._files())

    def clear(self) -> tuple[int, int]:
        """Remove all maps; returns how many went and the bytes freed. Those that another program holds stay."""
        removed = freed = 0
        for path in self._files():
            size = _size(path)
            try:
                path.unlink()
            except OSError:
                continue
            removed, freed = removed + 1, freed + size
        return removed, freed

    def _files(self) -> list[Path]:
        return list(self.path.glob(_PATTERN)) if self.path.is_dir() else []


def defaultFolder() -> Path:
    """As `AnatomicalEmbedding.cache.default_folder`, whose module loads torch."""
    if given := os.environ.get("ANATEMB_CACHE"):
        return Path(given)
    base = os.environ.get("XDG_CACHE_HOME") or os.environ.get("LOCALAPPDATA") or Path.home() / ".cache"
    return Path(base) / "AnatomicalEmbedding"


def sizeText(size: int) -> str:
    """Bytes in words: "340 MB", "2.1 GB"."""
    if size >= 10**9:
        return f"{size / 10**9:.1f} GB"
    return f"{size / 10**6:.0f} MB" if size >= 10**6 or size == 0 else f"{max(round(size / 1000), 1)} kB"


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0
