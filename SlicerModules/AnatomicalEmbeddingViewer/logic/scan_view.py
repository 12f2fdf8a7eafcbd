"""A slice view whose picture is composed here: the scan by numpy, the marks over it by VTK."""

from __future__ import annotations

import numpy as np
import slicer.util
import vtk
from trame_slicer.views import SliceView
from vtk.util.numpy_support import vtk_to_numpy

_OUTSIDE_HU = -32768  # black in every window
_TOLERANCE = 1e-6  # voxels in one step along a slice: a smaller step counts as zero


class ScanView(SliceView):
    """Shows the volume in its background, in the greys of its window, and markups over it.

    Slicer sends a slice through eight filters (thresholds, colours, other layers) and draws it as a texture. A CT needs
    neither, and without a GPU they take half of a picture's time. Colour tables, thresholds and layers other than the
    background are not shown.
    """

    def __init__(self, *args, **kwargs) -> None:
        super().__init__(*args, **kwargs)
        # Slicer shows every slice in 3-D views too; there are none here, and the surface doubles the cost of each move
        self._logic.GetSliceModelNode().SetPolyDataConnection(None)

    def _update_image_data_connection(self) -> None:
        """Request a picture when the scan changes: the renderer does not, because it does not draw the scan."""
        self.schedule_render()

    def pixels(self) -> np.ndarray:
        """Draw the current picture: (rows, columns, 3) uint8, the top row first."""
        marks, scan = self._marks(), self._scan_greys()
        rows, columns = marks.shape[:2]
        scan = scan[:rows, :columns]  # of another size while the view is being resized
        picture = np.zeros((rows, columns, 3), np.uint8)
        for channel in range(3):  # faster than all channels at once
            picture[: scan.shape[0], : scan.shape[1], channel] = scan
        flat, covered = picture.reshape(-1, 3), np.flatnonzero(marks.view(np.uint32))
        if covered.size:
            drawn = marks.reshape(-1, 4)[covered].astype(np.uint16)  # colours are already multiplied by opacity
            below = (255 - drawn[:, 3:]) * flat[covered] + 127
            flat[covered] = np.minimum(drawn[:, :3] + below // 255, 255)
        return np.ascontiguousarray(picture[::-1])

    def _marks(self) -> np.ndarray:
        """Draw everything but the scan: (rows, columns, 4) uint8, the bottom row first."""
        window, read = self.render_window(), vtk.vtkUnsignedCharArray()
        window.Render()
        columns, rows = window.GetSize()
        window.GetRGBACharPixelData(0, 0, columns - 1, rows - 1, 0, read)
        return vtk_to_numpy(read).reshape(rows, columns, 4)

    def _scan_greys(self) -> np.ndarray:
        """Draw the scan's slice: (rows, columns) uint8, the bottom row first; (0, 0) for a view without a scan."""
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
        """Cut the scan: (rows, columns) float32 HU, the bottom row first."""
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
    """Interpolate a slice of a scan linearly, one axis after the other: faster than VTK's cut pixel by pixel.

    Args:
        voxels: (k, j, i).
        xy_to_ijk: (4, 4), pixels (column, row, 0, 1) to continuous voxels (i, j, k, 1).
        outside: value beyond the outermost voxels.

    Returns:
        (rows, columns) float32; None for a slice that does not lie along the scan's axes, or that holds more voxels
        than the picture has pixels: to read them all takes longer than to cut pixel by pixel.
    """
    steps, start = xy_to_ijk[:3, :2], xy_to_ijk[:3, 3]
    moving = np.abs(steps) > _TOLERANCE
    if not (moving.sum(axis=0) == 1).all() or moving.sum(axis=1).max() > 1:
        return None
    column_axis, row_axis = moving.argmax(axis=0)  # 0 to 2 for i, j, k
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
        insides.append((at >= -0.5) & (at <= last + 0.5))  # a scan ends half a voxel beyond its outermost centres
    if not insides[0][0]:
        return np.full((rows, columns), outside, np.float32)
    needed = np.transpose(voxels, [2 - axis for axis in order])[tuple(ranges)]
    if needed[0].size > rows * columns:
        return None
    near = needed.astype(np.float32)  # in the order of memory, which is read once
    plane = near[0] * (1 - parts[0][0]) + near[-1] * parts[0][0]
    plane = _interpolate(plane[lows[1]], plane[highs[1]], parts[1][:, None])
    picture = _interpolate(plane.take(lows[2], axis=1), plane.take(highs[2], axis=1), parts[2])
    picture[~insides[1]] = outside
    picture[:, ~insides[2]] = outside
    return picture


def _interpolate(low: np.ndarray, high: np.ndarray, part: np.ndarray) -> np.ndarray:
    """Interpolate linearly; overwrites both arrays."""
    high -= low
    high *= part
    high += low
    return high
