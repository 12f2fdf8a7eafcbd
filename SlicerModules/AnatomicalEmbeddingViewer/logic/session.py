"""What all features share: scene, views, maps, background work, sentences for the user, and what the page shows."""

from __future__ import annotations

import logging
import tempfile
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import slicer
import vtk
from trame_slicer.core import SlicerApp

from AnatomicalEmbeddingLib.shared.maps.Engine import Choice, Engine
from AnatomicalEmbeddingLib.shared.maps.MapStore import MapStore
from AnatomicalEmbeddingLib.shared.Signal import Signal

from .origins import Origin

_SENTENCES = 6


@dataclass(frozen=True)
class Limits:
    """upload_bytes: of all files of one upload, packed and unpacked. files: of one upload. voxel_bytes: of one scan, or
    of all DICOM images of an upload. slice_bytes: of one DICOM slice, 128 times what a usual one takes.
    """

    upload_bytes: int = 2 * 2**30
    files: int = 6000
    voxel_bytes: int = 4 * 2**30
    slice_bytes: int = 64 * 2**20


class ThreadedEngine(Engine):
    """The engine, leaving a core to the page while it embeds. threads: of torch; 0: as many as torch takes."""

    threads = 0

    def load(self):
        if self.threads:
            import torch

            torch.set_num_threads(self.threads)
        return super().load()


@dataclass(eq=False)
class Session:
    """One scene, shown to everyone who has the page open.

    scans_changed(): scans came, went, or another is the template. scan_leaves(node): it is about to go.
    """

    choice: Choice
    limits: Limits = field(default_factory=Limits)
    scans_changed: Signal = field(default_factory=Signal)
    scan_leaves: Signal = field(default_factory=Signal)

    def __post_init__(self) -> None:
        _quicken_vtk()
        self.app = SlicerApp()
        _log_vtk()
        self.scene = slicer.mrmlScene = self.app.scene  # slicer.util works on it
        self.store = MapStore(self.scene, ThreadedEngine(self.choice))
        self.scans: list = []  # volume nodes in the order of their rows
        self.template = None
        self.origins: dict[str, Origin] = {}  # by node ID
        self._folder = tempfile.TemporaryDirectory(prefix="anatemb-view-")
        self._sentences: deque[tuple[int, str]] = deque(maxlen=_SENTENCES)
        self._count = 0
        self._closers: list[Callable[[], object]] = []

    @property
    def folder(self) -> Path:
        """For files that the session makes or is sent; removed with all in it when the program ends."""
        return Path(self._folder.name)

    def scan(self, scan_id: object):
        """The volume node of an ID that the page sent, or None."""
        return next((node for node in self.scans if node.GetID() == scan_id), None)

    def say(self, sentence: str) -> None:
        """Something that the user should read."""
        if not self._sentences or self._sentences[-1][1] != sentence:
            self._count += 1
            self._sentences.append((self._count, sentence))

    def take_back(self, sentence: str) -> None:
        """It is no longer true, or about something else."""
        self._sentences = deque((s for s in self._sentences if s[1] != sentence), maxlen=_SENTENCES)

    def dismiss(self, number: object) -> None:
        """The user has read a sentence."""
        self._sentences = deque((s for s in self._sentences if s[0] != number), maxlen=_SENTENCES)

    @property
    def sentences(self) -> list[dict]:
        return [{"number": number, "text": text} for number, text in self._sentences]

    def at_end(self, close: Callable[[], object]) -> None:
        """To be called when the session closes, the last first."""
        self._closers.append(close)

    def close(self) -> None:
        """End all work and remove all files."""
        for close in reversed(self._closers):
            close()
        self._closers = []
        self.store.close()
        self._folder.cleanup()


def file_content(folder: Path, name: str, write: Callable[[Path], object]) -> bytes:
    """What is written to a file of this name in a folder of its own below `folder`; the file does not stay."""
    with tempfile.TemporaryDirectory(dir=folder) as inner:
        path = Path(inner) / name
        write(path)
        return path.read_bytes()


def file_name(name: str) -> str:
    """A name that every system takes for a file."""
    return "".join(c if c.isalnum() or c in "-_." else "_" for c in name).strip("._") or "scan"


def _quicken_vtk() -> None:
    """For many small pictures: starting threads costs more time than they save, and so does VTK's record of times."""
    vtk.vtkMultiThreader.SetGlobalMaximumNumberOfThreads(1)
    vtk.vtkTimerLog.LoggingOff()


def _log_vtk() -> None:
    """VTK's errors go to the log; its warnings, of screens that are not there and of deprecations, to no one."""
    window = vtk.vtkOutputWindow()
    window.SetDisplayModeToNever()
    window.AddObserver("ErrorEvent", _on_vtk_error)
    vtk.vtkOutputWindow.SetInstance(window)
    vtk.vtkLogger.SetStderrVerbosity(vtk.vtkLogger.VERBOSITY_OFF)


@vtk.calldata_type(vtk.VTK_STRING)
def _on_vtk_error(_caller, _event: str, text: str = "") -> None:
    logging.getLogger("vtk").error(" ".join(text.split()))
