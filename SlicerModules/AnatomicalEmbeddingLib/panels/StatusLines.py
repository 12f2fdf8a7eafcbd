"""The sentences at the bottom of a panel: those said since the user last did something."""

from __future__ import annotations

from slicer.i18n import tr as _

_MOST = 8  # that are shown at once


class StatusLines:
    """Shows sentences in a label, one a line, each once."""

    def __init__(self, label) -> None:
        self._label = label
        self._sentences: list[str] = []

    def say(self, sentence: str) -> None:
        """Add a sentence."""
        if sentence and sentence not in self._sentences:
            self._sentences.append(sentence)
            self._show()

    def clear(self) -> None:
        """Forget all of them."""
        self._sentences = []
        self._show()

    def _show(self) -> None:
        shown = self._sentences[-_MOST:]
        left = len(self._sentences) - len(shown)
        more = [_("{count} more before these.").format(count=left)] if left else []
        self._label.text = "\n".join([*more, *shown])
