"""The features of the viewer. Each file contains one feature. The method `poll` of a feature continues its work. The
method `publish` copies the values that the page shows into trame's state.
"""

import sys
from importlib.util import find_spec
from types import ModuleType

# slicer-core has no slicer.i18n
if "slicer.i18n" not in sys.modules and find_spec("slicer.i18n") is None:
    _module = ModuleType("slicer.i18n")
    _module.tr = lambda text: text
    sys.modules["slicer.i18n"] = _module
