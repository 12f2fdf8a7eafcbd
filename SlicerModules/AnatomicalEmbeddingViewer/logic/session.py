"""The session, which all features share: the scene, the maps of scans, messages to the user, and the final cleanup."""

from __future__ import annotations

import logging
import os
import tempfile
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

import slicer
import vtk
from trame_slicer.core import SlicerApp

from AnatomicalEmbeddingLib.shared.maps.Engine import Choice, Engine
from AnatomicalEmbeddingLib.shared.maps.MapStore import MapStore
from AnatomicalEmbeddingLib.shared.maps.SceneRelations import SceneRelations
from AnatomicalEmbeddingLib.shared.Signal import Signal

if TYPE_CHECKING:
    from AnatomicalEmbedding.scan.volume import Volume

_SENTENCE_LIMIT = 6  # a size on the screen


class ThreadedEngine(Engine):
    """An engine that leaves one CPU core free, so that the page answers while a scan is embedded."""

    def load(self, film: bool = False):
        import torch

        torch.set_num_threads(max(1, (os.cpu_count() or 2) - 1))
        return super().load(film)


class Session:
    """One scene. All browsers that open the page show the same scene.

    Attributes:
        scans: volume nodes of the scans, in the order in which the page shows the scans.
        template: the volume node in which points are placed, or None.
        check: checks a scan that is read, see `Volume.read`; None if the weights are the usual ones, for CTs.
        folder: path for temporary files; deleted with its content when the session closes.
        sentences: the messages that the page shows to the user.
        on_close: registers a function to call when the session closes; the last registered function is called first.
        scans_changed: signal, emitted after a scan was added, removed or renamed, or became the template.
        scan_leaves: signal, emitted with a volume node just before the scan is removed.
    """

    def __init__(self, choice: Choice) -> None:
        _quicken_vtk()
        self.app = SlicerApp()
        _log_vtk_errors()
        self.scene = slicer.mrmlScene = self.app.scene  # slicer.util uses slicer.mrmlScene
        self.store = MapStore(self.scene, ThreadedEngine(choice))
        self.check = self._checked if Path(choice.weights).is_file() else None
        self.relations = SceneRelations(self.scene, self.store)
        self.scans_changed = Signal()
        self.scan_leaves = Signal()
        self.scans: list = []
        self.template = None
        self.sentences: list[str] = []
        self._closing = ExitStack()
        self.on_close = self._closing.callback
        self.folder = Path(
            self._closing.enter_context(tempfile.TemporaryDirectory(prefix="anatemb-view-"))
        )
        self.on_close(self.store.close)
        self.on_close(self.relations.close)

    def _checked(self, volume: Volume) -> Volume:
        from AnatomicalEmbedding.scan.volume import Film

        return self.store.engine.load(isinstance(volume, Film)).check_scan(volume)

    def scan(self, scan_id: object):
        """Return the volume node with an ID that the page has sent; None if no scan has this ID."""
        return next((node for node in self.scans if node.GetID() == scan_id), None)

    def report(self, sentence: str) -> None:
        """Show a message until the user dismisses it. Only the latest `_SENTENCE_LIMIT` messages are kept."""
        if sentence not in self.sentences:
            self.sentences = [*self.sentences, sentence][-_SENTENCE_LIMIT:]

    def withdraw(self, sentence: str) -> None:
        """Remove a message that is no longer true, or that the user has dismissed."""
        self.sentences = [line for line in self.sentences if line != sentence]

    def close(self) -> None:
        """End all work and remove all temporary files."""
        self._closing.close()


def file_content(folder: Path, name: str, write: Callable[[Path], object]) -> bytes:
    """Return the content of a file that a function writes.

    Args:
        folder: folder of the temporary file.
        name: name of the temporary file.
        write: called with the path of the temporary file.
    """
    with tempfile.TemporaryDirectory(dir=folder) as inner:
        path = Path(inner) / name
        write(path)
        return path.read_bytes()


def file_name(name: str) -> str:
    """Return a name in which all characters that a file system may refuse are replaced by "_"."""
    return "".join(c if c.isalnum() or c in "-_." else "_" for c in name).strip("._") or "scan"


def _quicken_vtk() -> None:
    # threads and timer log make the drawing of many small pictures slower
    vtk.vtkMultiThreader.SetGlobalMaximumNumberOfThreads(1)
    vtk.vtkTimerLog.LoggingOff()


def _log_vtk_errors() -> None:
    """Send VTK's errors to Python's log. VTK's warnings, such as a missing screen, are discarded."""
    window = vtk.vtkOutputWindow()
    window.SetDisplayModeToNever()
    window.AddObserver("ErrorEvent", _log_vtk_error)
    vtk.vtkOutputWindow.SetInstance(window)
    vtk.vtkLogger.SetStderrVerbosity(vtk.vtkLogger.VERBOSITY_OFF)


@vtk.calldata_type(vtk.VTK_STRING)
def _log_vtk_error(_caller, _event: str, text: str = "") -> None:
    logging.getLogger("vtk").error(" ".join(text.split()))
