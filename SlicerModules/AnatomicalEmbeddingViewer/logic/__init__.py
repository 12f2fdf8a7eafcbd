"""One feature of the viewer a file: `poll` continues its work, `publish` writes what the page shows into the state."""

import sys
from importlib.util import find_spec
from types import ModuleType

if "slicer.i18n" not in sys.modules and find_spec("slicer.i18n") is None:  # slicer-core has no translations
    _module = ModuleType("slicer.i18n")
    _module.tr = lambda text: text
    sys.modules["slicer.i18n"] = _module
