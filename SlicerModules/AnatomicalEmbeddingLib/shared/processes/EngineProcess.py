"""Runs a command of the engine as a child process. The main thread starts, polls and stops the child without waiting.

In Slicer's modules a timer calls `poll`. The child and its own children form one process group, so that one kill ends
all of them. If this application ends for any reason, the child saves its work and stops.
"""

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
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

import AnatomicalEmbedding
from AnatomicalEmbedding.errors import AnatomicalEmbeddingError

from ..Signal import Signal

FINISHED = "finished"
STOPPED = "stopped"
FAILED = "failed"
_CHILD = Path(__file__).with_name("EngineChild.py")
_LINGER_SECONDS = 10.0  # time for the command's own children to end after the command
_LINES_KEPT = 200  # number of lines of stderr that are searched for the reason of a failure
_IS_WINDOWS = sys.platform == "win32"
# the child gets its own process group; on Windows (CREATE_NEW_PROCESS_GROUP, CREATE_NO_WINDOW) also no console window
_OWN_GROUP: Mapping[str, object] = (
    {"creationflags": 0x00000200 | 0x08000000} if _IS_WINDOWS else {"start_new_session": True}
)


class EngineProcess:
    """Runs one command at a time. Signal logged(line): emitted by `poll` for each line of the command's stderr.

    A subclass calls `begin`, and may define `onValues`, `onLine` and `onEnded`.
    """

    graceSeconds = 300.0  # time from `stop` to a kill; a slow computer may first have to finish a training step

    def __init__(self, pythonCommand: Sequence[str]) -> None:
        """pythonCommand: the command that starts a Python with the engine's packages, as a list of words."""
        self.pythonCommand = list(pythonCommand)
        # the folder that contains the engine
        self.engineParent = Path(AnatomicalEmbedding.__file__).resolve().parents[1]
        self._child: subprocess.Popen | None = None
        self._newSignals()

    @property
    def running(self) -> bool:
        """True from `begin` until `onEnded` is called."""
        return self._child is not None

    @property
    def stopping(self) -> bool:
        """True if the command was asked to stop and has not ended yet."""
        return self.running and self._deadline is not None

    def begin(
        self, words: Sequence[str], folder: str | Path, environment: Mapping[str, str] | None = None
    ) -> None:
        """Start a command.

        Args:
            words: the command line after `anatemb`.
            folder: existing folder in which the command runs.
            environment: additional environment variables.

        Raises:
            AnatomicalEmbeddingError: the process cannot be started.
            OSError: the folder cannot be used.
        """
        self.requireReady()
        self._stopFile = Path(folder) / "stop"
        # left by a command that was killed before it read the file
        self._stopFile.unlink(missing_ok=True)
        self._errors: deque[str] = deque(maxlen=_LINES_KEPT)
        # ("out" or "error", line) of the streams that threads read; the line is None at the end of a stream
        self._lines: queue.Queue[tuple[str, str | None]] = queue.Queue()
        self._openStreams = 2
        self._deadline: float | None = None  # time of the kill, after `stop`
        self._ended: float | None = None  # time at which `poll` saw that the command has ended
        paths = [str(self.engineParent), os.environ.get("PYTHONPATH", "")]
        variables = {
            "PYTHONPATH": os.pathsep.join(filter(None, paths)),
            "PYTHONUTF8": "1",
            "PYTHONUNBUFFERED": "1",
        }
        try:
            self._child = subprocess.Popen(
                [*self.pythonCommand, str(_CHILD), str(self._stopFile), *words],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                env={**os.environ, **variables, **(environment or {})},
                cwd=folder,
                **_OWN_GROUP,
            )
        except OSError as error:
            raise AnatomicalEmbeddingError(
                f"{self.pythonCommand[0]}: cannot be started ({error.strerror}); repair the installation of Slicer."
            ) from None
        for kind, stream in (("out", self._child.stdout), ("error", self._child.stderr)):
            threading.Thread(target=_read, args=(stream, kind, self._lines), daemon=True).start()

    def requireReady(self) -> None:
        """Raise AnatomicalEmbeddingError if a command is running, or if no Python was found to run a command."""
        if self.running:
            raise AnatomicalEmbeddingError(
                "Another run is not finished; wait until it ends, or stop it."
            )
        if not self.pythonCommand:
            raise AnatomicalEmbeddingError(
                "The program PythonSlicer is missing in this Slicer; install Slicer again."
            )

    def poll(self) -> None:
        """Read the new lines of output, and check if the command has ended. Call `poll` a few times a second."""
        if not self.running:
            return
        for _ in range(self._lines.qsize()):
            self._deliver(*self._lines.get())
        now = time.monotonic()
        child = self._child
        if child.poll() is not None:
            self._ended = self._ended or now
            # the command's own children may still write to its streams
            if self._openStreams == 0:
                stopped = self.stopping
                self._child = None
                child.stdout.close()
                child.stderr.close()
                self._stopFile.unlink(missing_ok=True)
                self.onEnded(child.returncode, list(self._errors), stopped)
            elif now - self._ended > _LINGER_SECONDS:
                _kill(child)
        if self.stopping and now > self._deadline:
            _kill(child)

    def stop(self) -> None:
        """Ask the command to save and end. If the command still runs after `graceSeconds`, `poll` kills it."""
        if not self.running or self.stopping:
            return
        self._deadline = time.monotonic() + self.graceSeconds
        try:
            self._stopFile.touch()
        except OSError:  # the folder was deleted, and the command cannot save
            self._deadline = time.monotonic()

    def kill(self) -> None:
        """End the command and all its children at once. Work that the command has not saved is lost."""
        if self.running:
            self._deadline = time.monotonic()
            _kill(self._child)

    def close(self, seconds: float = 5.0) -> None:
        """Ask the command to save and end, because the application ends. Wait for the command at most `seconds`."""
        if not self.running:
            return
        self._newSignals()  # disconnects the listeners, which may already be closed
        self.stop()
        end = time.monotonic() + seconds
        while self.running and time.monotonic() < end:
            self.poll()
            time.sleep(0.05)
        self._child = None

    def onValues(self, values: dict) -> None:
        """Called when the command printed a line of JSON. values: the parsed line."""

    def onLine(self, line: str) -> None:
        """Called when the command printed a line on stderr."""

    def onEnded(self, code: int, lines: list[str], stopped: bool) -> None:
        """Called after the command ended.

        Args:
            code: exit code.
            lines: last lines of stderr.
            stopped: True after `stop`.
        """

    def _newSignals(self) -> None:
        self.logged = Signal()

    def _deliver(self, kind: str, line: str | None) -> None:
        """Handle a line of output, see `_lines`."""
        if line is None:
            self._openStreams -= 1
            return
        values = _json(line) if kind == "out" else None
        if values is not None:
            self.onValues(values)
            return
        self._errors.append(line)
        self.onLine(line)
        self.logged.emit(line)


@contextmanager
def folderErrors(folder: str | Path) -> Iterator[None]:
    """Turn an OSError inside the `with` block into an AnatomicalEmbeddingError that names the folder."""
    try:
        yield
    except OSError as error:
        reason = (error.strerror or "unknown reason").lower()
        raise AnatomicalEmbeddingError(
            f"{folder}: cannot be used ({reason}); choose another folder."
        ) from None


def pythonCommand() -> list[str]:
    """Return the command that starts Slicer's own Python, with Slicer's packages; [] if this Python is not found."""
    path = shutil.which("PythonSlicer")
    return [path] if path else []


def _kill(child: subprocess.Popen) -> None:
    """End a process and all its children at once."""
    if _IS_WINDOWS:
        words = ["taskkill", "/F", "/T", "/PID", str(child.pid)]
        subprocess.run(words, capture_output=True, creationflags=subprocess.CREATE_NO_WINDOW)
        return
    # ProcessLookupError: all processes have ended. PermissionError: macOS raises it for ended child processes
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(child.pid, signal.SIGKILL)


def _read(stream: IO[bytes], kind: str, lines: queue.Queue) -> None:
    """Put the lines of a stream into a queue until the stream ends, see `EngineProcess._lines`. Runs in a thread."""
    for line in stream:
        lines.put((kind, line.decode("utf-8", "replace").rstrip()))
    lines.put((kind, None))


def _json(line: str) -> dict | None:
    """Return a line of JSON as dict; None if it is something else."""
    try:
        values = json.loads(line)
    except ValueError:
        return None
    return values if isinstance(values, dict) else None


_REMEDIES = {  # message for the user, by a pattern in the reason of the failure
    r"No module named '?torch\b": "Training needs PyTorch; press Install packages.",
    r"OutOfMemoryError|CUDA out of memory|MPS backend out of memory": (
        "The GPU has too little free memory; choose the device cpu, or close other programs that use the GPU."
    ),
    r"^MemoryError|Cannot allocate memory|DefaultCPUAllocator": (
        "This computer has too little free memory; close other programs, or train on fewer scans."
    ),
    r"No space left on device": "The disk with the folder of the run is full; make room, then resume.",
}
_STATED = "anatemb: "  # beginning of the command's messages to the user
_NO_REASON = r"anatemb: (\d+ % |skipped: )"  # progress, and scans that were skipped
# the last line of a traceback: the name of an exception, mostly with its message
_RAISED = re.compile(r"^(?:[A-Za-z_]\w*\.)*[A-Z]\w*(?:Error|Exception|Interrupt|Pool)\b(?:: .*)?$")
_KILLED = (-9, 137)  # signal 9, as Python and as a shell state it
_KILLED_BELOW_LAUNCHER = "exit abnormally"  # printed by Slicer's launcher, which ends with code 1


def stopReason(code: int, lines: Sequence[str]) -> str:
    """Return a sentence with the reason of a failure. code: exit code. lines: lines of stderr, the latest last."""
    # the latest message to the user, the latest exception, and the latest line
    stated = ""
    raised = ""
    last = f"no message, exit code {code}"
    for line in lines:
        if line.startswith(_STATED) and not re.match(_NO_REASON, line):
            stated = line
        if _RAISED.match(line):
            raised = line
        if line.strip():
            last = line
    for pattern, remedy in _REMEDIES.items():
        if re.search(pattern, stated or raised, re.IGNORECASE):
            return remedy
    if stated:
        return stated.removeprefix(_STATED)
    if code in _KILLED or (lines and _KILLED_BELOW_LAUNCHER in lines[-1]):
        return "The system ended the run, probably because memory was short; close other programs, then resume."
    return f"The engine ended unexpectedly ({raised or last}); see the log, then try again."
