"""The section "Find by words": the user types words or chooses a sentence of a report; all views show the place."""

from html import escape

import qt
from slicer.i18n import tr as _

from ..shared.panels.FileForm import askForFile
from ..shared.panels.Session import Session
from ..shared.panels.Widgets import WARNING, coloured, showText
from ..shared.Signal import Listener
from .WordSearch import WordSearch

_FOLDER = "reportFolder"  # name of the setting that stores the folder of the last report


class FindPanel(Listener):
    """The widgets of the section "Find by words". ui: the form with these widgets, such as findEdit."""

    def __init__(self, ui, search: WordSearch, session: Session) -> None:
        self.ui = ui
        self.search = search
        self._session = session
        self._sentence = ""  # the last message
        self._offers = qt.QStringListModel()
        self.completer = qt.QCompleter()
        self.completer.setModel(self._offers)
        self.completer.setCompletionMode(qt.QCompleter.UnfilteredPopupCompletion)
        self.completer.connect("activated(QString)", self._find)
        ui.findEdit.setCompleter(self.completer)
        ui.findEdit.connect("textEdited(QString)", self._onEdited)
        ui.findEdit.connect("textChanged(QString)", self._onChanged)
        ui.findEdit.connect("returnPressed()", self._onEnter)
        ui.reportButton.connect("clicked(bool)", lambda: search.readReport(ui.reportEdit.plainText))
        ui.keepButton.connect("clicked(bool)", lambda: search.regions.keep())
        ui.reportFileButton.connect("clicked(bool)", self._onFile)
        ui.reportList.connect("itemClicked(QListWidgetItem*)", self._onSentence)
        self.listen(search.reported, self._showSentence)
        self.listen(search.reportRead, self._showReport)
        self.atEnd(session.addWork(lambda: self.search.busy))
        self.updateAt(search.changed)

    def clear(self) -> None:
        self.ui.findEdit.clear()
        self.ui.reportEdit.clear()
        self._showReport()
        self._showSentence("")

    def update(self) -> None:
        """Show the answers in all scans, or the last message."""
        ui = self.ui
        search = self.search
        ready = bool(search.volumes)
        ui.findEdit.enabled = ui.reportButton.enabled = ui.reportFileButton.enabled = ready
        ui.keepButton.visible = any(search.found(node) for node in search.volumes)
        lines = [coloured(self._sentence, WARNING)] if self._sentence else []
        if search.title:
            onward = _(" \u2013 press Enter for the next place") if len(search.steps) > 1 else ""
            lines = [f"<b>{escape(search.title)}</b>{escape(onward)}"]
            lines += [escape(f"{name}: {text}") for name, text in search.answers()]
        showText(ui.findLabel, "<br>".join(lines))

    def _onEdited(self, text: str) -> None:
        self._offers.setStringList(self.search.offers(text))

    def _onChanged(self, text: str) -> None:
        if not text.strip():
            self._find("")

    def _onEnter(self) -> None:
        """Search for the typed words; if they were searched for before, show the next place."""
        text = self.ui.findEdit.text
        self.completer.popup().hide()
        if self.search.steps and text.strip() == self.search.text:
            self.search.step()
        else:
            self._find(text)

    def _find(self, text: str) -> None:
        self._showSentence("")
        self.search.find(text)

    def _showSentence(self, sentence: str) -> None:
        self._sentence = sentence
        self.update()

    def _onFile(self) -> None:
        path = askForFile(
            self.ui.reportFileButton, _("A report"), _("Reports (*.txt *.dcm)"), _FOLDER
        )
        if path:
            self.search.openReport(path)

    def _showReport(self) -> None:
        """List the sentences of the report. Only sentences that name a place can be chosen."""
        sentences = self.ui.reportList
        sentences.clear()
        for sentence in self.search.sentences:
            item = qt.QListWidgetItem(" ".join(sentence.text.split()))
            if not sentence.mentions:
                item.setFlags(qt.Qt.NoItemFlags)
            sentences.addItem(item)
        sentences.visible = bool(self.search.sentences)

    def _onSentence(self, item) -> None:
        """Search for the places that a sentence of the report names."""
        row = self.ui.reportList.row(item)
        sentences = self.search.sentences
        if row < len(sentences) and sentences[row].mentions:
            # the Enter key then shows the next place of the sentence
            self.ui.findEdit.text = item.text()
            self._sentence = ""
            self.search.findMentions(item.text(), sentences[row].mentions)
