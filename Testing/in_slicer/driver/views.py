"""Use the slice views of the main window: click and drag at places of a scan, and read what the views show."""

from collections.abc import Sequence

import numpy as np
import slicer
import vtk
from vtk.util.numpy_support import vtk_to_numpy

from . import events
from .waiting import pause, wait

_BRIGHT = 40  # of 255: tissue in any CT window, not the black of an empty view
_DRAG_STEPS = 12


class SliceViews:
    """Places are (3,) world mm, RAS. A view is found by the scan in its background and by its orientation."""

    def all_of(self, volume) -> list:
        """The slice widgets that can be seen and show a scan."""
        shown = []
        manager = slicer.app.layoutManager()
        for name in manager.sliceViewNames():
            widget = manager.sliceWidget(name)
            if (
                widget.visible
                and widget.mrmlSliceCompositeNode().GetBackgroundVolumeID() == volume.GetID()
            ):
                shown.append(widget)
        return shown

    def count(self) -> int:
        """How many slice views can be seen."""
        manager = slicer.app.layoutManager()
        return sum(bool(manager.sliceWidget(name).visible) for name in manager.sliceViewNames())

    def nodes(self, volume) -> list:
        """The slice nodes of the views that show a scan."""
        return [widget.mrmlSliceNode() for widget in self.all_of(volume)]

    def of(self, volume, orientation: str = "Axial"):
        """The slice widget that shows a scan in one orientation."""
        found = [
            each
            for each in self.all_of(volume)
            if each.mrmlSliceNode().GetOrientation() == orientation
        ]
        assert found, f"no {orientation} view shows {volume.GetName()}"
        return found[0]

    # -- what the bars of the views are for

    def put_everywhere(self, volume) -> None:
        """Choose a scan for the background of all views."""
        manager = slicer.app.layoutManager()
        for name in manager.sliceViewNames():
            manager.sliceWidget(name).mrmlSliceCompositeNode().SetBackgroundVolumeID(volume.GetID())

    def put_instead(self, volume, other, orientation: str = "Axial") -> str:
        """Choose another scan for the background of a scan's view; returns the ID of the view's node."""
        widget = self.of(volume, orientation)
        widget.mrmlSliceCompositeNode().SetBackgroundVolumeID(other.GetID())
        return widget.mrmlSliceNode().GetID()

    def maximise(self, volume, orientation: str = "Axial") -> None:
        """Let a view fill the window, as its button and a double click do."""
        layout = slicer.app.layoutManager().layoutLogic().GetLayoutNode()
        layout.AddMaximizedViewNode(self.of(volume, orientation).mrmlSliceNode())
        pause(0.5)

    def add_one(self) -> None:
        """Slicer makes one more slice view, and shows it alone, as for a layout of another module."""
        scene = slicer.mrmlScene
        tag = "Another"
        number = 998
        node = scene.CreateNodeByClass("vtkMRMLSliceNode")
        node.UnRegister(None)
        node.SetLayoutName(tag)
        node.SetName(tag)
        node.SetOrientation("Axial")
        scene.AddNode(node)
        axial = '<property name="orientation">Axial</property>'
        view = f'<view class="vtkMRMLSliceNode" singletontag="{tag}">{axial}</view>'
        layout = slicer.app.layoutManager().layoutLogic().GetLayoutNode()
        layout.AddLayoutDescription(
            number, f'<layout type="horizontal"><item>{view}</item></layout>'
        )
        layout.SetViewArrangement(number)

    # -- the mouse

    def click(self, volume, place: Sequence[float], orientation: str = "Axial") -> None:
        """Click at a place of a scan, in the slice that shows it."""
        canvas, (x, y) = self._go(volume, place, orientation)
        events.enter(canvas, x - 9, y - 6)
        for step in (6, 3, 0):
            events.move(canvas, x - step, y - step)
            pause(0.02)
        events.click(canvas, x, y)
        pause(0.1)

    def drag(
        self, volume, start: Sequence[float], end: Sequence[float], orientation: str = "Axial"
    ) -> None:
        """Drag what is drawn at one place of a slice to another place of the same slice."""
        canvas, first = self._go(volume, start, orientation)
        last = self._pixel(self.of(volume, orientation), end)
        events.enter(canvas, first[0] - 9, first[1] - 6)
        shares = np.linspace(0, 1, _DRAG_STEPS)
        events.drag(
            canvas, [tuple(np.add(first, share * np.subtract(last, first))) for share in shares]
        )

    def hover(self, volume, place: Sequence[float], orientation: str = "Axial") -> None:
        """Move the mouse over a place."""
        canvas, (x, y) = self._go(volume, place, orientation)
        events.enter(canvas, x - 4, y - 4)
        events.move(canvas, x, y)

    def leave(self, volume, orientation: str = "Axial") -> None:
        """Move the mouse out of a view."""
        events.leave(self._canvas(self.of(volume, orientation)))

    def scroll(self, volume, steps: int, orientation: str = "Axial") -> None:
        """Turn the wheel over the middle of a view."""
        canvas = self._canvas(self.of(volume, orientation))
        events.enter(canvas, canvas.width // 2, canvas.height // 2)
        events.turn_wheel(canvas, canvas.width // 2, canvas.height // 2, steps)

    def press(self, volume, keys: str, orientation: str = "Axial") -> None:
        """Press a key while the mouse is over a view."""
        events.press_key(self._canvas(self.of(volume, orientation)), keys)

    # -- what is shown

    def middle(self, volume, orientation: str = "Axial") -> np.ndarray:
        """(3,) the place in the middle of a view."""
        matrix = self.of(volume, orientation).mrmlSliceNode().GetSliceToRAS()
        return np.array([matrix.GetElement(row, 3) for row in range(3)])

    def shows(self, volume, place: Sequence[float], within_mm: float = 1.0) -> bool:
        """Is a place in the slice of every view of a scan, and inside its frame?"""
        widgets = self.all_of(volume)
        return bool(widgets) and all(self._is_in(each, place, within_mm) for each in widgets)

    def foregrounds(self, volume) -> list:
        """What each view of a scan shows over it: a volume, or None."""
        composites = [each.mrmlSliceCompositeNode() for each in self.all_of(volume)]
        return [
            slicer.mrmlScene.GetNodeByID(each.GetForegroundVolumeID() or "") for each in composites
        ]

    def texts(self, volume) -> list[str]:
        """What is written at the top of each view of a scan."""
        corners = [each.sliceView().cornerAnnotation() for each in self.all_of(volume)]
        return [each.GetText(vtk.vtkCornerAnnotation.UpperEdge) or "" for each in corners]

    def field_of_view(self, volume, orientation: str = "Axial") -> float:
        """The shorter side of a view, mm."""
        return min(self.of(volume, orientation).mrmlSliceNode().GetFieldOfView()[:2])

    def share_of_tissue(self, widget) -> float:
        """Share of pixels in the middle half of a slice widget that are not black."""
        picture = vtk.vtkWindowToImageFilter()
        picture.SetInput(widget.sliceView().renderWindow())
        picture.ReadFrontBufferOff()
        picture.Update()
        image = picture.GetOutput()
        width, height, _ = image.GetDimensions()
        values = vtk_to_numpy(image.GetPointData().GetScalars()).reshape(height, width, -1)
        middle = values[height // 4 : 3 * height // 4, width // 4 : 3 * width // 4]
        return float((middle.max(axis=-1) > _BRIGHT).mean())

    def assert_none_is_black(self, volumes: Sequence) -> None:
        """Every scan is in some view, and each of its views shows tissue, now and after a while."""
        pause(1.0)
        for volume in volumes:
            widgets = self.all_of(volume)
            assert widgets, f"no view shows {volume.GetName()}"
            for each in widgets:
                name = each.mrmlSliceNode().GetName()
                wait(
                    lambda each=each: self.share_of_tissue(each) > 0.1,
                    5,
                    f"view {name} of {volume.GetName()} is black",
                )

    def assert_on_screen(self, volumes: Sequence, size: tuple[int, int], smallest: int) -> None:
        """The window is as large as it was made, all views of the scans lie inside, and no view is smaller."""
        window = slicer.util.mainWindow()
        assert (window.width, window.height) == size, (
            f"the window grew to {window.width} x {window.height}"
        )
        for volume in volumes:
            for widget in self.all_of(volume):
                corner = widget.mapTo(window, widget.rect.bottomRight())
                canvas = self._canvas(widget)
                problem = f"a view of {volume.GetName()} of {canvas.width} x {canvas.height} ends at {corner}"
                assert corner.x() <= size[0], problem
                assert corner.y() <= size[1], problem
                assert min(canvas.width, canvas.height) >= smallest, problem

    # -- pixels

    def _go(self, volume, place: Sequence[float], orientation: str) -> tuple:
        """Bring a place into the slice and the frame, as the slider and the hand do."""
        widget = self.of(volume, orientation)
        node = widget.mrmlSliceNode()
        node.JumpSliceByOffsetting(*place)
        if not self._is_in(widget, place, 1.0):
            node.JumpSliceByCentering(*place)
        pause(0.1)
        return self._canvas(widget), self._pixel(widget, place)

    def _is_in(self, widget, place: Sequence[float], within_mm: float) -> bool:
        node = widget.mrmlSliceNode()
        canvas = self._canvas(widget)
        to_slice = np.linalg.inv(slicer.util.arrayFromVTKMatrix(node.GetSliceToRAS()))
        x, y = self._pixel(widget, place)
        return (
            abs((to_slice @ [*place, 1.0])[2]) <= within_mm
            and 0 <= x < canvas.width
            and 0 <= y < canvas.height
        )

    def _pixel(self, widget, place: Sequence[float]) -> tuple[float, float]:
        """Of the canvas, from its upper left corner; VTK counts the screen's pixels from the lower left one."""
        to_view = np.linalg.inv(slicer.util.arrayFromVTKMatrix(widget.mrmlSliceNode().GetXYToRAS()))
        x, y = (to_view @ [*place, 1.0])[:2]
        canvas = self._canvas(widget)
        ratio = canvas.devicePixelRatioF()
        return x / ratio, canvas.height - 1 - y / ratio

    def _canvas(self, widget):
        """The widget that VTK draws in and that gets the mouse."""
        return widget.sliceView().VTKWidget()
