"""Checks of the extension's sources without 3D Slicer: the rules of Slicer's module loader and of both Qt versions.

Each check reads sources and returns a list of problems: sentences that begin with file and line. If the list is empty,
the check has passed.
"""

from .sources import Extension, Source

__all__ = ["Extension", "Source"]
