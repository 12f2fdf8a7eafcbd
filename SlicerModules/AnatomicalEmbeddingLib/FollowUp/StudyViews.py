"""Other studies in the views of those before."""

from __future__ import annotations

from collections.abc import Iterable

from ..Views import compositeOf, viewsOf


def showInstead(scene, exchanges: Iterable[tuple]) -> None:
    """(before, after): the views that show one volume show the other; what no view shows is in none afterwards."""
    found = [(view, after) for before, after in exchanges if before is not after for view in viewsOf(scene, before)]
    for view, after in found:  # looked up before: two volumes may change places
        compositeOf(scene, view).SetBackgroundVolumeID(after.GetID())
