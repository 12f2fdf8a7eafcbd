"""Choice of the scans that a module works on: all, or the ticked ones."""

from __future__ import annotations

import qt

from ..VolumeNodes import ctVolumes, scans


class ScanForm:
    """A selector of volumes with boxes to tick, and the parameters `targets` and `allTargets` that it shows.

    All scans are those of the scene without the crops that were made of them, which can be ticked.
    """

    def __init__(self, scene, selector) -> None:
        self._scene, self._selector = scene, selector
        self._offered: list = []

    @property
    def isCurrent(self) -> bool:
        """Does the scene hold the volumes that were there when the choice was last shown?"""
        return self._offered == ctVolumes(self._scene)

    def show(self, parameterNode, without=None) -> list:
        """Show the choice of a parameter node; returns the chosen volumes, all but `without`."""
        self._offered = ctVolumes(self._scene)
        wanted = scans(self._scene) if parameterNode.allTargets else list(parameterNode.targets)
        chosen = [volume for volume in self._offered if volume in wanted and volume is not without]
        if parameterNode.allTargets and list(parameterNode.targets) != chosen:
            parameterNode.targets = chosen  # the start of a choice by hand
        self._selector.enabled = not parameterNode.allTargets
        for volume in self._offered:
            state = qt.Qt.Checked if volume in chosen else qt.Qt.Unchecked
            if self._selector.checkState(volume) != state:
                self._selector.setCheckState(volume, state)
        return chosen

    def clear(self) -> None:
        self._offered = []

    def write(self, parameterNode) -> None:
        if not parameterNode.allTargets and self.isCurrent:  # else volumes came or went, and the user ticked nothing
            parameterNode.targets = list(self._selector.checkedNodes())
