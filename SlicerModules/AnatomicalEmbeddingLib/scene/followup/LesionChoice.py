"""The lesion and the study that the user is at: what buttons and keys act on."""

from __future__ import annotations

from ..Signal import Signal
from .FollowUpLogic import FollowUpLogic


class LesionChoice:
    """lesion, study: their id and key, "" for none. usual: the study that is meant where none is chosen.

    changed(): the user is somewhere else.
    """

    def __init__(self, logic: FollowUpLogic) -> None:
        self.logic = logic
        self.changed = Signal()
        self.lesion = self.study = self.usual = ""
        logic.changed.connect(self._settle)
        logic.touched.connect(self.choose)

    def choose(self, lesion: str, study: str = "") -> None:
        """Be at a lesion in a study, by default the usual one."""
        self._set(lesion, study or self.usual)

    def step(self, by: int) -> bool:
        """Go to the next (1) or previous (-1) proposal that nobody has looked at, study by study and round again;
        False where there is none.
        """
        record = self.logic.record
        places = [(lesion.id, study.key) for study in record.studies for lesion in record.lesions]
        todo = self.logic.openPlaces()
        if not todo:
            return False
        here = (self.lesion, self.study)
        now = places.index(here) if here in places else -1
        if by > 0:
            self.choose(*next((place for place in todo if places.index(place) > now), todo[0]))
        else:
            self.choose(*next((place for place in reversed(todo) if places.index(place) < now), todo[-1]))
        return True

    def close(self) -> None:
        self.logic.changed.disconnect(self._settle)
        self.logic.touched.disconnect(self.choose)

    def _settle(self) -> None:
        """Lesions and studies may have gone."""
        record = self.logic.record
        lesion = self.lesion if self.lesion in {each.id for each in record.lesions} else ""
        study = self.study if self.study in {each.key for each in record.studies} else self.usual
        self._set(lesion, study)

    def _set(self, lesion: str, study: str) -> None:
        if (lesion, study) != (self.lesion, self.study):
            self.lesion, self.study = lesion, study
            self.changed.emit()
