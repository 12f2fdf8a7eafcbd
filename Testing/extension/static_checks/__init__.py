"""Checks of the extension's sources that need no Slicer: what Slicer's loader and both Qt versions ask for.

A check takes sources and returns problems, a sentence each that begins with file and line; none means all is well.
"""

from .sources import Extension, Source

__all__ = ["Extension", "Source"]
