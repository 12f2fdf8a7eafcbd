"""Shows the progress of embedding scans, with a button to start and cancel."""

from collections.abc import Iterable
from html import escape

import slicer.util
from slicer.i18n import tr as _

from ... import moduleResource
from ..maps.MapStore import FAILED, READY, WAITING, WORKING, MapState
from ..Signal import Listener
from .Session import Session
from .Widgets import BAD, GOOD, WARNING, coloured


class PreparationPanel(Listener):
    """Shows the progress of embedding volumes. Volumes that were removed from the scene are ignored."""

    def __init__(self, parentLayout, session: Session) -> None:
        self.session = session
        self._volumes: list = []
        self.widget = slicer.util.loadUI(
            str(moduleResource("UI/AnatomicalEmbeddingPreparation.ui"))
        )
        ui = slicer.util.childWidgetVariables(self.widget)
        self.progressBar = ui.progressBar
        self.button = ui.prepareButton
        self.label = ui.preparationLabel
        self.button.connect("clicked(bool)", self._onClicked)
        parentLayout.addWidget(self.widget)
        self.updateAt(session.ticked)

    def setVolumes(self, nodes: Iterable) -> None:
        """Set the scans whose progress is shown. Entries of `nodes` that are None are ignored."""
        self._volumes = list(dict.fromkeys(node for node in nodes if node is not None))
        self.update()

    def update(self) -> None:
        """Show the progress, and what the button does now."""
        self._volumes = [node for node in self._volumes if node.GetScene() is self.session.scene]
        states = [(node.GetName(), self.session.store.state(node)) for node in self._volumes]
        ready = sum(state.status == READY for _name, state in states)
        self.progressBar.value = round(
            100 * sum(state.share for _name, state in states) / max(len(states), 1)
        )
        unfinished = ready < len(states)
        self.progressBar.visible = unfinished
        self.button.visible = unfinished or not states  # hidden when all scans are ready
        self.button.text = _("Cancel") if self._working else _("Prepare scans")
        self.button.enabled = unfinished
        self.label.text = "<br>".join(
            [*_progressLines(states, ready), *_noteLines(states), *_failureLines(states)]
        )

    @property
    def _working(self) -> bool:
        return any(
            self.session.store.state(node).status in (WAITING, WORKING) for node in self._volumes
        )

    def _onClicked(self) -> None:
        if self._working:
            self.session.store.cancel(self._volumes)
        else:
            self.session.store.request(self._volumes)
        self.update()


def _progressLines(states: list[tuple[str, MapState]], ready: int) -> list[str]:
    """Return how many scans are ready, and the step of the scan that is being prepared."""
    if not states:
        return [_("No scan is chosen.")]
    if ready == len(states):
        several = _("All {count} scans are ready.").format(count=ready)
        return [coloured(several if ready > 1 else _("The scan is ready."), GOOD)]
    counted = _("{ready} of {count} scans ready").format(ready=ready, count=len(states))
    for name, state in states:
        if state.status == WORKING:
            percent = round(100 * state.share)
            current = _("{name}: {what} {percent} %")
            current = current.format(name=name, what=state.step, percent=percent)
            return [escape(f"{current} ({counted})")]
    return [counted]


def _noteLines(states: list[tuple[str, MapState]]) -> list[str]:
    """Return a line for each scan whose map has notes or faults."""
    lines = []
    for name, state in states:
        embedding = state.embedding
        notes = () if embedding is None else (*embedding.notes, *embedding.faults)
        if notes:
            lines.append(coloured(f"{name}: {'; '.join(notes)}.", WARNING))
    return lines


def _failureLines(states: list[tuple[str, MapState]]) -> list[str]:
    """Return one line for each different error message, with the names of all scans that failed with this message."""
    sentences: dict[str, list[str]] = {}
    for name, state in states:
        if state.status == FAILED:
            sentences.setdefault(state.sentence, []).append(name)
    lines = []
    for sentence, names in sentences.items():
        isNamed = sentence.startswith(f"{names[0]}:")
        lines.append(coloured(sentence if isNamed else f"{', '.join(names)}: {sentence}", BAD))
    return lines
