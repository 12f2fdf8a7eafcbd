"""A command of the engine as a child process: started, followed and stopped from the main thread, without blocking it.

Slicer's modules call `poll` by a timer, tests by hand. The child and its own children are one process group, so that a
kill ends all of them. The child saves and stops by itself when this application ends in whatever way.
"""

from __future__ import annotations

import json
import os
import queue
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO

import AnatomicalEmbedding
from AnatomicalEmbedding.errors import AnatomicalEmbeddingError

from ..Signal import Signal

FINISHED, STOPPED, FAILED = "finished", "stopped", "failed"
_CHILD = Path(__file__).with_name("EngineChild.py")
_LINGER_SECONDS = 10.0  # that children of the command may take, once it has ended
_LINES_KEPT = 200  # of stderr, in which the reason of a failure is searched for
_IS_WINDOWS = sys.platform == "win32"
# the child is the head of a process group; on Windows (whose names for 0x200 and 0x8000000 exist there only) without a
# console window
_OWN_GROUP: Mapping[str, object] = (
    {"creationflags": 0x00000200 | 0x08000000} if _IS_WINDOWS else {"start_new_session": True}
)


class EngineProcess:
    """One command at a time. Signal logged(line): the command printed a line on stderr; `poll` emits it.

    A subclass calls `begin`, and may define `onValues`, `onLine` and `onEnded`.
    """

    graceSeconds = 300.0  # from `stop` to a kill: on a slow computer a step and a validation may have to end first

    def __init__(self, pythonCommand: Sequence[str], engineParent: str | Path | None = None) -> None:
        """pythonCommand: starts a Python that has the engine's packages. engineParent: the folder with the engine."""
        self.pythonCommand = list(pythonCommand)
        self.engineParent = engineParent or Path(AnatomicalEmbedding.__file__).resolve().parents[1]
        self._child: subprocess.Popen | None = None
        self._newSignals()

    @property
    def running(self) -> bool:
        """Is a command between `begin` and `onEnded`?"""
        return self._child is not None

    @property
    def stopping(self) -> bool:
        """Was the command asked to stop, and has not ended yet?"""
        return self.running and self._deadline is not None

    def begin(self, words: Sequence[str], folder: str | Path, environment: Mapping[str, str] | None = None) -> None:
        """Start a command, the words after `anatemb`, in an existing folder that can be written to.

        environment: further variables. Raises AnatomicalEmbeddingError when the process cannot be started, OSError for
        the folder.
        """
        self.requireReady()
        self._stopFile = Path(folder) / "stop"
        self._stopFile.unlink(missing_ok=True)  # of a command that was killed before it saw it
        self._errors: deque[str] = deque(maxlen=_LINES_KEPT)
        self._lines: queue.Queue[tuple[str, str | None]] = queue.Queue()
        self._open = 2
        self._deadline: float | None = None
        self._ended: float | None = None
        paths = [str(self.engineParent), os.environ.get("PYTHONPATH", "")]
        variables = {"PYTHONPATH": os.pathsep.join(filter(None, paths)), "PYTHONUTF8": "1", "PYTHONUNBUFFERED": "1"}
        try:
            self._child = subprocess.Popen(
                [*self.pythonCommand, str(_CHILD), str(self._stopFile), *words],
                stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                env={**os.environ, **variables, **(environment or {})}, cwd=folder, **_OWN_GROUP,
            )  # fmt: skip
        except OSError as error:
            raise AnatomicalEmbeddingError(
                f"{self.pythonCommand[0]}: cannot be started ({error.strerror}); repair the installation of Slicer."
            ) from None
        for kind, stream in (("out", self._child.stdout), ("error", self._child.stderr)):
            threading.Thread(target=_read, args=(stream, kind, self._lines), daemon=True).start()

    def requireReady(self) -> None:
        """Raise AnatomicalEmbeddingError while a command is running, and where there is no Python to run it."""
        if self.running:
            raise AnatomicalEmbeddingError("A run is under way; stop it before another is started.")
        if not self.pythonCommand:
            raise AnatomicalEmbeddingError("PythonSlicer was not found, and it is needed; install Slicer again.")

    def poll(self) -> None:
        """Read the lines printed since the last call, and notice the end; to be called a few times a second."""
        if not self.running:
            return
        for _ in range(self._lines.qsize()):
            self._deliver(*self._lines.get())
        now, child = time.monotonic(), self._child
        if child.poll() is not None:
            self._ended = self._ended or now
            if self._open == 0:
                stopped, self._child = self.stopping, None
                child.stdout.close()
                child.stderr.close()
                self._stopFile.unlink(missing_ok=True)
                self.onEnded(child.returncode, list(self._errors), stopped)
            elif now - self._ended > _LINGER_SECONDS:
                _kill(child)
        if self.stopping and now > self._deadline:
            _kill(child)

    def stop(self) -> None:
        """Ask the command to save and end; it is killed if it is still running after `graceSeconds`."""
        if not self.running or self.stopping:
            return
        self._deadline = time.monotonic() + self.graceSeconds
        try:
            self._stopFile.touch()
        except OSError:  # the folder was deleted, so that nothing can be saved
            self._deadline = time.monotonic()

    def kill(self) -> None:
        """End the command and all its children at once; its work since it last saved is lost."""
        if self.running:
            self._deadline = time.monotonic()
            _kill(self._child)

    def close(self, seconds: float = 5.0) -> None:
        """Ask the command to save and end as the application ends, and wait a little; a slower command ends later."""
        if not self.running:
            return
        self._newSignals()  # the listeners may be closing as well
        self.stop()
        end = time.monotonic() + seconds
        while self.running and time.monotonic() < end:
            self.poll()
            time.sleep(0.05)
        self._child = None

    def onValues(self, values: dict) -> None:
        """The command printed a line of JSON."""

    def onLine(self, line: str) -> None:
        """The command printed a line on stderr."""

    def onEnded(self, code: int, lines: list[str], stopped: bool) -> None:
        """The command has ended. code: exit code. lines: the last on stderr. stopped: it was asked to stop."""

    def _newSignals(self) -> None:
        self.logged = Signal()

    def _deliver(self, kind: str, line: str | None) -> None:
        if line is None:
            self._open -= 1
        elif kind == "out" and (values := _json(line)) is not None:
            self.onValues(values)
        else:
            self._errors.append(line)
            self.onLine(line)
            self.logged.emit(line)


def pythonCommand() -> list[str]:
    """The command that starts Slicer's own Python, with its packages; empty where it is not found."""
    found = shutil.which("PythonSlicer")
    return [found] if found else []


def _kill(child: subprocess.Popen) -> None:
    """End a child and everything in its group."""
    if _IS_WINDOWS:
        hidden = subprocess.CREATE_NO_WINDOW
        subprocess.run(["taskkill", "/F", "/T", "/PID", str(child.pid)], capture_output=True, creationflags=hidden)
        return
    # ProcessLookupError: all have ended; PermissionError: macOS, for ended ones that were not waited for
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(child.pid, signal.SIGKILL)


def _read(stream: IO[bytes], kind: str, lines: queue.Queue) -> None:
    for line in stream:
        lines.put((kind, line.decode("utf-8", "replace").rstrip()))
    lines.put((kind, None))


def _json(line: str) -> dict | None:
    with suppress(ValueError):
        if isinstance(values := json.loads(line), dict):
            return values
    return None


_REMEDIES = {  # by a pattern of the last message
    r"No module named '?torch\b": "Training needs PyTorch; press Install packages.",
    r"OutOfMemoryError|CUDA out of memory|MPS backend out of memory": (
        "The GPU's memory does not suffice; choose the device cpu, or close other programs that use the GPU."
    ),
    r"^MemoryError|Cannot allocate memory|DefaultCPUAllocator": (
        "This computer's memory does not suffice; close other programs, or train on fewer scans."
    ),
    r"No space left on device": "The disk of the run's folder is full; make room, then resume.",
}
_STATED = "anatemb: "  # begins a message to the user
_RAISED = re.compile(r"^(?:[A-Za-z_]\w*\.)*[A-Z]\w*(?:Error|Exception|Interrupt|Pool)\b(?:: .*)?$")
_KILLED = (-9, 137)
_KILLED_BELOW_LAUNCHER = "exit abnormally"  # printed by Slicer's launcher, which ends with code 1


def stopReason(code: int, lines: Sequence[str]) -> str:
    """The reason of a failure, a sentence. code: exit code. lines: printed on stderr, the latest last."""
    stated = next((line for line in reversed(lines) if line.startswith(_STATED)), "")
    raised = next((line for line in reversed(lines) if _RAISED.match(line)), "")
    reason = stated or raised
    for pattern, remedy in _REMEDIES.items():
        if re.search(pattern, reason, re.IGNORECASE):
            return remedy
    if stated:
        return stated.removeprefix(_STATED)
    if code in _KILLED or (lines and _KILLED_BELOW_LAUNCHER in lines[-1]):
        return "The system ended the run, most often for want of memory; close other programs, then resume."
    last = raised or next((line for line in reversed(lines) if line.strip()), f"no message, exit code {code}")
    return f"The engine ended unexpectedly ({last}); see the log."
