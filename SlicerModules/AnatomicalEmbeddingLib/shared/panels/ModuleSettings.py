"""What is remembered on this computer from session to session: weights, device, folders, and panels' own settings.

Kept by the application under "AnatomicalEmbedding/". Stored values come back as strings or not at all, and a user may
have edited them: what cannot be used counts as not stored.
"""

from __future__ import annotations

import qt

from ..maps.Engine import Choice
from ..Signal import Signal

DEVICES = ("auto", "cpu", "cuda", "mps")
_PREFIX = "AnatomicalEmbedding/"
_WEIGHTS, _DEVICE, _WHEELS = "weights", "device", "wheelFolder"
_CACHE_FOLDER, _CACHE_LIMIT = "cacheFolder", "cacheLimitMb"
_LARGEST_CACHE_MB = 1_000_000

changed = Signal()  # changed(key): a setting has another value than before


def choice() -> Choice:
    """Weights, device and folder of maps, as the engine takes them. A limit of 0 MB: no maps are kept on disk."""
    device = value(_DEVICE, "auto")
    limit = cacheLimitMb()
    return Choice(
        weights=value(_WEIGHTS, "auto") or "auto",
        device=device if device in DEVICES else "auto",
        cacheFolder=cacheFolder() if limit else None,
        cacheLimitMb=limit,
    )


def setWeights(weights: str) -> None:
    """ "auto", the name of shipped weights, or a file."""
    setValue(_WEIGHTS, str(weights))


def setDevice(device: str) -> None:
    """One of DEVICES; ValueError for anything else."""
    if device not in DEVICES:
        raise ValueError(f"device {device!r} is unknown; choose one of {', '.join(DEVICES)}.")
    setValue(_DEVICE, device)


def cacheFolder() -> str:
    """Folder of maps; "": the default one."""
    return value(_CACHE_FOLDER, "")


def setCacheFolder(folder: str) -> None:
    setValue(_CACHE_FOLDER, str(folder))


def cacheLimitMb() -> int:
    """How large the folder of maps may become, MB."""
    limit = value(_CACHE_LIMIT, Choice().cacheLimitMb)
    return limit if 0 <= limit <= _LARGEST_CACHE_MB else Choice().cacheLimitMb


def setCacheLimitMb(limit: int) -> None:
    setValue(_CACHE_LIMIT, int(limit))


def wheelFolder() -> str:
    """Folder of wheel files that packages are installed from on computers without network; "": none."""
    return value(_WHEELS, "")


def setWheelFolder(folder: str) -> None:
    setValue(_WHEELS, str(folder))


def value(key: str, default):
    """A panel's own setting, of the type of `default` (str, bool, int, float, or a list or tuple of strings)."""
    settings = qt.QSettings()
    if not settings.contains(_PREFIX + key):
        return default
    return _converted(settings.value(_PREFIX + key), default)


def setValue(key: str, new) -> None:
    """Remember a setting. Types: see `value`."""
    known = qt.QSettings().contains(_PREFIX + key)
    if known and value(key, new) == new and type(value(key, new)) is type(new):
        return
    qt.QSettings().setValue(_PREFIX + key, list(new) if isinstance(new, tuple) else new)
    changed.emit(key)


def _converted(stored, default):
    if isinstance(default, bool):
        return {"true": True, "1": True, "false": False, "0": False}.get(str(stored).lower(), default)
    if isinstance(default, list | tuple):
        if isinstance(stored, str):  # a list of one comes back as its element
            stored = [stored] if stored else []
        return type(default)(str(each) for each in stored) if isinstance(stored, list | tuple) else type(default)()
    if isinstance(default, int | float):
        try:
            return type(default)(stored)
        except (TypeError, ValueError):
            return default
    return stored if isinstance(stored, str) else default
