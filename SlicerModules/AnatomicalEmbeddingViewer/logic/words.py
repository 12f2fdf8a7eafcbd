"""Find by words, a report whose sentences lead to their places, and the name of what is at the crosshair."""

from __future__ import annotations

from typing import TYPE_CHECKING

from AnatomicalEmbeddingLib.words.WordSearch import WordSearch

if TYPE_CHECKING:
    from .crosshair import Crosshair
    from .session import Session

_MOST_SENTENCES = 300  # of a report, on the page


class Words:
    """Publishes `offers` (completions of what is typed), `words` (what was found), `named` (what is at the crosshair)
    and `report` (sentences).
    """

    def __init__(self, session: Session, crosshair: Crosshair) -> None:
        self._session = session
        self.logic = WordSearch(session.scene, session.store)
        self._offers: list[str] = []
        self._dirty = True
        self._said: list[str] = []  # of what was looked for last
        self.logic.reported.connect(self._on_reported)
        for signal in (self.logic.changed, self.logic.reportRead):
            signal.connect(self._on_changed)
        crosshair.logic.moved.connect(self.logic.nameAt)
        session.scans_changed.connect(self.follow)
        session.at_end(self.logic.close)

    def follow(self) -> None:
        self.logic.volumes = list(self._session.scans)
        self._dirty = True

    # -- what the user does ------------------------------------------------------------------------------------------

    def typed(self, text: object) -> None:
        """Something is being typed: offer what it may become."""
        self._offers = self.logic.offers(str(text))
        self._dirty = True

    def find(self, text: object) -> None:
        """Look for it in all scans; the same words again show their next place."""
        text = str(text).strip()
        self._offers, self._dirty = [], True
        while self._said:
            self._session.take_back(self._said.pop())
        if text and text == self.logic.text and self.logic.steps:
            self.logic.step()
        elif self._session.scans or not text:
            self.logic.find(text)
        else:
            self._session.say("There is no scan yet: add one, then look for places in it.")

    def read(self, text: object) -> None:
        """Find the places in the sentences of a report."""
        self.logic.readReport(str(text))

    def sentence(self, number: object) -> None:
        """Look for the places of a sentence of the report."""
        sentences = self.logic.sentences
        if isinstance(number, int) and 0 <= number < len(sentences) and sentences[number].mentions:
            self.logic.findMentions(_plain(sentences[number].text), sentences[number].mentions)

    # -- for the page --------------------------------------------------------------------------------------------------

    def poll(self) -> None:
        self.logic.poll()

    def publish(self, state) -> None:
        state.named = self.logic.name or ("\u2026" if self.logic.naming else "no certain name")
        if not self._dirty:
            return
        self._dirty = False
        state.offers = self._offers
        state.words = {
            "text": self.logic.text,
            "title": self.logic.title,
            "several": len(self.logic.steps) > 1,
            "answers": [{"name": name, "text": text} for name, text in self.logic.answers()],
        }
        state.report = [
            {"number": number, "text": _plain(each.text), "named": bool(each.mentions)}
            for number, each in enumerate(self.logic.sentences[:_MOST_SENTENCES])
        ]

    def _on_reported(self, sentence: str) -> None:
        self._said.append(sentence)
        self._session.say(sentence)

    def _on_changed(self) -> None:
        self._dirty = True


def _plain(text: str) -> str:
    return " ".join(text.split())
