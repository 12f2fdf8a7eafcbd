"""Waits for work in the background."""

import time
from collections.abc import Callable


def poll_until(
    reached: Callable[[], bool],
    *polls: Callable[[], object],
    seconds: float = 60.0,
    problem: Callable[[], object] = lambda: "the work did not end",
) -> None:
    """Call `polls` again and again until `reached()` is true; fail with `problem()` after `seconds`."""
    end = time.monotonic() + seconds
    while not reached():
        assert time.monotonic() < end, problem()
        for poll in polls:
            poll()
        time.sleep(0.005)
