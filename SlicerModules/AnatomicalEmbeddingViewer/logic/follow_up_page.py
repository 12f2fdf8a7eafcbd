"""What the page shows of a follow-up, as plain values."""

from __future__ import annotations

from typing import TYPE_CHECKING

from AnatomicalEmbedding.followup import response as recist
from AnatomicalEmbedding.followup.trend_chart import trend_svg
from AnatomicalEmbeddingLib.followup import ActionRules as Rules
from AnatomicalEmbeddingLib.followup.LesionCells import categoryText, cellOf, lesionText, lesionTip, numberText
from AnatomicalEmbeddingLib.followup.LesionChoice import nextStep
from AnatomicalEmbeddingLib.shared.Colours import DOUBTFUL, GOOD, NOTHING

if TYPE_CHECKING:
    from AnatomicalEmbedding.followup.record import FollowUp
    from AnatomicalEmbeddingLib.followup.Pairing import Pairing

    from .follow_up import FollowUps

_LOOKS = {GOOD: "good", DOUBTFUL: "doubtful", NOTHING: "nothing", None: "open"}
_CATEGORY_LOOKS = {recist.COMPLETE: "good", recist.PARTIAL: "good", recist.PROGRESSIVE: "fault"}
_ACTIONS = (
    Rules.NEW, Rules.CONFIRM, Rules.MOVE, Rules.NOT_VISIBLE, Rules.OUTSIDE, Rules.LONG_AXIS, Rules.SHORT_AXIS,
    Rules.ACCEPT, Rules.REMOVE, Rules.PREVIOUS, Rules.NEXT,
)  # fmt: skip
_CHART = (474, 170)


def page_of(follow: FollowUps) -> dict:
    """All of it; it is sent where it has changed."""
    logic, choice = follow.logic, follow.choice
    record = logic.record
    roles = {logic.studyOf(follow.prior): "prior", logic.studyOf(follow.current): "current"}
    return {
        "patients": [{"key": each.key, "name": each.name or "no patient in the file"} for each in follow.patients],
        "patient": "" if follow.patient is None else follow.patient.key,
        "studies": [_study(follow, study) for study in (() if follow.patient is None else follow.patient.studies)],
        "columns": [
            {
                "key": study.key,
                "label": study.label,
                "role": roles.get(study.key, "") if study.key in logic.volumes else "not loaded",
                "tip": study.name,
            }
            for study in record.studies
        ],
        "rows": [_row(record, lesion, choice) for lesion in record.lesions],
        "chosen": _lesion(record, choice.lesion),
        "study": choice.study,
        "study_label": next((study.label for study in record.studies if study.key == choice.study), ""),
        "actions": {name: _action(logic, name, choice) for name in _ACTIONS},
        "merges": _named(record, Rules.mergeChoices(logic, choice.lesion, choice.study) if choice.lesion else ()),
        "placing": follow.placing,
        "pairing": _pairing(follow.pairing),
        "todo": len(record.unreviewed()),
        "next": nextStep(logic) if logic.volumes else "Add CT scans of one patient: two studies or more.",
        "undo": logic.canUndo,
        "redo": logic.canRedo,
        **_response(record, choice.study or choice.usual),
    }


def _study(follow: FollowUps, study) -> dict:
    volume = study.volume
    return {
        "scan": volume.GetID(),
        "name": volume.GetName(),
        "date": study.dateText,
        "note": study.note,
        "tip": study.note or ("Set by hand; clear it to go back to DICOM's." if study.byHand else "From DICOM."),
        "role": {follow.prior: "prior", follow.current: "current"}.get(volume, ""),
    }


def _row(record: FollowUp, lesion, choice) -> dict:
    label, kind = lesionText(lesion).split("\n")
    cells = []
    for study in record.studies:
        cell = cellOf(record, lesion.id, study.key)
        here = choice.lesion == lesion.id and choice.study == study.key
        cells.append(
            {
                "study": study.key,
                "lines": cell.text.split("\n") if cell.text else [],
                "tip": cell.tip,
                "look": _LOOKS[cell.colour],
                "here": here,
            }
        )
    return {
        "id": lesion.id,
        "label": label,
        "kind": " · ".join(part for part in (kind, lesion.site) if part),
        "tip": lesionTip(lesion),
        "cells": cells,
    }


def _lesion(record: FollowUp, lesion_id: str) -> dict:
    """What can be edited of a lesion; {} where none is chosen."""
    lesion = next((each for each in record.lesions if each.id == lesion_id), None)
    if lesion is None:
        return {}
    others = [each.id for each in record.lesions if each is not lesion]
    return {
        "id": lesion.id,
        "name": lesion.name,
        "site": lesion.site,
        "target": lesion.target,
        "nodal": lesion.nodal,
        "split_from": lesion.split_from,
        "others": _named(record, others),
    }


def _named(record: FollowUp, lesions) -> list[dict]:
    return [{"id": each, "label": record.lesion(each).label} for each in lesions]


def _action(logic, name: str, choice) -> dict:
    reason = Rules.whyNot(logic, name, choice.lesion, choice.study)
    return {"key": Rules.KEYS.get(name, ""), "tip": reason or Rules.tipOf(name), "off": bool(reason)}


def _pairing(pairing: Pairing) -> dict:
    """offer: {} where nothing is offered."""
    offer = pairing.offer
    shown = (
        {} if offer is None else {"changes": offer.sentences, "notes": offer.notes, "can_agree": bool(offer.changes)}
    )
    return {"off": bool(pairing.reason), "tip": pairing.tip, "offer": shown}


def _response(record: FollowUp, study: str) -> dict:
    """Sums and response of every study; what is missing, and what to know, in one of them."""
    found = recist.responses(record) if record.lesions else []
    here = next((each for each in found if each.study == study), found[-1] if found else None)
    return {
        "response": [
            {
                "study": each.study,
                "sum": numberText(each.sum_mm, "{:.1f} mm"),
                "baseline": numberText(each.from_baseline, "{:+.0f} %"),
                "nadir": numberText(each.from_nadir, "{:+.0f} %"),
                "category": _category(each),
                "tip": "\n".join((categoryText(each.category), *each.missing, *each.notes)),
                "look": _CATEGORY_LOOKS.get(each.category, ""),
            }
            for each in found
        ],
        "missing": list(here.missing) if here else [],
        "notes": list(here.notes) if here else [],
        "chart": trend_svg(record, *_CHART),
    }


def _category(response: recist.Response) -> str:
    if response.category == recist.NOT_EVALUABLE:
        return "n. e."
    return f"{response.category}, new {', '.join(response.new)}" if response.new else response.category
