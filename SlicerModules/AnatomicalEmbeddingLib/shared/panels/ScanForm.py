"""Lets the user choose the scans that a module uses: all scans, or only the ticked scans."""

import qt

from ..VolumeNodes import ctVolumes, films, isFilm, scans


class ScanForm:
    """Check boxes for volumes. They show the parameters `targets` (the ticked volumes) and `allTargets` (True for all).

    "All scans" does not include crops and resampled copies. The user can tick such copies one by one. With films=True,
    films are offered too; "all scans" are then the films if the template is a film, and otherwise the CTs.
    """

    def __init__(self, scene, selector, films: bool = False) -> None:
        self._scene = scene
        self._selector = selector
        self._withFilms = films
        self.clear()

    @property
    def isCurrent(self) -> bool:
        """True if the scene contains the same volumes as at the last call of `show`, and the boxes are still ticked.

        While Slicer loads a scene, it makes the boxes anew, without ticks.
        """
        return self._offered == self._present() and not (
            self._chosen and not self._selector.checkedNodes()
        )

    def show(self, parameterNode, without=None) -> list:
        """Tick the volumes chosen in the parameter node, but never the volume `without`. Returns the ticked volumes."""
        self._offered = self._present()
        ofKind = films if self._withFilms and isFilm(without) else scans
        ticked = ofKind(self._scene) if parameterNode.allTargets else list(parameterNode.targets)
        chosen = [volume for volume in self._offered if volume in ticked and volume is not without]
        if parameterNode.allTargets and list(parameterNode.targets) != chosen:
            # if the user switches `allTargets` off, these volumes are ticked
            parameterNode.targets = chosen
        self._chosen = chosen
        self._selector.enabled = not parameterNode.allTargets
        for volume in self._offered:
            state = qt.Qt.Checked if volume in chosen else qt.Qt.Unchecked
            if self._selector.checkState(volume) != state:
                self._selector.setCheckState(volume, state)
        return chosen

    def _present(self) -> list:
        return ctVolumes(self._scene) + (films(self._scene) if self._withFilms else [])

    def clear(self) -> None:
        """Forget the volumes, because the scene is closing."""
        self._offered = []  # volumes with a box at the last `show`
        self._chosen = []  # volumes that were ticked then

    def write(self, parameterNode) -> None:
        isKnown = self._offered == self._present()  # if not, Slicer changed the ticks, not the user
        if isKnown and not parameterNode.allTargets:
            parameterNode.targets = list(self._selector.checkedNodes())
