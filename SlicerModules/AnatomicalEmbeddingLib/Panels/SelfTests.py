"""What the self-tests of the modules begin with."""

from __future__ import annotations

from collections.abc import Sequence
from unittest import TestCase


def startSelfTest(test: TestCase, scene, missing: Sequence[str]) -> None:
    """An empty scene; the test is skipped where packages are missing, as on computers that only build extensions."""
    scene.Clear()
    if missing:
        test.skipTest(f"{', '.join(missing)}: not installed; see the set-up of the modules.")
