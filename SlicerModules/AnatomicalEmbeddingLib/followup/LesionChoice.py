"""Where the user is in a follow-up (the lesion and the study that buttons and keys act on), and what to do next."""

from __future__ import annotations

from slicer.i18n import tr as _

from ..shared.maps.MapStore import FAILED, READY
from ..shared.Signal import Listener, Signal
from .FollowUpLogic import FollowUpLogic


class LesionChoice(Listener):
    """lesion, study: their id and key, "" for none. usual: the study that is meant where none is chosen.

    changed(): the user is somewhere else.
    """

    def __init__(self, logic: FollowUpLogic) -> None:
        self.logic = logic
        self.changed = Signal()
        self.lesion = self.study = self.usual = ""
        self.listen(logic.changed, self._settle)
        self.listen(logic.touched, self.choose)

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


def nextStep(logic: FollowUpLogic) -> str:
    """The next thing to do."""
    record = logic.record
    if not logic.volumes:
        return _(
            "Load CTs of one patient. To try it out: File > Download Sample Data, and there the Phantom pair of "
            "AnatomicalEmbedding."
        )
    if logic.placing.active:
        return _("Click in a slice view: {what}. Esc ends it.").format(what=logic.placing.what)
    if not record.lesions:
        return _("Press New lesion (W) and click on a lesion in any study. It is found in the others for you.")
    states = [logic.store.state(volume).status for volume in logic.volumes.values()]
    todo = len(logic.openPlaces())
    if todo:
        return _(
            "Still to review: {count}. Go to each with J, then press Confirm (C), Move (M), Not visible (N) or "
            "Outside (O)."
        ).format(count=todo)
    unknown = any(study not in lesion.findings for lesion in record.lesions for study in logic.volumes)
    if unknown and any(status not in (READY, FAILED) for status in states):
        return _("Places in the other studies are proposed once the scans are prepared.")
    if unknown:
        return _(
            "Nothing is known in the empty cells: choose one, press M and click on the lesion, or press Not visible "
            "(N) or Outside (O)."
        )
    if any(_unmeasured(lesion) for lesion in record.lesions):
        return _("Every proposal has been reviewed. Measure the targets: choose a cell, press L, click on both ends.")
    return _("Every proposal has been reviewed. The response and the reports are below.")


def _unmeasured(lesion) -> bool:
    return lesion.target and any(each.visible and not each.size.confirmed for each in lesion.findings.values())
