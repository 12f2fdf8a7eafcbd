"""Slice views with a mouse: views of trame-slicer, drawn without a screen, that get the events of an interactor."""

from pathlib import Path

import numpy as np
import slicer
import slicer.util
import trame_slicer.views
from trame_slicer.core import SlicerApp
from trame_slicer.views import ViewLayoutDefinition, ViewProps, ViewType
from vtk.util.numpy_support import vtk_to_numpy
from vtkmodules.vtkIOImage import vtkPNGWriter
from vtkmodules.vtkRenderingCore import vtkWindowToImageFilter

SIZE = (400, 300)


def make_application() -> SlicerApp:
    app = SlicerApp()
    slicer.mrmlScene = app.scene
    app.view_manager.register_factory(
        trame_slicer.views.DirectViewFactory(do_render_offscreen=True)
    )
    return app


class MouseView:
    """A slice view of one volume. Places are world mm on the slice that is shown."""

    def __init__(self, app: SlicerApp, tag: str, volume, orientation: str = "Axial") -> None:
        properties = ViewProps(orientation=orientation, label=tag, color="#5D8CAE")
        self._app = app
        self.tag = tag
        self.view = app.view_manager.create_view(
            ViewLayoutDefinition(tag, ViewType.SLICE_VIEW, properties)
        )
        window = self.view.render_window()
        window.SetShowWindow(False)
        window.SetOffScreenRendering(True)
        window.SetSize(*SIZE)
        self.show(volume)

    @property
    def node(self):
        return self.view.get_view_node()

    def show(self, volume) -> None:
        """Put a volume into the background, as large as fits."""
        self.view.set_background_volume_id(volume.GetID())
        self.view.fit_view_to_content()
        shown = self._app.view_manager.get_current_view_ids()
        # others do not render
        self._app.view_manager.set_current_view_ids([*shown, self.view.get_singleton_tag()])
        self.view.render()

    def pixel(self, world) -> tuple[int, int]:
        """Where the view draws a world point."""
        self.node.JumpSliceByOffsetting(*world)
        self.view.render()
        to_view = np.linalg.inv(slicer.util.arrayFromVTKMatrix(self.node.GetXYToRAS()))
        x, y = (to_view @ [*world, 1.0])[:2]
        return round(x), round(y)

    def move(self, world) -> None:
        """Move the mouse over a place."""
        self._at(*self.pixel(world))

    def click(self, world) -> None:
        x, y = self.pixel(world)
        mouse = self.view.interactor()
        self._at(x - 5, y - 5, enter=True)
        self._at(x, y)
        mouse.LeftButtonPressEvent()
        mouse.LeftButtonReleaseEvent()
        self._at(x, y)
        self.view.render()

    def drag(self, start, end) -> None:
        """Take what is drawn at one place to another of the same slice."""
        first = self.pixel(start)
        last = self.pixel(end)
        mouse = self.view.interactor()
        self._at(*first, enter=True)
        mouse.LeftButtonPressEvent()
        for share in (0.25, 0.5, 0.75, 1.0):
            self._at(*(round(a + share * (b - a)) for a, b in zip(first, last, strict=True)))
        mouse.LeftButtonReleaseEvent()
        self._at(*last)
        self.view.render()

    def leave(self) -> None:
        """Take the mouse out of the view."""
        self.view.interactor().LeaveEvent()
        self.view.render()

    def pixels(self) -> np.ndarray:
        """(pixels, 3) uint8 of what the view shows."""
        grabbed = self._grabbed()
        grabbed.Update()
        return vtk_to_numpy(grabbed.GetOutput().GetPointData().GetScalars())[:, :3].copy()

    def picture(self, path: Path) -> None:
        """Write what the view shows as PNG."""
        grabbed = self._grabbed()
        writer = vtkPNGWriter()
        writer.SetFileName(str(path))
        writer.SetInputConnection(grabbed.GetOutputPort())
        writer.Write()

    def _grabbed(self) -> vtkWindowToImageFilter:
        self.view.render()
        grabbed = vtkWindowToImageFilter()
        grabbed.SetInput(self.view.render_window())
        grabbed.ReadFrontBufferOff()
        return grabbed

    def _at(self, x: int, y: int, enter: bool = False) -> None:
        mouse = self.view.interactor()
        mouse.SetEventInformation(x, y, 0, 0, chr(0), 0, None)
        if enter:
            mouse.EnterEvent()
        mouse.MouseMoveEvent()
