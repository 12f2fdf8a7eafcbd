"""The function `tr` of Slicer's modules, which slicer-core lacks: it returns each text as it is."""

from __future__ import annotations

import sys
from importlib.util import find_spec
from types import ModuleType


def install() -> None:
    """Make `from slicer.i18n import tr` work without Slicer's application."""
    if "slicer.i18n" not in sys.modules and find_spec("slicer.i18n") is None:
        module = ModuleType("slicer.i18n")
        module.tr = lambda text: text
        sys.modules["slicer.i18n"] = module
