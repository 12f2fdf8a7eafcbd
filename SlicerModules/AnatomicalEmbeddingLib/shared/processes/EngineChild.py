"""Runs in a child process: a command of the engine that saves and ends when a file appears or its parent has ended.

`python EngineChild.py STOP_FILE train ...` is `python -m AnatomicalEmbedding train ...` that stops, as by a signal,
once STOP_FILE exists, or once the application that reads its output has ended. Signals and standard input would not
work: the launcher between Slicer and its Python passes on neither, and Windows has no signal to send.
"""

import os
import signal
import sys
import threading
import time
import traceback
from pathlib import Path

_INTERVAL_SECONDS = 0.2


class _Output:
    """A stream whose broken pipe asks the command to stop; otherwise it would end before it has saved."""

    def __init__(self, stream) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        return self._tried(self._stream.write, text)

    def flush(self) -> None:
        self._tried(self._stream.flush)

    def __getattr__(self, name: str):
        return getattr(self._stream, name)

    def _tried(self, action, *values):
        try:
            return action(*values)
        except OSError:
            nothing = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nothing, self._stream.fileno())
            os.close(nothing)
            _stop()
            return action(*values)


def main() -> int:
    stopFile = Path(sys.argv.pop(1))
    sys.stdout, sys.stderr = _Output(sys.stdout), _Output(sys.stderr)
    threading.Thread(target=_watch, args=(stopFile,), daemon=True).start()
    try:
        from AnatomicalEmbedding.cli.main import main as run

        return run()
    except Exception:
        # caught here so that the loop that raised it is released: an error that ends Python itself keeps the loop's
        # worker processes, and Python waits for them for ever, as they ignore the signal that should end them
        traceback.print_exc()
        return 1


def _watch(stopFile: Path) -> None:
    while not stopFile.exists():
        time.sleep(_INTERVAL_SECONDS)
    stopFile.unlink(missing_ok=True)
    _stop()


def _stop() -> None:
    if hasattr(signal, "pthread_kill"):  # wakes the main thread where it waits for scans that are being prepared
        signal.pthread_kill(threading.main_thread().ident, signal.SIGTERM)
    else:
        signal.raise_signal(signal.SIGTERM)


if __name__ == "__main__":
    sys.exit(main())
