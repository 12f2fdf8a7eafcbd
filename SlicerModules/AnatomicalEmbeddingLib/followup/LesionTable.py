"""The table of lesions: a row for each lesion, and a column for each study in order of date."""

import math

import qt
from slicer.i18n import tr as _

from AnatomicalEmbedding.followup import status as words
from AnatomicalEmbedding.followup.lesions import MERGED, Finding, Guess, Lesion, Measurement
from AnatomicalEmbedding.followup.record import FollowUp

from ..shared.Colours import DOUBTFUL, GOOD, NOTHING, errorText
from ..shared.panels.CellTable import fillTable, fitHeight, setColumns
from ..shared.Signal import Flag, Listener
from .LesionActions import LesionActions

_MOST_STRETCHED = 4  # number of studies; with more studies, the table scrolls
_LEAST_ROWS = 3
_MOST_ROWS = 10
_ROW_PX = 36  # height of a row on the screen
_SEEN = "\u2713"
_OPEN = "\u25cb"
_GONE = "\u2715"


class LesionTable(Listener):
    """Shows the record in the QTableWidget `table`. The current cell is the cell of the chosen lesion and study."""

    def __init__(self, table, choice: LesionActions) -> None:
        self.logic = choice.logic
        self.choice = choice
        self.roles: dict[str, str] = {}
        self._filling = Flag()
        self.widget = table
        self.widget.connect("currentCellChanged(int,int,int,int)", self._onCurrent)
        self.widget.connect(
            "cellDoubleClicked(int,int)", lambda _row, _column: choice.changed.emit()
        )
        self.listen(choice.changed, self._showChoice)
        self.updateAt(self.logic.changed)

    def setRoles(self, prior: str, current: str) -> None:
        """Write "prior" and "current" into the column titles of two studies. prior, current: study keys."""
        self.roles = {prior: _("prior"), current: _("current")}
        self.update()

    def update(self) -> None:
        """Fill the table again."""
        record = self.logic.record
        table = self.widget
        with self._filling:
            setColumns(table, [_("Lesion"), *(self._header(study) for study in record.studies)])
            rows = [
                [
                    (_lesionText(lesion), _lesionTip(lesion)),
                    *(_cell(record, lesion.id, study.key) for study in record.studies),
                ]
                for lesion in record.lesions
            ]
            fillTable(table, rows)
            fitColumns(table)
            fitHeight(table, min(max(len(record.lesions), _LEAST_ROWS), _MOST_ROWS) * _ROW_PX)
        self._showChoice()

    def _header(self, study) -> str:
        """Return the title of a study's column: its date or name, and below it what the study is here."""
        role = self.roles.get(study.key) if study.key in self.logic.volumes else _("not loaded")
        return f"{study.label}\n{role or ''}"

    def _showChoice(self) -> None:
        """Select the cell of the chosen lesion and study."""
        record = self.logic.record
        lesions = [entry.id for entry in record.lesions]
        studies = [entry.key for entry in record.studies]
        with self._filling:
            if self.choice.lesion in lesions and self.choice.study in studies:
                self.widget.setCurrentCell(
                    lesions.index(self.choice.lesion), studies.index(self.choice.study) + 1
                )
            else:
                self.widget.setCurrentItem(None)

    def _onCurrent(self, row: int, column: int, _rowBefore: int, _columnBefore: int) -> None:
        """Choose the lesion and the study of the current cell. The first column stands for no study."""
        record = self.logic.record
        if not self._filling and row >= 0:
            study = record.studies[column - 1].key if column else ""
            self.choice.choose(record.lesions[row].id, study)


def fitColumns(table) -> None:
    """Set the widths of the columns. A few studies fill the width of the panel; with more studies the table scrolls."""
    header = table.horizontalHeader()
    stretched = table.columnCount <= _MOST_STRETCHED + 1
    header.setSectionResizeMode(
        qt.QHeaderView.Stretch if stretched else qt.QHeaderView.ResizeToContents
    )
    if table.columnCount:
        header.setSectionResizeMode(0, qt.QHeaderView.Fixed)
        table.setColumnWidth(0, 98)


def _cell(record: FollowUp, lesion: str, study: str) -> tuple[str, str, str | None]:
    """Return text, tool tip and colour of a lesion's table cell for a study. Colour None is the default colour."""
    finding = record.finding(lesion, study)
    if finding is None:
        return (
            "",
            _("There is no finding in this study yet: prepare the scans, or mark the lesion."),
            None,
        )
    status = words.status_of(record, lesion, study)
    sign, colour = _signAndColour(finding, status)
    doubt = "" if finding.guess is None or status != words.UNCERTAIN else finding.guess.doubt
    first = f"{sign} {doubt.partition(':')[0] or status}"
    if finding.state == MERGED:
        first = _("{sign} merged into {lesion}").format(sign=sign, lesion=finding.into)
    error = None if finding.guess is None or finding.reviewed else finding.guess.error_mm
    place = "" if error is None else f"\u00b1{error:.0f} mm"
    # the error stands before the size, because after the size it would look like the error of the size
    second = f"{place} {_sizeText(finding.size)}".strip()
    return f"{first}\n{second}".rstrip(), _tip(record, finding, status), colour


def _sizeText(size: Measurement) -> str:
    """Return the lengths of the axes, in parentheses if no person has confirmed them; "" without axes."""
    text = "\u2009\u00d7\u2009".join(f"{math.dist(*axis):.0f}" for axis in size.axes.values())
    if not text:
        return ""
    return f"{text} mm" if size.confirmed else f"({text})"


def _lesionText(lesion: Lesion) -> str:
    kind = _("target") if lesion.target else _("non-target")
    if lesion.nodal:
        kind = _("{kind} node").format(kind=kind)
    return f"{lesion.label}\n{kind}"


def _lesionTip(lesion: Lesion) -> str:
    sentences = []
    if lesion.site:
        sentences.append(_("Site: {site}.").format(site=lesion.site))
    if lesion.split_from:
        sentences.append(_("Split off from {lesion}.").format(lesion=lesion.split_from))
    return " ".join(sentences)


def _signAndColour(finding: Finding, status: str) -> tuple[str, str | None]:
    """Return the sign of a cell, and its colour or None."""
    if not finding.reviewed:
        doubtful = {words.UNCERTAIN: ("?", DOUBTFUL), words.ABSENT: ("?", NOTHING)}
        return doubtful.get(status, (_OPEN, None))
    if finding.visible:
        return _SEEN, GOOD
    return (_SEEN if finding.state == MERGED else _GONE), NOTHING


def _guessSentences(record: FollowUp, guess: Guess, status: str) -> list[str]:
    """Return sentences about a proposed place: where it comes from, its error, and what speaks against it."""
    sentences = []
    for study in record.studies:
        if study.key == guess.source:
            text = _("This place was computed from the lesion's place in {study}.")
            sentences.append(text.format(study=study.label))
    if status == words.ABSENT:
        sentences.append(
            _(
                "The scan probably does not show this place: press Outside, or Move and click on the lesion."
            )
        )
    else:
        error = errorText(guess.expected_error_mm, guess.probability)
        sentences.append(f"{error[0].upper()}{error[1:]}.")
    if guess.doubt:
        sentences.append(_("Uncertain: {doubt}.").format(doubt=guess.doubt))
    return sentences


def _tip(record: FollowUp, finding: Finding, status: str) -> str:
    """Return the tool tip of a cell: what no person has reviewed yet, and where it comes from."""
    sentences = []
    if not finding.reviewed:
        sentences.append(_("No person has reviewed this place."))
        if finding.guess is not None:
            sentences += _guessSentences(record, finding.guess, status)
    if finding.size.axes and not finding.size.confirmed:
        sentences.append(
            _(
                "The axes were copied from another study. They count only if you accept or redraw them."
            )
        )
    return " ".join(sentences)
