"""What all features share: the scene, the maps of its scans, sentences for the user, and the end of the session."""

from __future__ import annotations

import logging
import os
import tempfile
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

import slicer
import vtk
from trame_slicer.core import SlicerApp

from AnatomicalEmbeddingLib.shared.maps.Engine import Choice, Engine
from AnatomicalEmbeddingLib.shared.maps.MapStore import MapStore
from AnatomicalEmbeddingLib.shared.Signal import Signal

_SENTENCE_LIMIT = 6


class ThreadedEngine(Engine):
    """The engine, which leaves one core to the page while it embeds."""

    def load(self):
        import torch

        torch.set_num_threads(max(1, (os.cpu_count() or 2) - 1))
        return super().load()


class Session:
    """One scene, shown to everyone who has opened the page.

    Attributes:
        scans: volume nodes in the order of their rows.
        template: the volume node in which points are placed, or None.
        folder: for temporary files; removed with its content when the session closes.
        sentences: shown to the user.
        on_close: takes a function that is called when the session closes, the last one first.
        scans_changed: emitted after a scan came or left, was renamed, or became the template.
        scan_leaves: emitted with a volume node just before it leaves.
    """

    def __init__(self, choice: Choice) -> None:
        _quicken_vtk()
        self.app = SlicerApp()
        _log_vtk_errors()
        self.scene = slicer.mrmlScene = self.app.scene  # slicer.util works on it
        self.store = MapStore(self.scene, ThreadedEngine(choice))
        self.scans_changed, self.scan_leaves = Signal(), Signal()
        self.scans: list = []
        self.template = None
        self.sentences: list[str] = []
        self._closing = ExitStack()
        self.on_close = self._closing.callback
        self.folder = Path(self._closing.enter_context(tempfile.TemporaryDirectory(prefix="anatemb-view-")))
        self.on_close(self.store.close)

    def scan(self, scan_id: object):
        """Return the volume node of an ID that the page sent, or None."""
        return next((node for node in self.scans if node.GetID() == scan_id), None)

    def report(self, sentence: str) -> None:
        """Show a sentence to the user until it is dismissed; the oldest one leaves when there are too many."""
        if sentence not in self.sentences:
            self.sentences = [*self.sentences, sentence][-_SENTENCE_LIMIT:]

    def withdraw(self, sentence: str) -> None:
        """Remove a sentence that no longer holds, or that the user has read."""
        self.sentences = [each for each in self.sentences if each != sentence]

    def close(self) -> None:
        """End all work and remove all temporary files."""
        self._closing.close()


def file_content(folder: Path, name: str, write: Callable[[Path], object]) -> bytes:
    """Return what `write` writes to a temporary file of this name below `folder`."""
    with tempfile.TemporaryDirectory(dir=folder) as inner:
        path = Path(inner) / name
        write(path)
        return path.read_bytes()


def file_name(name: str) -> str:
    """Replace the characters of a name that a file system may refuse."""
    return "".join(c if c.isalnum() or c in "-_." else "_" for c in name).strip("._") or "scan"


def _quicken_vtk() -> None:
    """Switch off VTK's threads and its record of times: for many small pictures they cost more than they save."""
    vtk.vtkMultiThreader.SetGlobalMaximumNumberOfThreads(1)
    vtk.vtkTimerLog.LoggingOff()


def _log_vtk_errors() -> None:
    """Send VTK's errors to the log, and drop its warnings, such as those of missing screens."""
    window = vtk.vtkOutputWindow()
    window.SetDisplayModeToNever()
    window.AddObserver("ErrorEvent", _log_vtk_error)
    vtk.vtkOutputWindow.SetInstance(window)
    vtk.vtkLogger.SetStderrVerbosity(vtk.vtkLogger.VERBOSITY_OFF)


@vtk.calldata_type(vtk.VTK_STRING)
def _log_vtk_error(_caller, _event: str, text: str = "") -> None:
    logging.getLogger("vtk").error(" ".join(text.split()))
