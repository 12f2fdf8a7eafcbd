"""What the self-tests of the modules begin with."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from unittest import SkipTest, TestCase

_READING_MS = 4000


def startSelfTest(test: TestCase, scene, missing: Sequence[str]) -> None:
    """An empty scene; the test is skipped where packages are missing, as on computers that only build extensions."""
    scene.Clear()
    if missing:
        test.skipTest(f"{', '.join(missing)}: not installed; see the set-up of the modules.")


def runSelfTests(test, *tests: Callable[[], None]) -> None:
    """What Reload and Test does: each test after `test.setUp`. A test that is skipped says why, as an error box would
    be the wrong answer.
    """
    for each in tests:
        try:
            test.setUp()
            each()
        except SkipTest as why:
            test.messageDelay = _READING_MS  # the user's own setting is shorter, and below 400 nothing is shown
            test.delayDisplay(str(why))
            return
        finally:
            test.doCleanups()
