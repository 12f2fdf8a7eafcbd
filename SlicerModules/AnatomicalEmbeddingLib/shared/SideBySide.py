"""Layouts that show scans next to each other: a row of views for each scan, or one axial view for each scan.

The bar of a slice view is at least 330 pixels wide. With three columns of views a narrow window would grow larger than
the screen. So a narrow window gets two columns: wide=False.
"""

import json
import math
from collections.abc import Callable, Iterator, Sequence
from html import escape

import vtk
from slicer.util import NodeModify

from .Views import FIRST_VIEW_GROUP, ORIENTATIONS, compositeOf, setRuler, sliceNodes
from .VolumeNodes import filmPlane

ROWS, AXIAL = 5201, 5202  # numbers of our layouts; the numbers of Slicer's layouts are below 1000
_ROWS = "AnatomicalEmbedding.Rows"  # attribute of the layout node: `rows` of `layoutOf`, as JSON
_BEFORE = "AnatomicalEmbedding.LayoutBefore"  # attribute of the layout node: number of the layout used before ours
_VIEW_PREFIX = "AE"


def layoutOf(
    rows: Sequence[Sequence[str]], number: int = ROWS, wide: bool = True, most: int = 1000
) -> str:
    """Return the layout description for volumes. A film has one view, in its own plane.

    Args:
        rows: for each volume its name, and the plane of a film or "".
        number: ROWS for a row of views of each volume, AXIAL for a grid with one axial view of each volume.
        wide: True for three columns of views, False for two.
        most: largest number of views.
    """
    lines = [
        [_view(n, *orientation) for orientation in _orientations(number, wide, plane)]
        for n, (_name, plane) in enumerate(rows)
    ]
    if number == AXIAL:
        columns = min(math.ceil(math.sqrt(len(rows))), 3 if wide else 2)
        views = [line[0] for line in lines]
        lines = [views[first : first + columns] for first in range(0, len(views), columns)]
    items = []
    for (name, _plane), line in zip(rows, lines, strict=False):  # a grid has fewer lines than rows
        part = "".join(line[:most])
        most = max(most - len(line), 0)
        if part:
            items.append(
                f'<item name="{escape(name)}"><layout type="horizontal">{part}</layout></item>'
            )
    return f'<layout type="vertical" split="true">{"".join(items)}</layout>'


def viewTag(row: int, orientation: str) -> str:
    """Return the tag of a view in our layouts, which is also its layout name. row: number of the scan, from 0."""
    return f"{_VIEW_PREFIX}{row + 1}{orientation}"


def _orientations(number: int, wide: bool, plane: str) -> Sequence[tuple[str, str]]:
    """Return (orientation, colour) of each view of a volume. plane: of a film; "" for a CT."""
    if plane:
        return [orientation for orientation in ORIENTATIONS if orientation[0] == plane]
    if number == AXIAL:
        return ORIENTATIONS[:1]
    return ORIENTATIONS if wide else ORIENTATIONS[::2]  # two columns: axial and coronal


def offerLayouts(
    scene,
    loaded: Callable[[Callable[[], None]], object] = lambda _again: None,
    isWide: Callable[[], bool] = lambda: True,
) -> None:
    """Register our layouts, each with views for two scans. Without these layouts, a loaded scene could lack views.

    When a scene is closed, the layout that was used before ours is restored. Otherwise all our views would show the
    next scan.

    Args:
        scene: the scene.
        loaded: called as loaded(again) after a scene was loaded and its views were created. A view loses its saved
            position when the window first shows this view; after that, `loaded` must call again() to restore it.
        isWide: returns True if the window has room for three columns of views.
    """
    layoutNode = scene.GetFirstNodeByClass("vtkMRMLLayoutNode")
    if layoutNode is None or layoutNode.IsLayoutDescription(ROWS):
        return
    for number in (ROWS, AXIAL):
        _describe(layoutNode, number, [("", ""), ("", "")])
    scene.AddObserver(scene.EndImportEvent, lambda *_: _restoreRows(scene, loaded, isWide()))
    scene.AddObserver(scene.StartCloseEvent, lambda *_: _restoreFormerLayout(scene))


def makeViews(scene, volumeNodes: Sequence, number: int = ROWS, wide: bool = True) -> Iterator[str]:
    """Create the views that a layout for volumes needs. Yields the tag of each new view after it was created.

    Slicer's layout would create all views at once. Each view takes about 0.2 s, in which Slicer handles no events.

    Args:
        scene: the scene.
        volumeNodes: the volumes.
        number: ROWS or AXIAL, the layout.
        wide: True for three columns of views, False for two.
    """
    if scene.GetFirstNodeByClass("vtkMRMLLayoutNode") is None:  # no main window
        return
    for row, volume in enumerate(volumeNodes):
        for orientation, colour in _orientations(number, wide, filmPlane(volume)):
            tag = viewTag(row, orientation)
            if scene.GetSingletonNode(tag, "vtkMRMLSliceNode") is None:
                # includes the scene's default orientations
                node = scene.CreateNodeByClass("vtkMRMLSliceNode")
                node.UnRegister(None)
                node.SetLayoutName(tag)
                node.SetName(tag)
                node.SetOrientation(orientation)
                node.SetLayoutLabel(_label(row, orientation))
                node.SetLayoutColor(*(value / 255 for value in bytes.fromhex(colour[1:])))
                scene.AddNode(node)
                yield tag


def showSideBySide(
    scene,
    volumeNodes: Sequence,
    number: int = ROWS,
    wide: bool = True,
    afterEach: Callable[[], object] | None = None,
) -> bool:
    """Show each volume in its own views, with ruler and orientation marker. Returns False without a main window.

    A new view gets its size only when events are processed. So process events before you fit the volumes to the views.

    Args:
        scene: the scene.
        volumeNodes: the volumes.
        number: ROWS or AXIAL, the layout.
        wide: True for three columns of views, False for two.
        afterEach: processes events; called after each view was put into the window (about 0.1 s per view), and after
            it shows its volume. None puts all views into the window at once.
    """
    layoutNode = scene.GetFirstNodeByClass("vtkMRMLLayoutNode")
    if layoutNode is None or not volumeNodes:
        return False
    rows = [(volume.GetName(), filmPlane(volume)) for volume in volumeNodes]
    views = sum(len(_orientations(number, wide, plane)) for _name, plane in rows)
    # numbers of views in the window, one after the other
    steps = [views] if afterEach is None else range(1, views + 1)
    for most in steps:
        with NodeModify(layoutNode):  # the window gets a new layout once, not at each change
            _describe(layoutNode, number, rows, wide, most)
            layoutNode.SetAttribute(_ROWS, json.dumps(rows))
            if layoutNode.GetViewArrangement() not in (ROWS, AXIAL):
                layoutNode.SetAttribute(_BEFORE, str(layoutNode.GetViewArrangement()))
            layoutNode.RemoveAllMaximizedViewNodes()  # a maximized view would stay maximized
            layoutNode.SetViewArrangement(number)
        if afterEach is not None:
            afterEach()
    for row, volume in enumerate(volumeNodes):
        for node in _viewsInRow(scene, row):
            _showIn(scene, node, row, volume)
            if afterEach is not None:
                afterEach()
    return True


def _viewsInRow(scene, row: int) -> list:
    """Return the slice nodes of our views of a scan. row: number of the scan, from 0."""
    tags = {viewTag(row, orientation) for orientation, _ in ORIENTATIONS}
    return [node for node in sliceNodes(scene) if node.GetLayoutName() in tags]


def _showIn(scene, sliceNode, row: int, volumeNode) -> None:
    """Show a volume in a view. row: number of the scan; the views of a row scroll together."""
    with NodeModify(sliceNode):
        sliceNode.SetViewGroup(FIRST_VIEW_GROUP + row)
        sliceNode.SetOrientationMarkerType(sliceNode.OrientationMarkerTypeHuman)
        sliceNode.SetOrientationMarkerSize(sliceNode.OrientationMarkerSizeSmall)
        setRuler(sliceNode, volumeNode)
        sliceNode.SetRulerColor(sliceNode.RulerColorYellow)  # white cannot be seen on bone
    composite = compositeOf(scene, sliceNode)
    if composite is not None:
        with NodeModify(composite):
            composite.SetLinkedControl(True)
            # otherwise a scan that is loaded later fills all views
            composite.SetDoPropagateVolumeSelection(False)
            composite.SetBackgroundVolumeID(volumeNode.GetID())
            composite.SetForegroundVolumeID(None)
            composite.SetLabelVolumeID(None)


def _view(row: int, orientation: str, colour: str) -> str:
    """Return the layout description of one view. row: number of the scan, from 0."""
    return (
        f'<item><view class="vtkMRMLSliceNode" singletontag="{viewTag(row, orientation)}">'
        f'<property name="orientation" action="default">{orientation}</property>'
        f'<property name="viewlabel" action="default">{_label(row, orientation)}</property>'
        f'<property name="viewcolor" action="default">{colour}</property>'
        f'<property name="viewgroup" action="default">{FIRST_VIEW_GROUP + row}</property></view></item>'
    )


def _label(row: int, orientation: str) -> str:
    """Return the short text in the bar of a view, such as "1A"."""
    return f"{row + 1}{orientation[0]}"


def _describe(
    layoutNode, number: int, rows: Sequence[Sequence[str]], wide: bool = True, most: int = 1000
) -> None:
    """Register the description of a layout, or replace it. The arguments are those of `layoutOf`."""
    isNew = not layoutNode.IsLayoutDescription(number)
    describe = layoutNode.AddLayoutDescription if isNew else layoutNode.SetLayoutDescription
    describe(number, layoutOf(rows, number, wide, most))


def _restoreFormerLayout(scene) -> None:
    """If one of our layouts is shown, show the layout that was used before it."""
    layoutNode = scene.GetFirstNodeByClass("vtkMRMLLayoutNode")
    if layoutNode is not None and layoutNode.GetViewArrangement() in (ROWS, AXIAL):
        before = layoutNode.GetAttribute(_BEFORE) or layoutNode.SlicerLayoutConventionalView
        layoutNode.SetViewArrangement(int(before))


def _restoreRows(scene, loaded: Callable[[Callable[[], None]], object], wide: bool) -> None:
    """Restore the layout and the view groups of a loaded scene, because MRML does not save them completely.

    Without view groups, all scans would scroll when the user scrolls in one scan. loaded: called with a function that
    moves the views to their saved positions.
    """
    layoutNode = scene.GetFirstNodeByClass("vtkMRMLLayoutNode")
    text = None if layoutNode is None else layoutNode.GetAttribute(_ROWS)
    if not text or layoutNode.GetViewArrangement() not in (ROWS, AXIAL):
        return
    rows = json.loads(text)
    _describe(layoutNode, layoutNode.GetViewArrangement(), rows, wide)
    places = []
    for row in range(len(rows)):
        for node in _viewsInRow(scene, row):
            node.SetViewGroup(FIRST_VIEW_GROUP + row)
            place = vtk.vtkMatrix4x4()
            place.DeepCopy(node.GetSliceToRAS())
            places.append((node, place))

    def showPlaces() -> None:
        for node, place in places:
            node.GetSliceToRAS().DeepCopy(place)
            node.UpdateMatrices()

    loaded(showPlaces)
