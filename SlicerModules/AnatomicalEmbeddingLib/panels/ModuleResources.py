"""Where the modules' own files are (panels, icons, requirements): beside the modules, in a checkout and installed."""

from __future__ import annotations

from pathlib import Path

_MODULES = Path(__file__).resolve().parents[2]


def moduleResource(name: str) -> Path:
    """Path of a file or folder of the modules' `Resources`; for the engine's see `AnatomicalEmbedding.resources`."""
    return _MODULES / "Resources" / name
