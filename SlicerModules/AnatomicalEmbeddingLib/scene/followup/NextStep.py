"""What the user may do next, in a sentence: nobody should have to read a manual first."""

from __future__ import annotations

from slicer.i18n import tr as _

from ..maps.MapStore import FAILED, READY
from .FollowUpLogic import FollowUpLogic


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
            "Still to look at: {count}. Go to each with J, then Confirm (C), Move (M), or say Not visible (N) or "
            "Outside (O)."
        ).format(count=todo)
    unknown = any(study not in lesion.findings for lesion in record.lesions for study in logic.volumes)
    if unknown and any(status not in (READY, FAILED) for status in states):
        return _("Places in the other studies are proposed once the scans are prepared.")
    if unknown:
        return _(
            "Nothing is known in the empty cells: choose one, press M and click on the lesion, or say Not visible (N) "
            "or Outside (O)."
        )
    if any(_unmeasured(lesion) for lesion in record.lesions):
        return _("Every proposal was looked at. Measure the targets: choose a cell, press L, click on both ends.")
    return _("Every proposal was looked at. The response and the reports are below.")


def _unmeasured(lesion) -> bool:
    return lesion.target and any(each.visible and not each.size.confirmed for each in lesion.findings.values())
