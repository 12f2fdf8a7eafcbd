"""Doubles of dialogs: each is recorded and answered at once, so that no test waits."""

from dataclasses import dataclass
from typing import Any

# What a user who agrees, and who cancels every file dialog, would answer.
DEFAULT_ANSWERS: dict[str, Any] = {
    "info": True, "warning": True, "error": True, "confirm": True, "delay": None, "dialog": 0, "menu": None,
    "open_file": "", "directory": "", "url": True,
}  # fmt: skip


@dataclass(frozen=True)
class Dialog:
    """One dialog as the user would have seen it.

    `kind` is a key of DEFAULT_ANSWERS; `text` is the message (of a file dialog: the start folder; of "url": the
    address); `details` holds whatever else was given (filter, buttons, detailedText ...).
    """

    kind: str
    text: str
    title: str
    details: dict

    def __str__(self) -> str:
        return f"{self.kind}: {self.text}"


class Dialogs(list):
    """The dialogs of this test, first to last."""

    def __init__(self) -> None:
        super().__init__()
        self._answers = dict(DEFAULT_ANSWERS)

    def answer(self, kind: str, value: Any) -> None:
        """What the user answers to dialogs of this kind from now on: True/False to "confirm", a path to file dialogs.

        A function is called with the Dialog's text and returns the answer.
        """
        assert kind in DEFAULT_ANSWERS, kind
        self._answers[kind] = value

    def record(self, kind: str, text: str, title: str = "", **details) -> Any:
        """Write a dialog down and return its answer."""
        self.append(Dialog(kind, str(text), str(title or ""), details))
        answer = self._answers[kind]
        return answer(text) if callable(answer) else answer

    def of(self, kind: str) -> list[Dialog]:
        """The dialogs of one kind."""
        return [dialog for dialog in self if dialog.kind == kind]

    def reset(self) -> None:
        """Forget dialogs and answers."""
        self.clear()
        self._answers = dict(DEFAULT_ANSWERS)


DIALOGS = Dialogs()
