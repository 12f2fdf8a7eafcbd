"""Wait inside 3D Slicer until a condition is true or the time is over. Events and threads continue meanwhile."""

import inspect
import time
from collections.abc import Callable

import slicer

_STEP_SECONDS = 0.01


def wait(condition: Callable[[], object], seconds: float = 30.0, what: str = "") -> None:
    """Until condition() is true. AssertionError after `seconds`, which names `what`, or the condition's source."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, (
            f"not so within {seconds:g} s: {what or inspect.getsource(condition).strip()}"
        )
        _step()


def pause(seconds: float = 0.2) -> None:
    """Let events and timers run for a while."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        _step()


def _step() -> None:
    slicer.app.processEvents()
    time.sleep(_STEP_SECONDS)  # gives Python's lock to the threads that embed scans
