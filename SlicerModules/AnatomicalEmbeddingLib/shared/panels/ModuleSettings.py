"""Settings that are stored on this computer: weights, device, folders, and values of panels.

They are part of the settings of Slicer, under "AnatomicalEmbedding/". Stored values are strings, which a user may have
edited. A value that cannot be used is replaced by the default.
"""

import slicer

from ..maps.Engine import DEVICES, Choice
from ..Signal import Signal

_PREFIX = "AnatomicalEmbedding/"
# keys. weights: "auto", the name of shipped weights, or a file. wheelFolder: folder of wheel files from which packages
# are installed; "" for the network. cacheFolder: folder of maps; "" for the default folder
WEIGHTS = "weights"
DEVICE = "device"
WHEEL_FOLDER = "wheelFolder"
CACHE_FOLDER = "cacheFolder"
CACHE_LIMIT = "cacheLimitMb"
_LARGEST_CACHE_MB = 1_000_000  # a stored limit above 1 TB is taken for damaged

changed = Signal()  # changed(key): emitted when the value of a setting has changed


def choice() -> Choice:
    """Return the stored choice for the engine. If the stored size limit is 0 MB, no maps are kept on disk."""
    device = value(DEVICE, "auto")
    usual = Choice().cacheLimitMb
    limit = value(CACHE_LIMIT, usual)
    limit = limit if 0 <= limit <= _LARGEST_CACHE_MB else usual
    return Choice(
        weights=value(WEIGHTS, "auto") or "auto",
        device=device if device in DEVICES else "auto",
        cacheFolder=value(CACHE_FOLDER, "") if limit else None,
        cacheLimitMb=limit,
    )


def value(key: str, default):
    """Return the value of a setting; `default` if no usable value is stored. `default` is a str or an int."""
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
