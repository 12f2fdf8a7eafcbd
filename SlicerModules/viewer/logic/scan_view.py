"""A slice view of one scan whose picture is put together here: the scan by numpy, what lies over it by VTK."""

from __future__ import annotations

import numpy as np
import slicer.util
import vtk
from trame_slicer.views import SliceView
from vtk.util.numpy_support import vtk_to_numpy

from .upright_cut import cut_upright

_OUTSIDE_HU = -32768  # black in every window


class ScanView(SliceView):
    """Shows the volume in its background, in the greys of its window, and markups over it.

    Slicer sends a slice through eight filters (thresholds, colours, other layers) and draws it as a texture. A CT needs
    neither, and without a GPU that is half of the time that a picture takes.
    """

    def _update_image_data_connection(self) -> None:
        """The scan is not drawn by the renderer."""

    def drop_model(self) -> None:
        """Slicer shows every slice in 3-D views too; without those its model only doubles the price of each move."""
        self._logic.DeleteSliceModel()

    def pixels(self) -> np.ndarray:
        """The picture as it should be now: (rows, columns, 3) uint8, the top row first."""
        over = self._overlay()
        rows, columns = over.shape[:2]
        cut, grey = self._cut(), np.zeros((rows, columns), np.uint8)
        shown = cut[:rows, :columns]  # of another size while the view is being resized
        grey[: shown.shape[0], : shown.shape[1]] = shown
        picture = np.repeat(grey.reshape(-1, 1), 3, axis=1)
        covered = np.flatnonzero(over.view(np.uint32))
        if covered.size:
            drawn = over.reshape(-1, 4)[covered].astype(np.uint16)  # its colours are multiplied by its opacity already
            below = (255 - drawn[:, 3:]) * picture[covered] + 127
            picture[covered] = np.minimum(drawn[:, :3] + below // 255, 255)
        return np.ascontiguousarray(picture.reshape(rows, columns, 3)[::-1])

    def _overlay(self) -> np.ndarray:
        """Everything but the scan: (rows, columns, 4) uint8, the bottom row first."""
        window, read = self.render_window(), vtk.vtkUnsignedCharArray()
        window.Render()
        columns, rows = window.GetSize()
        window.GetRGBACharPixelData(0, 0, columns - 1, rows - 1, 0, read)
        return vtk_to_numpy(read).reshape(rows, columns, 4)

    def _cut(self) -> np.ndarray:
        """The scan in this slice, in greys: (rows, columns) uint8, the bottom row first; empty if none is shown."""
        layer = self._logic.GetBackgroundLayer()
        volume = None if layer is None else layer.GetVolumeNode()
        if volume is None:
            return np.empty((0, 0), np.uint8)
        display = volume.GetDisplayNode()
        grey = self._hu(layer, volume)
        width = max(display.GetWindow(), 1e-3)
        grey -= display.GetLevel() - width / 2
        grey *= 255 / width
        return np.clip(grey, 0, 255, out=grey).astype(np.uint8)

    def _hu(self, layer, volume) -> np.ndarray:
        """The values of the scan in this slice: (rows, columns) float32, the bottom row first."""
        reslice = layer.GetReslice()
        left, right, bottom, top, _, _ = reslice.GetOutputExtent()
        rows, columns = top - bottom + 1, right - left + 1
        transform = reslice.GetResliceTransform()
        if transform.IsA("vtkLinearTransform"):
            xy_to_ijk = slicer.util.arrayFromVTKMatrix(transform.GetMatrix())
            upright = cut_upright(slicer.util.arrayFromVolume(volume), xy_to_ijk, rows, columns, _OUTSIDE_HU)
            if upright is not None:
                return upright
        reslice.SetBackgroundLevel(_OUTSIDE_HU)
        reslice.Update()
        values = vtk_to_numpy(reslice.GetOutput().GetPointData().GetScalars())
        return values.reshape(rows, columns).astype(np.float32)
