"""A slice view that draws the scan with numpy, and markups over the scan with VTK."""

from __future__ import annotations

import numpy as np
import slicer.util
import vtk
from trame_slicer.views import SliceView
from vtk.util.numpy_support import vtk_to_numpy

_OUTSIDE_HU = -32768  # HU value that is black in every CT window
_TOLERANCE = 1e-6  # steps of fewer voxels count as zero


class ScanView(SliceView):
    """Shows the background volume in the grey values of its CT window, and markups over the volume.

    Slicer sends a slice through eight filters (thresholds, colours, other layers) and draws the result as a texture. A
    CT does not need these filters, and without a GPU they take half of the time of a picture. Therefore colour tables,
    thresholds and layers other than the background are not shown.
    """

    def __init__(self, *args, **kwargs) -> None:
        super().__init__(*args, **kwargs)
        # Slicer prepares every slice for 3-D views too, which doubles the time of each move. The viewer needs no 3-D.
        self._logic.GetSliceModelNode().SetPolyDataConnection(None)

    def _update_image_data_connection(self) -> None:
        """Request a picture when the scan changes. VTK's renderer does not draw the scan, so it makes no request."""
        self.schedule_render()

    def pixels(self) -> np.ndarray:
        """Draw the picture as it is now: (rows, columns, 3) uint8, the top row first."""
        marks, scan = self._marks(), self._scan_greys()
        rows, columns = marks.shape[:2]
        scan = scan[:rows, :columns]  # sizes differ while the view is resized
        picture = np.zeros((rows, columns, 3), np.uint8)
        for channel in range(3):  # faster than setting all channels at once
            picture[: scan.shape[0], : scan.shape[1], channel] = scan
        flat, covered = picture.reshape(-1, 3), np.flatnonzero(marks.view(np.uint32))
        if covered.size:
            drawn = marks.reshape(-1, 4)[covered].astype(np.uint16)  # premultiplied by opacity
            below = (255 - drawn[:, 3:]) * flat[covered] + 127
            flat[covered] = np.minimum(drawn[:, :3] + below // 255, 255)
        return np.ascontiguousarray(picture[::-1])

    def _marks(self) -> np.ndarray:
        """Draw everything except the scan: (rows, columns, 4) uint8 RGBA, the bottom row first."""
        window, read = self.render_window(), vtk.vtkUnsignedCharArray()
        window.Render()
        columns, rows = window.GetSize()
        window.GetRGBACharPixelData(0, 0, columns - 1, rows - 1, 0, read)
        return vtk_to_numpy(read).reshape(rows, columns, 4)

    def _scan_greys(self) -> np.ndarray:
        """Draw the scan's slice: (rows, columns) uint8, the bottom row first; shape (0, 0) if there is no scan."""
        layer = self._logic.GetBackgroundLayer()
        volume = None if layer is None else layer.GetVolumeNode()
        if volume is None or volume.GetImageData() is None:
            return np.empty((0, 0), np.uint8)
        display = volume.GetDisplayNode()
        grey = self._slice_hu(layer, volume)
        width = max(display.GetWindow(), 1e-3)
        grey -= display.GetLevel() - width / 2
        grey *= 255 / width
        return np.clip(grey, 0, 255, out=grey).astype(np.uint8)

    def _slice_hu(self, layer, volume) -> np.ndarray:
        """Interpolate the scan in the slice: (rows, columns) float32 HU, the bottom row first."""
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


def cut_upright(
    voxels: np.ndarray, xy_to_ijk: np.ndarray, rows: int, columns: int, outside: float
) -> np.ndarray | None:
    """Interpolate a slice of a scan linearly, one axis after the other. VTK interpolates each pixel, which is slower.

    Args:
        voxels: (k, j, i).
        xy_to_ijk: (4, 4), pixels (column, row, 0, 1) to continuous voxels (i, j, k, 1).
        outside: value for pixels outside the scan.

    Returns:
        (rows, columns) float32. None if the slice is not parallel to the scan's axes, or if this way would be slower
        than VTK, because the slice has more voxels than the picture has pixels.
    """
    steps, start = xy_to_ijk[:3, :2], xy_to_ijk[:3, 3]
    moving = np.abs(steps) > _TOLERANCE
    if not (moving.sum(axis=0) == 1).all() or moving.sum(axis=1).max() > 1:
        return None
    column_axis, row_axis = moving.argmax(axis=0)  # 0, 1, 2 for i, j, k
    order = 3 - column_axis - row_axis, row_axis, column_axis
    steps_along = 0.0, steps[row_axis, 1], steps[column_axis, 0]
    ranges, lows, highs, parts, insides = [], [], [], [], []
    for axis, step, number in zip(order, steps_along, (1, rows, columns), strict=True):
        at, last = start[axis] + step * np.arange(number), voxels.shape[2 - axis] - 1
        within = np.clip(at, 0, last)
        low = within.astype(np.intp)
        high = np.minimum(low + 1, last)
        ranges.append(slice(low.min(), high.max() + 1))
        lows.append(low - low.min())
        highs.append(high - low.min())
        parts.append((within - low).astype(np.float32))
        insides.append((at >= -0.5) & (at <= last + 0.5))  # a scan ends half a voxel beyond the outermost centres
    if not insides[0][0]:
        return np.full((rows, columns), outside, np.float32)
    needed = np.transpose(voxels, [2 - axis for axis in order])[tuple(ranges)]
    if needed[0].size > rows * columns:
        return None
    near = needed.astype(np.float32)  # copy in memory order, so that memory is read only once
    plane = near[0] * (1 - parts[0][0]) + near[-1] * parts[0][0]
    plane = _interpolate(plane[lows[1]], plane[highs[1]], parts[1][:, None])
    picture = _interpolate(plane.take(lows[2], axis=1), plane.take(highs[2], axis=1), parts[2])
    picture[~insides[1]] = outside
    picture[:, ~insides[2]] = outside
    return picture


def _interpolate(low: np.ndarray, high: np.ndarray, part: np.ndarray) -> np.ndarray:
    """Return low + part * (high - low). Overwrites `high`, which is the result."""
    high -= low
    high *= part
    high += low
    return high
