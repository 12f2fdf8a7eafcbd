"""Texts as they are written: slicer-core has no translations, and what is shared with the modules asks for them."""

from __future__ import annotations

import sys
from importlib.util import find_spec
from types import ModuleType


def offer() -> None:
    """Make `from slicer.i18n import tr` work where there is no application."""
    if "slicer.i18n" not in sys.modules and find_spec("slicer.i18n") is None:
        module = ModuleType("slicer.i18n")
        module.tr = lambda text: text
        sys.modules["slicer.i18n"] = module
