"""Sets the window and level (HU) of CTs: a default for each new scan, then the same window for a patient's scans.

Scans of other kinds get windows by their values.
"""

from collections.abc import Sequence

import slicer.util

from AnatomicalEmbedding.scan.checks import grey_range

from .maps.MapStore import MapStore
from .SceneNodes import patientItem
from .VolumeNodes import hasVoxels

PRESETS = {
    "Soft tissue": (400, 40),
    "Lung": (1500, -600),
    "Bone": (1800, 400),
    "Liver": (150, 30),
    "Brain": (80, 40),
}
# attribute of a display node that `_chooseOnce` has handled
_CHOSEN = "AnatomicalEmbedding.WindowChosen"
# a scan without lower values shows no air around the body and does not get the default window
_AIR_HU = -200.0
_OWN_KIND = "AnatomicalEmbedding.WindowByValues"  # attribute of a display node: its window was chosen by percentiles


def setWindow(volumeNodes: Sequence, window: float, level: float) -> None:
    """Set the window of volumes.

    Args:
        volumeNodes: the volumes.
        window: width of the window, HU.
        level: middle of the window, HU.
    """
    for node in volumeNodes:
        display = node.GetDisplayNode()
        if display is not None:
            display.SetAutoWindowLevel(False)
            display.SetWindowLevel(window, level)


class CtWindows:
    """Keeps one window for all scans of a patient. All scans without a patient share one window.

    `poll` sets each new CT once to the soft tissue window, because the window that MRML guesses (from air to metal)
    shows all tissues in similar shades of grey. If the user changes the window of a scan, `poll` copies this window to
    the other scans of the patient. A scan of a kind that is no CT gets a window of its own, by percentiles of
    its values.
    """

    def __init__(self, store: MapStore) -> None:
        self._store = store
        self._scene = store.scene
        # volume ID -> window and level at the last `poll`
        self._last: dict[str, tuple[float, float]] = {}

    def poll(self, volumeNodes: Sequence) -> None:
        """Set the windows of new scans, and copy changed windows (see the class). Call `poll` a few times a second."""
        volumes = []
        changed = None
        for node in volumeNodes:
            if node.GetDisplayNode() is None or not hasVoxels(node):
                continue
            if self._store.isOwnKind(node):
                _chooseByValues(node)
                continue
            _chooseOnce(node)
            volumes.append(node)
            window = _windowOf(node)
            # a new scan has not changed
            if self._last.get(node.GetID(), window) != window:
                changed = node
        if changed is not None:
            patient = patientItem(self._scene, changed)
            window = _windowOf(changed)
            for node in volumes:
                if patientItem(self._scene, node) == patient and _windowOf(node) != window:
                    setWindow([node], *window)
        self._last = {node.GetID(): _windowOf(node) for node in volumes}


def _chooseByValues(volumeNode) -> None:
    """At the first call for a volume, set its window to the usual range of its values, from black to white."""
    display = volumeNode.GetDisplayNode()
    if display.GetAttribute(_OWN_KIND) is None:
        display.SetAttribute(_OWN_KIND, "1")
        black, white = grey_range(slicer.util.arrayFromVolume(volumeNode))
        setWindow([volumeNode], max(white - black, 1e-6), (black + white) / 2)


def _windowOf(volumeNode) -> tuple[float, float]:
    """Return the window and the level of a volume."""
    display = volumeNode.GetDisplayNode()
    return display.GetWindow(), display.GetLevel()


def _chooseOnce(volumeNode) -> None:
    """At the first call for a CT, set the soft tissue window, unless the file or the user has set another window."""
    display = volumeNode.GetDisplayNode()
    if display.GetAttribute(_CHOSEN) is not None:
        return
    display.SetAttribute(_CHOSEN, "1")
    if display.GetAutoWindowLevel() and volumeNode.GetImageData().GetScalarRange()[0] < _AIR_HU:
        setWindow([volumeNode], *PRESETS["Soft tissue"])
