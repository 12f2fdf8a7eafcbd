"""A check box by which the user says whether scans show one patient."""

from collections.abc import Callable, Sequence

import qt

from ..SceneNodes import haveOnePatient
from ..Signal import Listener
from .Session import Session


class PatientForm(Listener):
    """Connects a check box to the patients of the subject hierarchy, which are saved with the scene.

    The box is checked if the scans show one patient, unchecked if they show different patients, and partly checked if
    this is not known. volumes(): returns the scans.
    """

    def __init__(self, checkBox, session: Session, volumes: Callable[[], Sequence]) -> None:
        self._box = checkBox
        self._session = session
        self._volumes = volumes
        self._box.connect("clicked(bool)", self._onClicked)
        self.listen(session.ticked, self.update)

    @property
    def _isOne(self) -> bool | None:
        return haveOnePatient(self._session.scene, *self._volumes())

    def update(self) -> None:
        """Show in the box whether the scans show one patient."""
        self._box.enabled = len(self._volumes()) > 1
        state = qt.Qt.PartiallyChecked
        if self._isOne is not None:
            state = qt.Qt.Checked if self._isOne else qt.Qt.Unchecked
        if self._box.checkState() != state:
            self._box.setCheckState(state)

    def _onClicked(self) -> None:
        self._session.relations.say(self._volumes(), self._isOne is not True)
        self.update()
