"""Fields that hold the path of a file or folder."""

from __future__ import annotations

from collections.abc import Callable

import slicer.util


def connectPath(edit, slot: Callable[[str], None]) -> None:
    """Call slot(path) whenever the text of a ctkPathLineEdit changes.

    Its own signal currentPathChanged tells neither of an emptied field nor of a text that its filters refuse.
    """
    for line in slicer.util.findChildren(edit, className="QLineEdit"):
        line.connect("textChanged(QString)", slot)
