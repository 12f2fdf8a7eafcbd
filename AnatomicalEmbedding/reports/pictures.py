"""Slice pictures of a scan around a point, with square pixels.

Pictures are parallel to the RAS planes, in radiological convention: seen from the feet (axial, anterior up), from the
front (coronal, superior up) and from the patient's left (sagittal, superior up).
"""

import base64
import io
from dataclasses import dataclass

import numpy as np

from ..errors import require
from ..scan.checks import grey_range
from ..scan.geometry import in_grid, transform_points
from ..scan.volume import Film, Volume

CROP_MM = 160.0  # side of a picture; by hand
PIXEL_MM = 0.5  # finer than the voxels of usual CTs; a size on the page
# Darker than black in every window, so that pixels outside the scan are black.
OUTSIDE_HU = -10_000.0

# The lung window is used if at least the share _LUNG_SHARE of a sphere around the point has HU values of lung. For the
# bone window, at least the share _BONE_SHARE must be above _BONE_HU. Both by hand, by eye.
_NEIGHBOURHOOD_MM = 12.0  # radius of the sphere
_LUNG_HU = (-990.0, -500.0)  # lung reaches -960 in deep inspiration; air is -1000
_LUNG_SHARE = 0.5
_BONE_HU = 250.0
_BONE_SHARE = 0.25


@dataclass(frozen=True)
class Plane:
    """A viewing plane. right, down: RAS directions of the picture's axes. *_letter: R, L, A, P, S or I at each edge."""

    name: str
    right: tuple[float, float, float]
    down: tuple[float, float, float]
    left_letter: str
    right_letter: str
    top_letter: str
    bottom_letter: str


AXIAL = Plane("axial", (-1.0, 0.0, 0.0), (0.0, -1.0, 0.0), "R", "L", "A", "P")
CORONAL = Plane("coronal", (-1.0, 0.0, 0.0), (0.0, 0.0, -1.0), "R", "L", "S", "I")
SAGITTAL = Plane("sagittal", (0.0, -1.0, 0.0), (0.0, 0.0, -1.0), "A", "P", "S", "I")
PLANES = (AXIAL, CORONAL, SAGITTAL)


@dataclass(frozen=True)
class Window:
    """Display window. centre: HU shown as mid-grey. width: HU between black and white."""

    name: str
    centre: float
    width: float

    def to_grey(self, hu: np.ndarray) -> np.ndarray:
        """Convert HU to grey values, uint8 of the same shape."""
        scaled = (np.asarray(hu, np.float32) - self.centre) / self.width + 0.5
        return np.rint(np.clip(scaled, 0.0, 1.0) * 255.0).astype(np.uint8)


SOFT_TISSUE = Window("soft tissue", 40.0, 400.0)
LUNG = Window("lung", -600.0, 1500.0)
BONE = Window("bone", 400.0, 1800.0)


def choose_window(volume: Volume, point_ras: np.ndarray, is_ct: bool = True) -> Window:
    """Choose the display window for the tissue around a point (3,) RAS mm: lung, bone, or else soft tissue.

    A film, and a scan that is no CT, have their own windows, from the darkest to the brightest grey values.
    """
    is_film = isinstance(volume, Film)
    if is_film or not is_ct:
        black, white = grey_range(volume.voxels, 99.0 if is_film else 99.9)
        name = "film" if is_film else "all values"
        return Window(name, float(black + white) / 2, max(float(white - black), 1e-6))
    steps = np.arange(-_NEIGHBOURHOOD_MM, _NEIGHBOURHOOD_MM + 1e-6, 3.0)
    offsets = np.stack(np.meshgrid(steps, steps, steps, indexing="ij"), axis=-1).reshape(-1, 3)
    offsets = offsets[np.linalg.norm(offsets, axis=1) <= _NEIGHBOURHOOD_MM]
    hu = volume.sample(np.asarray(point_ras, np.float64) + offsets, outside=OUTSIDE_HU)
    hu = hu[hu > OUTSIDE_HU]
    if hu.size == 0:
        return SOFT_TISSUE
    if np.mean((hu > _LUNG_HU[0]) & (hu < _LUNG_HU[1])) >= _LUNG_SHARE:
        return LUNG
    if np.mean(hu > _BONE_HU) >= _BONE_SHARE:
        return BONE
    return SOFT_TISSUE


def pixels_across(crop_mm: float = CROP_MM, pixel_mm: float = PIXEL_MM) -> int:
    """Return the number of pixels along a side of a picture: an odd number, so one pixel is centred on the point."""
    return 2 * round(crop_mm / pixel_mm / 2) + 1


def _pixel_offsets(crop_mm: float, pixel_mm: float) -> np.ndarray:
    """Return the distances (n,), mm, of the pixels in a row or column from the middle of a picture."""
    n = pixels_across(crop_mm, pixel_mm)
    return (np.arange(n) - n // 2) * pixel_mm


def slice_points(
    point_ras: np.ndarray, plane: Plane, crop_mm: float, pixel_mm: float
) -> np.ndarray:
    """Return the positions (n * n, 3), RAS mm, of all pixels in the picture that `slice_hu` makes, row by row.

    Args:
        point_ras, plane, crop_mm, pixel_mm: as for `slice_hu`.
    """
    offsets = _pixel_offsets(crop_mm, pixel_mm)
    right = offsets[None, :, None] * np.array(plane.right)
    down = offsets[:, None, None] * np.array(plane.down)
    return (np.asarray(point_ras, np.float64) + right + down).reshape(-1, 3)


def slice_hu(
    volume: Volume,
    point_ras: np.ndarray,
    plane: Plane,
    crop_mm: float = CROP_MM,
    pixel_mm: float = PIXEL_MM,
) -> np.ndarray:
    """Sample HU of a square slice through a point, by linear interpolation.

    Args:
        volume: the scan.
        point_ras: (3,) RAS mm, the middle of the centre pixel.
        plane: plane of the slice.
        crop_mm: side of the slice.
        pixel_mm: size of a pixel.

    Returns (n, n) float32, the top row first, with n = `pixels_across(crop_mm, pixel_mm)`. Pixels outside the scan are
    `OUTSIDE_HU`.
    """
    offsets = _pixel_offsets(crop_mm, pixel_mm)
    middle = transform_points(volume.ras_to_ijk, np.asarray(point_ras, np.float64)[None])[0]
    right, down = np.array([plane.right, plane.down]) @ volume.ras_to_ijk[:3, :3].T
    # The index along each voxel axis is computed separately. Making an array of points (n * n, 3) would be slower.
    along_rows = np.multiply.outer(right, offsets)
    along_columns = np.multiply.outer(down, offsets)
    ijk = middle[:, None, None] + along_rows[:, None] + along_columns[..., None]
    inside = in_grid(np.moveaxis(ijk, 0, -1), volume.shape)
    if not inside.any():
        return np.full(inside.shape, OUTSIDE_HU, np.float32)
    return np.where(inside, _interpolate(volume.voxels, ijk, inside), np.float32(OUTSIDE_HU))


def encode_jpeg(pixels: np.ndarray) -> bytes:
    """Compress a uint8 picture, grey (n,m) or RGB (n,m,3), to JPEG.

    Raises AnatomicalEmbeddingError when pillow is not installed.
    """
    image = require("PIL.Image", "pillow", "pictures need")
    stream = io.BytesIO()
    image.fromarray(pixels).save(stream, format="JPEG", quality=80, optimize=True)
    return stream.getvalue()


def data_uri(pixels: np.ndarray) -> str:
    """Encode a picture, uint8 (n, m) grey or (n, m, 3) RGB, as a data URI: text that shows the picture in a page."""
    return "data:image/jpeg;base64," + base64.b64encode(encode_jpeg(pixels)).decode("ascii")


def _interpolate(voxels: np.ndarray, ijk: np.ndarray, inside: np.ndarray) -> np.ndarray:
    """Return the HU (n, n) at voxel indices `ijk` (3, n, n). Pixels where `inside` (n, n) is False are not valid."""
    import torch

    from ..embedding.grid_reading import read_linear

    # only the block of voxels around the pixels is converted to float; `cells` are indices into this block
    box = []
    cells = np.empty((*inside.shape, 3), np.float32)
    for axis, (places, size) in enumerate(zip(ijk, voxels.shape[::-1], strict=True)):
        positions = places[inside]
        low = int(np.clip(np.floor(positions.min()), 0, size - 1))
        high = int(np.clip(np.ceil(positions.max()), 0, size - 1))
        box.append(slice(low, high + 1))
        cells[..., axis] = places - low
    block = torch.from_numpy(np.ascontiguousarray(voxels[tuple(box[::-1])], np.float32))
    values = read_linear(block[None, None], torch.from_numpy(cells).view(1, -1, 3))
    return values.view(inside.shape).numpy()
