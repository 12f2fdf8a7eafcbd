"""Layouts that show scans next to each other: a row of views for each, or one axial view each.

The bar of a slice view is at least 330 pixels wide. A window that has no room for three of them beside the panel would
grow past the screen, so it gets two columns: wide=False.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Sequence
from html import escape

import vtk
from slicer.util import NodeModify

from .Views import FIRST_VIEW_GROUP, ORIENTATIONS, compositeOf, sliceNodes

ROWS, AXIAL = 5201, 5202  # numbers of our layout descriptions; Slicer's own stay below 1000
_NAMES = "AnatomicalEmbedding.Rows"  # of the layout node, saved with it: the scans that are shown
_BEFORE = "AnatomicalEmbedding.LayoutBefore"  # of the layout node: the layout that ours has replaced
_VIEW_PREFIX = "AE"


def layoutOf(names: Sequence[str], number: int = ROWS, wide: bool = True) -> str:
    """Layout description for volumes of these names: ROWS, or one AXIAL view each in as many rows as columns."""
    if number == ROWS:
        orientations = ORIENTATIONS if wide else ORIENTATIONS[::2]
        rows = [[_view(row, *each) for each in orientations] for row in range(len(names))]
    else:
        columns = min(math.ceil(math.sqrt(len(names))), 3 if wide else 2)
        views = [_view(row, *ORIENTATIONS[0]) for row in range(len(names))]
        rows = [views[first : first + columns] for first in range(0, len(views), columns)]
    items = [
        f'<item name="{escape(name)}"><layout type="horizontal">{"".join(row)}</layout></item>'
        for name, row in zip(names, rows, strict=False)
    ]
    return f'<layout type="vertical" split="true">{"".join(items)}</layout>'


def viewTag(row: int, orientation: str) -> str:
    """Singleton tag, and layout name, of a view of our layouts."""
    return f"{_VIEW_PREFIX}{row + 1}{orientation}"


def offerLayouts(
    scene,
    loaded: Callable[[Callable[[], None]], object] = lambda _again: None,
    isWide: Callable[[], bool] = lambda: True,
) -> None:
    """Register our layouts, for two scans, before they are used: a scene saved in one would open without views.

    A loaded scene of more scans gets their views after the import, and loaded(again) is called: again() moves the views
    back to their places, which new views lose when the window shows them. When the scene is closed, the former layout
    comes back, for our views would all show the next scan.
    """
    layoutNode = scene.GetFirstNodeByClass("vtkMRMLLayoutNode")
    if layoutNode is None or layoutNode.IsLayoutDescription(ROWS):
        return
    for number in (ROWS, AXIAL):
        _describe(layoutNode, number, ["", ""])
    scene.AddObserver(scene.EndImportEvent, lambda *_: _restoreRows(scene, loaded, isWide()))
    scene.AddObserver(scene.StartCloseEvent, lambda *_: _restoreFormerLayout(scene))


def showSideBySide(scene, volumeNodes: Sequence, number: int = ROWS, wide: bool = True) -> bool:
    """Show each volume in views of its own, with ruler and orientation marker; False where the scene has no layout (no
    main window). New views get their place in the window, and their offset, only when events are processed: fit the
    volumes after that.
    """
    layoutNode = scene.GetFirstNodeByClass("vtkMRMLLayoutNode")
    if layoutNode is None or not volumeNodes:
        return False
    names = [volume.GetName() for volume in volumeNodes]
    with NodeModify(layoutNode):  # the window is laid out once
        _describe(layoutNode, number, names, wide)
        layoutNode.SetAttribute(_NAMES, json.dumps(names))
        if layoutNode.GetViewArrangement() not in (ROWS, AXIAL):
            layoutNode.SetAttribute(_BEFORE, str(layoutNode.GetViewArrangement()))
        layoutNode.RemoveAllMaximizedViewNodes()  # a view that fills the window would stay as it is
        layoutNode.SetViewArrangement(number)
    for row, volume in enumerate(volumeNodes):
        for node in _viewsInRow(scene, row):
            _showIn(scene, node, row, volume)
    return True


def _viewsInRow(scene, row: int) -> list:
    tags = {viewTag(row, orientation) for orientation, _ in ORIENTATIONS}
    return [node for node in sliceNodes(scene) if node.GetLayoutName() in tags]


def _showIn(scene, sliceNode, row: int, volumeNode) -> None:
    with NodeModify(sliceNode):
        sliceNode.SetViewGroup(FIRST_VIEW_GROUP + row)
        sliceNode.SetOrientationMarkerType(sliceNode.OrientationMarkerTypeHuman)
        sliceNode.SetOrientationMarkerSize(sliceNode.OrientationMarkerSizeSmall)
        sliceNode.SetRulerType(sliceNode.RulerTypeThin)
    composite = compositeOf(scene, sliceNode)
    if composite is not None:
        with NodeModify(composite):
            composite.SetLinkedControl(True)
            composite.SetBackgroundVolumeID(volumeNode.GetID())
            composite.SetForegroundVolumeID(None)
            composite.SetLabelVolumeID(None)


def _view(row: int, orientation: str, colour: str) -> str:
    return (
        f'<item><view class="vtkMRMLSliceNode" singletontag="{viewTag(row, orientation)}">'
        f'<property name="orientation" action="default">{orientation}</property>'
        f'<property name="viewlabel" action="default">{row + 1}{orientation[0]}</property>'
        f'<property name="viewcolor" action="default">{colour}</property>'
        f'<property name="viewgroup" action="default">{FIRST_VIEW_GROUP + row}</property></view></item>'
    )


def _describe(layoutNode, number: int, names: Sequence[str], wide: bool = True) -> None:
    describe = (
        layoutNode.SetLayoutDescription if layoutNode.IsLayoutDescription(number) else layoutNode.AddLayoutDescription
    )
    describe(number, layoutOf(names, number, wide))


def _restoreFormerLayout(scene) -> None:
    layoutNode = scene.GetFirstNodeByClass("vtkMRMLLayoutNode")
    if layoutNode is not None and layoutNode.GetViewArrangement() in (ROWS, AXIAL):
        before = layoutNode.GetAttribute(_BEFORE)
        layoutNode.SetViewArrangement(int(before) if before else layoutNode.SlicerLayoutConventionalView)


def _restoreRows(scene, loaded: Callable[[Callable[[], None]], object], wide: bool) -> None:
    """Restore the layout of a loaded scene, which MRML does not save, and the groups of its views, which MRML saves as
    yes or no: in one group, scrolling one scan would scroll all of them.
    """
    layoutNode = scene.GetFirstNodeByClass("vtkMRMLLayoutNode")
    names = None if layoutNode is None else layoutNode.GetAttribute(_NAMES)
    if names and layoutNode.GetViewArrangement() in (ROWS, AXIAL):
        _describe(layoutNode, layoutNode.GetViewArrangement(), json.loads(names), wide)
        places = []
        for row in range(len(json.loads(names))):
            for node in _viewsInRow(scene, row):
                node.SetViewGroup(FIRST_VIEW_GROUP + row)
                places.append((node, vtk.vtkMatrix4x4()))
                places[-1][1].DeepCopy(node.GetSliceToRAS())
        loaded(lambda: _showPlaces(places))


def _showPlaces(places: Sequence[tuple]) -> None:
    for node, sliceToRas in places:
        node.GetSliceToRAS().DeepCopy(sliceToRas)
        node.UpdateMatrices()
