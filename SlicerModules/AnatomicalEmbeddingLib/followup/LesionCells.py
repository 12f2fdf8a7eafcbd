"""Text, tool tip and colour of each cell in the table of lesions (rows) and studies (columns)."""

from __future__ import annotations

import math
from dataclasses import dataclass

from slicer.i18n import tr as _

from AnatomicalEmbedding.followup import lesions as states
from AnatomicalEmbedding.followup import response as recist
from AnatomicalEmbedding.followup import status as words
from AnatomicalEmbedding.followup.lesions import MERGED, Finding, Lesion, Measurement
from AnatomicalEmbedding.followup.record import FollowUp

from ..shared.Colours import DOUBTFUL, GOOD, NOTHING, errorText

_SEEN, _OPEN, _GONE = "\u2713", "\u25cb", "\u2715"


@dataclass(frozen=True)
class Cell:
    """A cell of the table. colour: background colour; None for the default colour."""

    text: str
    tip: str = ""
    colour: str | None = None


def cellOf(record: FollowUp, lesion: str, study: str) -> Cell:
    """The cell for one lesion in one study."""
    found = record.finding(lesion, study)
    if found is None:
        return Cell("", _("There is no finding here yet: prepare the scans, or mark the lesion."))
    status = words.status_of(record, lesion, study)
    sign, colour = _signAndColour(found, status)
    first = f"{sign} {statusText(status)}"
    if found.state == MERGED:
        first = _("{sign} merged with {lesion}").format(sign=sign, lesion=found.into)
    error = None if found.guess is None or found.reviewed else found.guess.error_mm
    place = "" if error is None else f"\u00b1{error:.0f} mm"
    # the error comes before the size, because it is the error of the place and not of the size
    second = f"{place} {sizeText(found.size)}".strip()
    return Cell(f"{first}\n{second}" if second else first, _tip(record, found, status), colour)


def statusText(status: str) -> str:
    """A status of a lesion as a word in the user's language."""
    return {
        words.BASELINE: _("baseline"),
        words.NEW: _("new"),
        words.MAYBE_NEW: _("new?"),
        words.SPLIT: _("split off"),
        words.UNCERTAIN: _("uncertain"),
        words.ABSENT: _("not in scan"),
        words.DISAPPEARED: _("disappeared"),
        states.MARKED: _("marked"),
        states.PROPOSED: _("proposed"),
        states.CONFIRMED: _("confirmed"),
        states.MOVED: _("moved"),
        states.NOT_VISIBLE: _("not visible"),
        states.OUTSIDE: _("outside scan"),
        MERGED: _("merged"),
    }[status]


def sizeText(size: Measurement) -> str:
    """The lengths of the axes in mm, the long axis first; in brackets until a person has accepted the axes."""
    text = "\u2009\u00d7\u2009".join(f"{math.dist(*axis):.0f}" for axis in size.axes.values())
    if not text:
        return ""
    return f"{text} mm" if size.confirmed else f"({text})"


def lesionText(lesion: Lesion) -> str:
    """Label and kind of a lesion, on two lines."""
    kind = _("target") if lesion.target else _("non-target")
    if lesion.nodal:
        kind = _("{kind} node").format(kind=kind)
    return f"{lesion.label}\n{kind}"


def lesionTip(lesion: Lesion) -> str:
    """The site of a lesion, and the name of the lesion from which it has split off, as sentences."""
    site = _("Site: {site}.").format(site=lesion.site) if lesion.site else ""
    split = _("Split off from {lesion}.").format(lesion=lesion.split_from) if lesion.split_from else ""
    return " ".join(part for part in (site, split) if part)


def categoryText(category: str) -> str:
    """A category of RECIST 1.1 in words."""
    return {
        recist.COMPLETE: _("Complete response"),
        recist.PARTIAL: _("Partial response"),
        recist.STABLE: _("Stable disease"),
        recist.PROGRESSIVE: _("Progressive disease"),
        recist.BASELINE: _("Baseline"),
        recist.NOT_EVALUABLE: _("Not evaluable"),
    }[category]


def numberText(value: float | None, form: str) -> str:
    """A number in the format string `form`; a dash for None."""
    return "\u2013" if value is None else form.format(value)


def _signAndColour(found: Finding, status: str) -> tuple[str, str | None]:
    if not found.reviewed:
        return {words.UNCERTAIN: ("?", DOUBTFUL), words.ABSENT: ("?", NOTHING)}.get(status, (_OPEN, None))
    if found.visible:
        return _SEEN, GOOD
    return (_SEEN if found.state == MERGED else _GONE), NOTHING


def _tip(record: FollowUp, found: Finding, status: str) -> str:
    guess, sentences = found.guess, []
    if not found.reviewed:
        sentences.append(_("No person has reviewed this place."))
        if guess is not None:
            source = next((study.label for study in record.studies if study.key == guess.source), "")
            sentences += [_("It was found from {study}.").format(study=source)] if source else []
            error = errorText(guess.expected_error_mm, guess.probability)
            absent = _("The scan does not seem to show it: press Outside, or Move it to where you see it.")
            sentences.append(absent if status == words.ABSENT else f"{error[0].upper()}{error[1:]}.")
    if found.size.axes and not found.size.confirmed:
        sentences.append(_("The axes are carried over and count only after you accept or draw them."))
    return " ".join(sentences)
