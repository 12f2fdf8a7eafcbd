"""Starts and runs the self-tests of the modules."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from unittest import SkipTest, TestCase

_READING_MS = 4000


def startSelfTest(test: TestCase, scene, missing: Sequence[str]) -> None:
    """Empty the scene. Skip the test if packages are missing, as on the servers that build Slicer's extensions."""
    scene.Clear()
    if missing:
        test.skipTest(f"{', '.join(missing)}: not installed; see the set-up of the modules.")


def runSelfTests(test, *tests: Callable[[], None]) -> None:
    """Run tests like Slicer's button Reload and Test; `test.setUp` is called before each test.

    A skipped test shows its reason for a few seconds instead of Slicer's error dialog.
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
