"""A slice view of one scan whose picture is put together here: the scan by numpy, what lies over it by VTK."""

from __future__ import annotations

import numpy as np
import vtk
from trame_slicer.views import SliceView
from vtk.util.numpy_support import vtk_to_numpy

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
        grey = np.zeros((rows, columns), np.uint8)
        cut = self._cut()
        if cut is not None:
            shown = cut[:rows, :columns]
            grey[: shown.shape[0], : shown.shape[1]] = shown
        picture = np.repeat(grey[:, :, None], 3, axis=2)
        covered = np.nonzero(over[:, :, 3])
        if covered[0].size:
            drawn = over[covered].astype(np.uint16)  # its colours are multiplied by its opacity already
            below = (255 - drawn[:, 3:]) * picture[covered] + 127
            picture[covered] = np.minimum(drawn[:, :3] + below // 255, 255)
        return np.ascontiguousarray(picture[::-1])

    def _overlay(self) -> np.ndarray:
        """Everything but the scan: (rows, columns, 4) uint8, the bottom row first."""
        window, read = self.render_window(), vtk.vtkUnsignedCharArray()
        window.Render()
        columns, rows = window.GetSize()
        window.GetRGBACharPixelData(0, 0, columns - 1, rows - 1, 0, read)
        return vtk_to_numpy(read).reshape(rows, columns, 4)

    def _cut(self) -> np.ndarray | None:
        """The scan in this slice, in greys: (rows, columns) uint8, the bottom row first; None: nothing is shown."""
        layer = self._logic.GetBackgroundLayer()
        volume = None if layer is None else layer.GetVolumeNode()
        if volume is None:
            return None
        reslice, display = layer.GetReslice(), volume.GetDisplayNode()
        reslice.SetBackgroundLevel(_OUTSIDE_HU)
        reslice.Update()
        image = reslice.GetOutput()
        columns, rows, _ = image.GetDimensions()
        hu = vtk_to_numpy(image.GetPointData().GetScalars()).reshape(rows, columns)
        width = max(display.GetWindow(), 1e-3)
        grey = hu.astype(np.float32)
        grey -= display.GetLevel() - width / 2
        grey *= 255 / width
        return np.clip(grey, 0, 255, out=grey).astype(np.uint8)
