"""How the self-tests of the modules start and run."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from unittest import SkipTest, TestCase

_READING_MS = 4000


def startSelfTest(test: TestCase, scene, missing: Sequence[str]) -> None:
    """Empty the scene; skip the test where packages are missing, as on computers that only build extensions."""
    scene.Clear()
    if missing:
        test.skipTest(f"{', '.join(missing)}: not installed; see the set-up of the modules.")


def runSelfTests(test, *tests: Callable[[], None]) -> None:
    """Run tests as Reload and Test does, each after `test.setUp`. A skipped test shows its reason for a while, where
    Slicer would open an error box.
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
