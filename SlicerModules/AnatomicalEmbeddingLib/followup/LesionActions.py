"""Keeps the lesion and the study that the user has chosen, runs actions on them, and suggests the next step."""

from collections.abc import Callable

from slicer.i18n import tr as _

from AnatomicalEmbedding.followup.lesions import LONG, NOT_VISIBLE, OUTSIDE, SHORT, WITH_PLACE
from AnatomicalEmbedding.followup.record import FollowUp
from AnatomicalEmbedding.followup.status import ABSENT, status_of

from ..shared.Signal import Listener, Signal
from .FollowUpLogic import FollowUpLogic

# names of the actions; the button of the action "new" is `newButton`
NEW = "new"
REMOVE = "remove"
PREVIOUS = "previous"
NEXT = "next"
MERGE = "merge"
CONFIRM = "confirm"
MOVE = "move"
MARK_NOT_VISIBLE = "notVisible"
MARK_OUTSIDE = "outside"
LONG_AXIS = "longAxis"
SHORT_AXIS = "shortAxis"
ACCEPT_SIZE = "acceptSize"
KEYS = {  # keyboard key of each action; "" if the action has no key
    NEW: "W",
    CONFIRM: "C",
    MOVE: "M",
    MARK_NOT_VISIBLE: "N",
    MARK_OUTSIDE: "O",
    LONG_AXIS: "L",
    SHORT_AXIS: "S",
    ACCEPT_SIZE: "A",
    PREVIOUS: "K",
    NEXT: "J",
    REMOVE: "",
    MERGE: "",
}


class LesionActions(Listener):
    """Keeps the user's choice and runs actions on the chosen lesion.

    lesion: id of the chosen lesion; "" if no lesion is chosen. study: key of the chosen study; "" if no study is
    chosen. usual: key of the default study. Signal changed(): emitted when the user chooses another lesion or study.
    """

    def __init__(self, logic: FollowUpLogic) -> None:
        self.logic = logic
        self.changed = Signal()
        self.lesion = self.study = self.usual = ""
        self.listen(logic.changed, self._keepChoice)
        self.listen(logic.touched, self.choose)

    # -- the choice --------------------------------------------------------------------------------------------------

    def choose(self, lesion: str, study: str = "") -> None:
        """Choose a lesion and a study. If `study` is "", the default study `usual` is chosen."""
        before = self.lesion, self.study
        self.lesion = lesion
        self.study = study or self.usual
        if (self.lesion, self.study) != before:
            self.changed.emit()

    def step(self, direction: int) -> None:
        """Choose the next (direction=1) or previous (direction=-1) unreviewed proposal.

        At either end, continue at the other end.
        """
        # all cells of the table in the order of the steps, study by study
        places = [
            (lesion.id, study.key)
            for study in self.logic.record.studies
            for lesion in self.logic.record.lesions
        ]
        unreviewed = self.logic.openPlaces()[::direction]  # in the order of the steps, too
        chosen = (self.lesion, self.study)
        now = places.index(chosen) if chosen in places else -1  # -1: before the first
        beyond = [place for place in unreviewed if (places.index(place) - now) * direction > 0]
        if unreviewed:
            self.choose(*(beyond or unreviewed)[0])

    def _keepChoice(self) -> None:
        """Keep the chosen lesion and study as far as the record still has them."""
        record = self.logic.record
        lesion = self.lesion if self.lesion in {entry.id for entry in record.lesions} else ""
        study = self.study if self.study in {entry.key for entry in record.studies} else ""
        self.choose(lesion, study)

    # -- the actions -------------------------------------------------------------------------------------------------

    def run(self, action: str) -> None:
        """Run an action on the chosen lesion. The action MERGE cannot be run here: it needs a second lesion."""
        logic = self.logic
        chosen = (self.lesion, self.study)
        steps: dict[str, Callable[[], object]] = {
            NEW: lambda: logic.placeLesion(),
            CONFIRM: lambda: logic.apply(FollowUp.confirm, *chosen),
            MOVE: lambda: logic.placeLesion(self.lesion),
            MARK_NOT_VISIBLE: lambda: logic.apply(FollowUp.not_visible, *chosen),
            MARK_OUTSIDE: lambda: logic.apply(FollowUp.outside, *chosen),
            LONG_AXIS: lambda: logic.drawAxis(self.lesion, LONG),
            SHORT_AXIS: lambda: logic.drawAxis(self.lesion, SHORT),
            ACCEPT_SIZE: lambda: logic.apply(FollowUp.accept_size, *chosen),
            REMOVE: lambda: logic.apply(FollowUp.remove, self.lesion),
            PREVIOUS: lambda: self.step(-1),
            NEXT: lambda: self.step(1),
        }
        steps[action]()

    def mergeChoices(self) -> list[str]:
        """Return ids of lesions into which the chosen lesion can merge: all other lesions with a place in the study."""
        choices = []
        for lesion in self.logic.record.lesions:
            finding = lesion.findings.get(self.study)
            if lesion.id != self.lesion and finding is not None and finding.state in WITH_PLACE:
                choices.append(lesion.id)
        return choices

    def whyNot(self, action: str) -> str:
        """Return a sentence that states why an action is not possible now; "" if the action is possible."""
        logic = self.logic
        if not logic.volumes:
            return _("Load CTs of a patient first.")
        if action == NEW:
            return ""
        if action in (PREVIOUS, NEXT):
            return "" if logic.openPlaces() else _("There is no proposal left to review.")
        if not self.lesion:
            return _("Choose a lesion in the table first.")
        if action == REMOVE:
            return ""
        if self.study not in logic.volumes:
            return _("This study is not loaded: load its scan, or choose a cell of another study.")
        finding = logic.record.finding(self.lesion, self.study)
        if action == CONFIRM:
            if finding is None:
                return _(
                    "This study has no proposal: prepare the scans, or press Move and click on the lesion."
                )
            if finding.reviewed:
                return _("{lesion} has already been reviewed in this study.").format(
                    lesion=self.lesion
                )
            if status_of(logic.record, self.lesion, self.study) == ABSENT:
                text = _(
                    "The scan probably does not show {lesion}: press Outside, or press Move and click on it."
                )
                return text.format(lesion=self.lesion)
        # the state that the action would set, or None
        state = {MARK_NOT_VISIBLE: NOT_VISIBLE, MARK_OUTSIDE: OUTSIDE}.get(action)
        if finding is not None and finding.state == state:
            return _("{lesion} already has this state in this study.").format(lesion=self.lesion)
        if action == ACCEPT_SIZE:
            if finding is None or not finding.size.axes:
                return _("{lesion} has no axes in this study: draw them with keys L and S.").format(
                    lesion=self.lesion
                )
            return _("The axes have already been accepted.") if finding.size.confirmed else ""
        if action == MERGE and not self.mergeChoices():
            return _(
                "No other lesion has a place in this study: first mark the lesion to merge with."
            )
        return ""


def nextStep(logic: FollowUpLogic) -> str:
    """Return a sentence that suggests what the user can do next."""
    record = logic.record
    if not logic.volumes:
        return _(
            "Load CTs of one patient. To practise, choose File > Download Sample Data and load the Phantom pair of "
            "AnatomicalEmbedding."
        )
    if logic.placing.active:
        return _("Click in a slice view to place {what}. Press Esc to cancel.").format(
            what=logic.placing.label
        )
    if not record.lesions:
        return _(
            "Press New lesion (W) and click on a lesion. Its places in the other studies are then proposed."
        )
    unreviewed = len(logic.openPlaces())
    if unreviewed:
        text = _(
            "Proposals still to review: {count}. Go to the next proposal (J), then press C, M, N or O."
        )
        return text.format(count=unreviewed)
    if any(study not in lesion.findings for lesion in record.lesions for study in logic.volumes):
        return _(
            "The table has cells without a finding: prepare the scans, or choose a cell and press M, N or O."
        )
    if any(
        finding.visible and not finding.size.confirmed
        for lesion in record.lesions
        for finding in lesion.findings.values()
        if lesion.target
    ):
        return _(
            "All proposals are reviewed. Measure the target lesions: choose a cell, and draw axes (keys L, S)."
        )
    return _(
        "All proposals are reviewed. In the sections below, see the response and export reports."
    )
