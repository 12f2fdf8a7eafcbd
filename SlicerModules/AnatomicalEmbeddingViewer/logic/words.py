"""Finds places that are described by words or by the sentences of a report, and names the place at the crosshair."""

from __future__ import annotations

from typing import TYPE_CHECKING

from AnatomicalEmbeddingLib.words.WordSearch import WordSearch

if TYPE_CHECKING:
    from .linking import Crosshair
    from .session import Session

_SENTENCE_LIMIT = 300  # largest number of sentences of a report that the page shows


class Words:
    """Finds places by words. Sets values of the page: `offers` (completions of the typed text), `words` (the answers),
    `named` (name of the place at the crosshair) and `report` (sentences of the report).
    """

    def __init__(self, session: Session, crosshair: Crosshair) -> None:
        self._session = session
        self._logic = WordSearch(session.scene, session.store)
        self._offers: list[str] = []
        self._reported: list[str] = []  # messages about the latest search
        self._logic.reported.connect(self._on_reported)
        crosshair.moved.connect(self._logic.nameAt)
        session.scans_changed.connect(self._follow_scans)
        session.on_close(self._logic.close)

    def _follow_scans(self) -> None:
        self._logic.volumes = list(self._session.scans)

    # -- actions of the page -----------------------------------------------------------------------------------------

    def complete(self, text: object) -> None:
        """Find completions of the typed text, which the page offers to the user."""
        self._offers = self._logic.offers(str(text))

    def find(self, text: object) -> None:
        """Find, in all scans, the places that `text` describes. If `text` is "", only remove the places that are shown.

        If `text` is the same as in the last call, show the next of the found places."""
        logic = self._logic
        text = str(text).strip()
        self._offers = []
        while self._reported:
            self._session.withdraw(self._reported.pop())
        if text and text == logic.text and logic.steps:
            logic.step()
        elif self._session.scans or not text:
            logic.find(text)
        else:
            self._session.report("There is no scan yet; add a scan, then find places in it.")

    def read_report(self, text: object) -> None:
        """Read a report, and find out which of its sentences name places."""
        self._logic.readReport(str(text))

    def find_sentence(self, number: object) -> None:
        """Find the places that sentence `number` of the report names, in all scans. The first sentence has number 0."""
        sentences = self._logic.sentences
        if isinstance(number, int) and 0 <= number < len(sentences) and sentences[number].mentions:
            self._logic.findMentions(
                _on_one_line(sentences[number].text), sentences[number].mentions
            )

    # -- for the page ------------------------------------------------------------------------------------------------

    def poll(self) -> None:
        self._logic.poll()

    def publish(self, state) -> None:
        logic = self._logic
        state.named = logic.name or ("\u2026" if logic.naming else "no certain name")
        state.offers = self._offers
        state.words = {
            "text": logic.text,
            "title": logic.title,
            "several": len(logic.steps) > 1,
            "answers": [{"name": name, "text": text} for name, text in logic.answers()],
        }
        state.report = [
            {
                "number": number,
                "text": _on_one_line(sentence.text),
                "named": bool(sentence.mentions),
            }
            for number, sentence in enumerate(logic.sentences[:_SENTENCE_LIMIT])
        ]

    def _on_reported(self, sentence: str) -> None:
        self._reported.append(sentence)
        self._session.report(sentence)


def _on_one_line(text: str) -> str:
    return " ".join(text.split())
