# ruff: noqa: N801, N815 - the names are those of Slicer and Qt
"""The `ctk` module: doubles of the CTK widgets that our modules use."""

import sys
import types

from PySide6 import QtWidgets

from slicer_kit.ctk_collapsible import ctkCollapsibleButton, ctkCollapsibleGroupBox  # noqa: F401 - build() finds them all
from slicer_kit.ctk_inputs import ctkPathLineEdit, ctkSliderWidget  # noqa: F401
from slicer_kit.pythonqt import stored, wrapped
from slicer_kit.ui_loader import register


def build() -> types.ModuleType:
    """Make the module, register its classes for .ui files and put it into sys.modules as `ctk`."""
    module = types.ModuleType("ctk", __doc__)
    classes = [value for name, value in globals().items() if name.startswith("ctk")]
    register(*classes)
    for cls in classes:
        setattr(module, cls.__name__, cls)
    sys.modules["ctk"] = module
    return module


@wrapped
class ctkSearchBox(QtWidgets.QLineEdit):
    """A line edit with a magnifier."""

    showSearchIcon, setShowSearchIcon = stored("showSearchIcon", bool, False)
