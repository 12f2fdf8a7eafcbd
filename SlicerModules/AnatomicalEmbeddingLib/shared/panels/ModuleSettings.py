"""Settings that stay on this computer after Slicer ends: weights, device, folders, and values of panels.

They are part of the application's settings, under "AnatomicalEmbedding/". Stored values are read as strings, and a user
may have edited them. A value that cannot be used is replaced by the default.
"""

from __future__ import annotations

import slicer

from ..maps.Engine import DEVICES, Choice
from ..Signal import Signal

_PREFIX = "AnatomicalEmbedding/"
_WEIGHTS, _DEVICE, _WHEELS = "weights", "device", "wheelFolder"
_CACHE_FOLDER, _CACHE_LIMIT = "cacheFolder", "cacheLimitMb"
_LARGEST_CACHE_MB = 1_000_000

changed = Signal()  # changed(key): emitted when the value of a setting has changed


def choice() -> Choice:
    """Return weights, device and folder of maps for the engine. With a limit of 0 MB no maps are kept on disk."""
    device, limit = value(_DEVICE, "auto"), cacheLimitMb()
    return Choice(
        weights=value(_WEIGHTS, "auto") or "auto",
        device=device if device in DEVICES else "auto",
        cacheFolder=cacheFolder() if limit else None,
        cacheLimitMb=limit,
    )


def setWeights(weights: str) -> None:
    """Choose "auto", the name of shipped weights, or a file."""
    setValue(_WEIGHTS, str(weights))


def setDevice(device: str) -> None:
    setValue(_DEVICE, device)


def cacheFolder() -> str:
    """Folder of maps; "" for the default folder."""
    return value(_CACHE_FOLDER, "")


def setCacheFolder(folder: str) -> None:
    setValue(_CACHE_FOLDER, str(folder))


def cacheLimitMb() -> int:
    """Largest size of the folder of maps, MB."""
    limit = value(_CACHE_LIMIT, Choice().cacheLimitMb)
    return limit if 0 <= limit <= _LARGEST_CACHE_MB else Choice().cacheLimitMb


def setCacheLimitMb(limit: int) -> None:
    setValue(_CACHE_LIMIT, int(limit))


def wheelFolder() -> str:
    """Folder of wheel files from which packages are installed; "" to install packages from the network."""
    return value(_WHEELS, "")


def setWheelFolder(folder: str) -> None:
    setValue(_WHEELS, str(folder))


def value(key: str, default):
    """Return the value of a setting, or `default`. The value has the type of `default`: str or int."""
    stored = slicer.app.userSettings().value(_PREFIX + key)
    if isinstance(default, int):
        try:
            return int(stored)
        except (TypeError, ValueError):
            return default
    return stored if isinstance(stored, str) else default


def setValue(key: str, new) -> None:
    if not slicer.app.userSettings().contains(_PREFIX + key) or value(key, new) != new:
        slicer.app.userSettings().setValue(_PREFIX + key, new)
        changed.emit(key)
