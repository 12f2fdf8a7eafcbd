"""Runs a command of the engine in a child process. The command saves its work and ends if a stop file appears, or if
Slicer has ended.

`python EngineChild.py STOP_FILE train ...` runs `python -m AnatomicalEmbedding train ...`. The command gets SIGTERM if
STOP_FILE exists, or if the application that reads the command's output has ended. The parent process cannot use signals
or standard input for this: Slicer's launcher passes neither to Python, and Windows has no such signal.
"""

import os
import signal
import sys
import threading
import time
import traceback
from pathlib import Path

_INTERVAL_SECONDS = 0.2  # between two looks for the stop file; by hand


class _Output:
    """Writes to a stream. If the program that reads the stream has ended, this program is stopped as by SIGTERM."""

    def __init__(self, stream) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        return self._tried(self._stream.write, text)

    def flush(self) -> None:
        self._tried(self._stream.flush)

    def __getattr__(self, name: str):
        return getattr(self._stream, name)

    def _tried(self, action, *values):
        """Call a function that writes. If Slicer, which reads the output, has ended: stop, and write nowhere."""
        try:
            return action(*values)
        except OSError:
            nothing = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nothing, self._stream.fileno())
            os.close(nothing)
            _stop()
            return action(*values)


def main() -> int:
    """Run the command until it ends, or until the stop file appears. Returns the exit code."""
    stopFile = Path(sys.argv.pop(1))
    sys.stdout = _Output(sys.stdout)
    sys.stderr = _Output(sys.stderr)
    threading.Thread(target=_watch, args=(stopFile,), daemon=True).start()
    try:
        from AnatomicalEmbedding.cli.main import main as run

        return run()
    except Exception:
        # caught here to release the failed training loop: an uncaught exception would keep the loop's worker
        # processes alive. They ignore the signal that should end them, and Python would wait for them forever
        traceback.print_exc()
        return 1


def _watch(stopFile: Path) -> None:
    while not stopFile.exists():
        time.sleep(_INTERVAL_SECONDS)
    stopFile.unlink(missing_ok=True)
    _stop()


def _stop() -> None:
    if hasattr(signal, "pthread_kill"):  # interrupts the main thread also while it waits
        signal.pthread_kill(threading.main_thread().ident, signal.SIGTERM)
    else:
        signal.raise_signal(signal.SIGTERM)


if __name__ == "__main__":
    sys.exit(main())
