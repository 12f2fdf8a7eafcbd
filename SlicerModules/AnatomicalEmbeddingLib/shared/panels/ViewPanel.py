"""Buttons that set the CT window and the layout; functions that write texts in the main window's slice views."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from textwrap import fill

import qt
import slicer
import slicer.util
import vtk
from slicer.i18n import tr as _

from ... import moduleResource
from .. import SideBySide, Views
from ..CtWindow import PRESETS, CtWindows, setWindow
from ..LevelTexts import levelText
from ..maps.MapStore import MapStore
from ..Signal import Signal
from ..VolumeNodes import filmPlane, fromWorld, holds

# largest number of scans; with more, views are too small
_MOST = {SideBySide.ROWS: 6, SideBySide.AXIAL: 9}

_ABOVE_RULER = "\n "  # an empty line: Slicer draws the ruler at the bottom of the view

_LETTER = 9  # average width of a letter in a view, pixels
_FEW = 3  # in a narrow window, more scans get one view each
_WIDE = 1500  # smallest width in pixels of a main window for three columns of views


class ViewPanel:
    """A row of buttons that set the CT window of the scans and show the scans side by side.

    Signal laidOut(sentence): emitted when scans are shown side by side. sentence: a remark for the user, or "".

    parentLayout: the layout that gets the buttons. store: maps of the scans. volumes(): returns the scans in the order
    of the layout. placeOf(volume): returns the point, world mm, at which a scan that no view shows yet will be shown;
    None for its middle.
    """

    def __init__(
        self,
        parentLayout,
        store: MapStore,
        volumes: Callable[[], Sequence],
        placeOf: Callable = lambda _node: None,
    ) -> None:
        self.scene = store.scene
        self._store = store
        self._volumes = volumes
        self._placeOf = placeOf
        self.laidOut = Signal()
        self._windows = CtWindows(store)
        # IDs of the views and scans whose marker was removed
        self._unmarked: set[tuple[str, str]] = set()
        self.widget = slicer.util.loadUI(str(moduleResource("UI/AnatomicalEmbeddingWindows.ui")))
        parentLayout.addWidget(self.widget)
        ui = slicer.util.childWidgetVariables(self.widget)
        for name, preset in PRESETS.items():
            button = getattr(ui, f"window{name.replace(' ', '')}Button")
            button.connect(
                "clicked(bool)", lambda _on, preset=preset: setWindow(self._volumes(), *preset)
            )

    def update(self) -> None:
        volumes = self._volumes()
        # windows in HU mean nothing in scans of other kinds
        self.widget.enabled = bool(volumes) and not any(map(self._store.isOwnKind, volumes))

    def poll(self) -> None:
        """Set new scans to the soft tissue window; keep one window per patient. Call `poll` a few times a second."""
        volumes = self._volumes()
        self._windows.poll(volumes)
        for node in filter(self._store.isOwnKind, volumes):
            for view in Views.viewsOf(self.scene, node):
                # the axes of such a scan are those of no patient; the user may switch the marker on
                if (view.GetID(), node.GetID()) not in self._unmarked:
                    self._unmarked.add((view.GetID(), node.GetID()))
                    view.SetOrientationMarkerType(view.OrientationMarkerTypeNone)

    def layOutWith(self, node) -> bool:
        """Show this scan and the visible scans side by side. Does nothing and returns False if no scan is visible."""
        volumes = list(_viewsByVolume(self.scene))
        if volumes:
            self._layOut([*volumes, node], SideBySide.ROWS)
        return bool(volumes)

    def layOut(self, number: int) -> None:
        """Show the scans side by side, each completely. number: ROWS, or AXIAL for one axial view of each scan.

        A scan that was visible before stays at its place, if the scan contains this place. The views are created one by
        one, and Slicer handles events after each view.
        """
        self._layOut(list(self._volumes()), number)

    def _layOut(self, volumes: list, number: int) -> None:
        wide = _isWindowWide()
        sentences = []
        if number == SideBySide.ROWS and len(volumes) > _FEW and not wide:
            number = SideBySide.AXIAL
            sentences.append(_("Each scan has one view, because the window is narrow."))
        elif all(map(filmPlane, volumes)):
            number = SideBySide.AXIAL
        nodes = volumes[: _MOST[number]]
        views = _viewsByVolume(self.scene)
        places = [
            Views.pointInSlices(views[node]) if node in views else self._placeOf(node)
            for node in nodes
        ]
        viewCount = 0
        for _view in SideBySide.makeViews(self.scene, nodes, number, wide):
            viewCount += 1
            _processEvents()
        with _drawingAtTheEnd():
            self._unmarked.clear()  # the layout shows all markers
            laidOut = SideBySide.showSideBySide(
                self.scene, nodes, number, wide, _processEvents if viewCount else None
            )
            _processEvents()  # sets the size of new views, and their offset to 0
            for node, place in zip(nodes, places, strict=True):
                Views.fit(self.scene, node, self._store.map(node))
                if place is not None and holds(node, fromWorld(node, [place]))[0]:
                    Views.jump(self.scene, node, place, centre=False)
                _processEvents()
        hidden = len(volumes) - len(nodes)
        if hidden:
            text = _("Only the first {count} scans are shown; {left} more do not fit.")
            sentences.append(text.format(count=len(nodes), left=hidden))
        self.laidOut.emit(" ".join(sentences) if laidOut else _("This window has no slice views."))


def offerLayouts() -> None:
    """Register our layouts. Slicer calls this function when it has started."""
    SideBySide.offerLayouts(slicer.mrmlScene, _drawSliceViewsSoon, _isWindowWide)


@contextmanager
def _drawingAtTheEnd() -> Iterator[None]:
    """Keep all slice views from drawing in a `with` block. At the end of the block, each view draws once."""
    manager = slicer.app.layoutManager()
    names = manager.sliceViewNames() if manager is not None else []
    views = [manager.sliceWidget(name).sliceView() for name in names]
    for view in views:
        view.pauseRender()
    try:
        yield
    finally:
        for view in views:
            view.forceRender()  # before `resumeRender`, which would repeat all renderings requested in the block
            view.resumeRender()
            _processEvents()


def _isWindowWide() -> bool:
    manager = slicer.app.layoutManager()
    return manager is None or manager.viewport().window().width >= _WIDE


def _processEvents() -> None:
    slicer.app.processEvents(qt.QEventLoop.ExcludeUserInputEvents)


def _viewsByVolume(scene) -> dict[object, list]:
    """Return the slice nodes of each volume that a visible view shows.

    The visible views come again after all views of the volume, because `Views.pointInSlices` reads the last ones.
    """
    manager = slicer.app.layoutManager()
    if manager is None:
        return {}
    views = {}
    for name in manager.sliceViewNames():
        widget = manager.sliceWidget(name)
        sliceNode = widget.mrmlSliceNode()
        volume = Views.volumeIn(scene, sliceNode) if widget.visible else None
        if volume is None:
            continue
        if volume not in views:
            views[volume] = Views.viewsOf(scene, volume)
        views[volume].append(sliceNode)
    return views


def writeInViews(scene, texts: Mapping[str, str]) -> None:
    """Write texts at the top of slice views. texts: volume ID -> text. The views of all other volumes get no text."""
    for node in Views.sliceNodes(scene):
        volume = Views.volumeIn(scene, node)
        text = "" if volume is None else texts.get(volume.GetID(), "")
        lettersInLine = max(node.GetDimensions()[0] // _LETTER, 1)
        _write(node, vtk.vtkCornerAnnotation.UpperEdge, fill(text, lettersInLine))


def writeLevels(scene, store: MapStore | None) -> None:
    """Write the level of the spine above the ruler of slice views. store: maps of the scans; None clears the texts."""
    for node in Views.sliceNodes(scene):
        text = "" if store is None else levelText(Views.volumeIn(scene, node), node, store)
        _write(node, vtk.vtkCornerAnnotation.LowerEdge, text and text + _ABOVE_RULER)


def _write(sliceNode, edge: int, text: str) -> None:
    """Write a text at an edge of a view. Slicer's own texts are in the corners. Does nothing without a main window."""
    manager = slicer.app.layoutManager()
    widget = None if manager is None else manager.sliceWidget(sliceNode.GetLayoutName())
    if widget is None:
        return
    corners = widget.sliceView().cornerAnnotation()
    if (corners.GetText(edge) or "") != text:
        corners.SetText(edge, text)
        corners.GetTextProperty().SetBackgroundColor(0.0, 0.0, 0.0)  # legible on bone, too
        corners.GetTextProperty().SetBackgroundOpacity(0.5)
        widget.sliceView().scheduleRender()


def _drawSliceViewsSoon(again: Callable[[], None]) -> None:
    """Draw all slice views after Qt has handled the pending events. Otherwise views of a loaded scene would stay black.
    again: called before the drawing, to move the views to their saved positions."""

    def draw() -> None:
        _processEvents()
        again()
        manager = slicer.app.layoutManager()
        if manager is not None:
            for name in manager.sliceViewNames():
                manager.sliceWidget(name).sliceView().scheduleRender()

    qt.QTimer.singleShot(0, draw)
