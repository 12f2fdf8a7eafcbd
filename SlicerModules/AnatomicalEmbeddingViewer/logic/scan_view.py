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
    neither, and without a GPU that is half of the time that a picture takes. Colour tables, thresholds and other layers
    than the background are not shown.
    """

    def __init__(self, *args, **kwargs) -> None:
        super().__init__(*args, **kwargs)
        # Slicer shows every slice in 3-D views too; without those its surface only doubles the price of each move
        self._logic.GetSliceModelNode().SetPolyDataConnection(None)

    def _update_image_data_connection(self) -> None:
        """The scan is not drawn by the renderer, which therefore would not ask for a picture when it changes."""
        self.schedule_render()

    def pixels(self) -> np.ndarray:
        """The picture as it should be now: (rows, columns, 3) uint8, the top row first."""
        over, cut = self._overlay(), self._cut()
        rows, columns = over.shape[:2]
        shown = cut[:rows, :columns]  # of another size while the view is being resized
        picture = np.zeros((rows, columns, 3), np.uint8)
        for channel in range(3):  # quicker than all at once
            picture[: shown.shape[0], : shown.shape[1], channel] = shown
        flat, covered = picture.reshape(-1, 3), np.flatnonzero(over.view(np.uint32))
        if covered.size:
            drawn = over.reshape(-1, 4)[covered].astype(np.uint16)  # its colours are multiplied by its opacity already
            below = (255 - drawn[:, 3:]) * flat[covered] + 127
            flat[covered] = np.minimum(drawn[:, :3] + below // 255, 255)
        return np.ascontiguousarray(picture[::-1])

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
        if volume is None or volume.GetImageData() is None:
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
        usual = reslice.GetInterpolationMode() == vtk.VTK_RESLICE_LINEAR and reslice.GetSlabNumberOfSlices() == 1
        if usual and transform.IsA("vtkLinearTransform"):
            xy_to_ijk = slicer.util.arrayFromVTKMatrix(transform.GetMatrix())
            upright = cut_upright(slicer.util.arrayFromVolume(volume), xy_to_ijk, rows, columns, _OUTSIDE_HU)
            if upright is not None:
                return upright
        reslice.SetBackgroundLevel(_OUTSIDE_HU)
        reslice.Update()
        values = vtk_to_numpy(reslice.GetOutput().GetPointData().GetScalars())
        return values.reshape(rows, columns).astype(np.float32)
