"""Window and level of CTs, HU: presets, a first window for each loaded scan, one window for all scans of a patient."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from .VolumeNodes import hasVoxels

PRESETS = {"Soft tissue": (400.0, 40.0), "Lung": (1500.0, -600.0), "Bone": (1800.0, 400.0), "Brain": (80.0, 40.0)}
_CHOSEN = "AnatomicalEmbedding.WindowChosen"  # attribute of a display node: the first window was chosen
_AIR_HU = -200.0  # a scan without lower values is not a CT with air around the body; its window is not changed


def setWindow(volumeNodes: Sequence, window: float, level: float) -> None:
    for node in volumeNodes:
        if node.GetDisplayNode() is not None:
            node.GetDisplayNode().SetAutoWindowLevel(False)
            node.GetDisplayNode().SetWindowLevel(window, level)


class CtWindows:
    """Keeps one window for all scans of a group. together(volumes): returns the groups.

    `poll` sets each new CT once to the soft tissue window, because the window that MRML guesses (from air to metal)
    shows all tissues alike. If the user changes one scan's window, `poll` copies it to the scan's group.
    """

    def __init__(self, together: Callable[[Sequence], list[list]]) -> None:
        self._together = together
        self._last: dict[str, tuple[float, float]] = {}

    def poll(self, volumeNodes: Sequence) -> None:
        """Set the windows of new scans, and copy changed windows to their groups. Call it a few times a second."""
        shown = [node for node in volumeNodes if node.GetDisplayNode() is not None and hasVoxels(node)]
        for node in shown:
            _chooseOnce(node)
        now = {node.GetID(): _windowOf(node) for node in shown}
        changed = [node for node in shown if self._last.get(node.GetID(), now[node.GetID()]) != now[node.GetID()]]
        if changed:
            for group in self._together(shown):
                if changed[-1] in group:
                    setWindow(
                        [node for node in group if _windowOf(node) != now[changed[-1].GetID()]],
                        *now[changed[-1].GetID()],
                    )
            now = {node.GetID(): _windowOf(node) for node in shown}
        self._last = now


def _windowOf(volumeNode) -> tuple[float, float]:
    display = volumeNode.GetDisplayNode()
    return display.GetWindow(), display.GetLevel()


def _chooseOnce(volumeNode) -> None:
    display = volumeNode.GetDisplayNode()
    if display.GetAttribute(_CHOSEN) is not None:
        return
    display.SetAttribute(_CHOSEN, "1")
    if display.GetAutoWindowLevel() and volumeNode.GetImageData().GetScalarRange()[0] < _AIR_HU:
        setWindow([volumeNode], *PRESETS["Soft tissue"])
