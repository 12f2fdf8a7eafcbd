"""What can be done with the lesion that the user is at: by which key, how, and why not, in sentences for tool tips."""

from __future__ import annotations

from collections.abc import Callable

from slicer.i18n import tr as _

from AnatomicalEmbedding.followup.lesions import NOT_VISIBLE, OUTSIDE, WITH_PLACE
from AnatomicalEmbedding.followup.status import ABSENT, status_of

from .AxisLines import LONG, SHORT
from .FollowUpLogic import FollowUpLogic
from .LesionChoice import LesionChoice

NEW, CONFIRM, MOVE = "new", "confirm", "move"  # NOT_VISIBLE and OUTSIDE are called as the states that they lead to
LONG_AXIS, SHORT_AXIS, ACCEPT, MERGE, REMOVE = "long axis", "short axis", "accept", "merge", "remove"
PREVIOUS, NEXT = "previous", "next"
KEYS = {
    NEW: "W", CONFIRM: "C", MOVE: "M", NOT_VISIBLE: "N", OUTSIDE: "O", LONG_AXIS: "L", SHORT_AXIS: "S", ACCEPT: "A",
    PREVIOUS: "K", NEXT: "J",
}  # fmt: skip


def tipOf(action: str) -> str:
    """What an action does."""
    return {
        NEW: _("The next click in a slice view marks a new lesion."),
        CONFIRM: _("The proposed place is right."),
        MOVE: _("The next click in a slice view is the lesion's place in that study. You can also drag its point."),
        NOT_VISIBLE: _("The scan shows the place, and no lesion there: it counts 0 mm."),
        OUTSIDE: _("The scan does not show the place."),
        LONG_AXIS: _("The next two clicks are the ends of the long axis."),
        SHORT_AXIS: _("The next two clicks are the ends of the short axis."),
        ACCEPT: _("The axes shown are right as they are."),
        MERGE: _("In this study the lesion has merged with another."),
        REMOVE: _("Take the lesion out of all studies."),
        PREVIOUS: _("The previous proposal that nobody has reviewed."),
        NEXT: _("The next proposal that nobody has reviewed."),
    }[action]


def actions(logic: FollowUpLogic, choice: LesionChoice) -> dict[str, Callable[[], object]]:
    """What each action does with the lesion and study of a choice. MERGE is not among them: it needs a second lesion
    (see `mergeChoices`).
    """

    def here(method: Callable[[str, str], object]) -> Callable[[], object]:
        return lambda: method(choice.lesion, choice.study)

    return {
        NEW: lambda: logic.placeLesion(),
        CONFIRM: here(logic.confirm),
        MOVE: lambda: logic.placeLesion(choice.lesion),
        NOT_VISIBLE: here(logic.notVisible),
        OUTSIDE: here(logic.outside),
        LONG_AXIS: lambda: logic.drawAxis(choice.lesion, LONG),
        SHORT_AXIS: lambda: logic.drawAxis(choice.lesion, SHORT),
        ACCEPT: here(logic.acceptSize),
        REMOVE: lambda: logic.remove(choice.lesion),
        PREVIOUS: lambda: choice.step(-1),
        NEXT: lambda: choice.step(1),
    }


def whyNot(logic: FollowUpLogic, action: str, lesion: str, study: str) -> str:
    """Why something cannot be done with a lesion in a study; "" where it can."""
    if not logic.volumes:
        return _("Load CTs of a patient first.")
    if action == NEW:
        return ""
    if action in (PREVIOUS, NEXT):
        return "" if logic.openPlaces() else _("There is no proposal left to review.")
    if not lesion:
        return _("Choose a lesion in the table first.")
    if action == REMOVE:
        return ""
    if study not in logic.volumes:
        return _("This study is not loaded: load its scan, or choose a cell of another study.")
    return _whyNotHere(logic, action, lesion, study)


def mergeChoices(logic: FollowUpLogic, lesion: str, study: str) -> list[str]:
    """Lesions that another one may have merged with in a study."""
    record = logic.record
    found = {each.id: each.findings.get(study) for each in record.lesions if each.id != lesion}
    return [each for each, finding in found.items() if finding is not None and finding.state in WITH_PLACE]


def _whyNotHere(logic: FollowUpLogic, action: str, lesion: str, study: str) -> str:
    found = logic.record.finding(lesion, study)
    if action == CONFIRM:
        return _whyNotConfirm(logic, lesion, study)
    if action == NOT_VISIBLE and found is not None and found.state == NOT_VISIBLE:
        return _("{lesion} is marked as not visible here already.").format(lesion=lesion)
    if action == OUTSIDE and found is not None and found.state == OUTSIDE:
        return _("{lesion} is marked as outside this scan already.").format(lesion=lesion)
    if action == ACCEPT:
        size = None if found is None else found.size
        if size is None or (size.long_axis is None and size.short_axis is None):
            return _("{lesion} has no axes here: draw them.").format(lesion=lesion)
        return _("The axes are accepted already.") if size.confirmed else ""
    if action == MERGE and not mergeChoices(logic, lesion, study):
        return _("No other lesion has a place in this study.")
    return ""


def _whyNotConfirm(logic: FollowUpLogic, lesion: str, study: str) -> str:
    found = logic.record.finding(lesion, study)
    if found is None:
        return _("Nothing is proposed here: prepare the scans, or press Move and click on the lesion.")
    if found.reviewed:
        return _("{lesion} has been reviewed here already.").format(lesion=lesion)
    if status_of(logic.record, lesion, study) == ABSENT:
        return _("The scan does not seem to show {lesion}: press Outside or Not visible, or Move it.").format(
            lesion=lesion
        )
    return ""
