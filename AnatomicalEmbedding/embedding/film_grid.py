"""Makes the network's input from a film, a scan with one slice. For a CT, module `body` does this work."""

import numpy as np
import torch
import torch.nn.functional as F

from ..errors import ProgressCallback, VolumeError
from ..scan.checks import MIN_EXTENT_MM
from ..scan.volume import Film, Volume
from .body import patient_on_grid
from .working_grid import WorkingGrid, axis_matrix, canonical_axes

LAYERS = 4  # a film is one cell of the network thick: this number of equal layers along A
BEYOND = -1000.0  # value outside the exposed part of the film
_HIGHEST = 1000.0  # values of the exposed part are 0 to this value
_AROUND_MM = 25.0  # the grey values are compared with their mean and standard deviation within about this distance
_PASSES = 3  # box filters, which together are nearly a Gaussian
_CLIPPED = (0.005, 0.995)  # quantiles of the grey values that are clipped
# a part of the film with less contrast, relative to the whole range, counts as flat
_LEAST_SPREAD = 0.06
_SPREADS = 5.0  # grey values this many standard deviations apart have the values 0 and 1000
# an edge row with less contrast than this share of the whole range shows the collimator
_FLAT = 0.01


def scan_on_grid(
    volume: Volume,
    spacing_mm: tuple[float, float, float],
    lattice: int,
    size_step: int,
    step: ProgressCallback = lambda share, text: None,
) -> tuple[WorkingGrid, np.ndarray]:
    """Make the network's input from a CT or a film.

    Args:
        volume, spacing_mm, lattice, size_step, step: see `body.patient_on_grid` and `film_on_grid`.
    """
    if isinstance(volume, Film):
        return film_on_grid(volume, spacing_mm, lattice, size_step)
    return patient_on_grid(volume, spacing_mm, lattice, size_step, step)


def film_on_grid(
    film: Film, spacing_mm: tuple[float, float, float], lattice: int, size_step: int
) -> tuple[WorkingGrid, np.ndarray]:
    """Make the network's input from a film. Its grey values are made independent of exposure and processing.

    Returns the working grid, with LAYERS equal layers along A, and the mask (k, j, i) of the exposed part of the film.

    Args:
        film: the film.
        spacing_mm: voxel size of the grid along R, A, S.
        lattice: along R and S, the grid starts at a multiple of this number of voxels.
        size_step: its sizes along R and S are multiples of this number of voxels.

    Raises:
        VolumeError: the film shows nothing.
    """
    array, ijk_to_ras = canonical_axes(film)
    values = torch.from_numpy(array[:, 0].astype(np.float32))
    exposed = torch.zeros_like(values)  # 1 in the exposed part
    exposed[_exposed(values.numpy())] = 1.0
    spacing = np.asarray(spacing_mm)
    low, high = film.bounds_ras
    start = np.floor(low / (spacing * lattice)) * spacing * lattice
    start[1] = (low[1] + high[1] - LAYERS * spacing[1]) / 2
    size = np.ceil((high - start) / (spacing * size_step)).astype(int) * size_step
    origin = start + spacing / 2
    means = values
    # first along S, then along R: each pass transposes the planes
    for axis in (2, 0):
        pixel_mm = np.linalg.norm(ijk_to_ras[:3, axis])
        bins = max(int(spacing[axis] / pixel_mm + 0.05), 1)
        first_mm = ijk_to_ras[axis, 3] + pixel_mm * (bins - 1) / 2  # middle of the first bin
        places_mm = origin[axis] + spacing[axis] * np.arange(size[axis])
        places = (places_mm - first_mm) / (pixel_mm * bins)
        means = _read_bins(means, bins, places)
        exposed = _read_bins(exposed, bins, places)
    inside = exposed > 0.5
    if inside.sum() * spacing[0] * spacing[2] < MIN_EXTENT_MM**2:
        raise VolumeError(f"{film.where}: the film shows nothing; give an exposed film.")
    contrast = _contrast(means / exposed.clamp_min(0.5), inside, spacing[0])
    grid = WorkingGrid(_layers(torch.where(inside, contrast, BEYOND)), origin, spacing_mm)
    return grid, _layers(inside).numpy()


def film_grey_values(contrast: torch.Tensor) -> torch.Tensor:
    """Convert the contrast in a film's working grid to grey values (uint8, 0 to 255)."""
    return (contrast.clamp(0, _HIGHEST) * (255 / _HIGHEST)).round().to(torch.uint8)


def _read_bins(plane: torch.Tensor, bins: int, places: np.ndarray) -> torch.Tensor:
    """Average the rows of a plane (n, m) in bins, and interpolate linearly between bins. Returns (m, p).

    Args:
        plane: (n, m).
        bins: number of rows in a bin.
        places: (p,) positions, in bins.
    """
    whole = len(plane) // bins * bins  # rows that fill bins
    means = plane[:whole].unflatten(0, (-1, bins)).mean(1)
    return (axis_matrix(len(means), places) @ means).T


def _layers(plane: torch.Tensor) -> torch.Tensor:
    """Repeat a plane (k, i) in LAYERS layers: (k, j, i)."""
    return plane[:, None].repeat(1, LAYERS, 1)


def _exposed(values: np.ndarray) -> tuple[slice, slice]:
    """Return the rows and columns of a film (k, i) between the edges of the collimator, which have no contrast."""
    low, high = np.quantile(values[::4, ::4], _CLIPPED)
    least = _FLAT * max(high - low, 1e-6)
    slices = []
    for axis in (1, 0):
        uneven = np.flatnonzero(values.std(axis=axis) > least)
        slices.append(slice(uneven[0], uneven[-1] + 1) if len(uneven) else slice(0, 0))
    rows, columns = slices
    return rows, columns


def _contrast(values: torch.Tensor, inside: torch.Tensor, spacing_mm: float) -> torch.Tensor:
    """Compare grey values (k, i) with the mean and the spread of their surroundings. Returns 0 to 1000.

    inside: bool (k, i), the exposed part. spacing_mm: size of a pixel.
    """
    low, high = np.quantile(values[inside].numpy(), _CLIPPED)
    values = ((values - low) / max(float(high - low), 1e-6)).clamp(0, 1)
    weight = inside.float()
    reach = max(round(_AROUND_MM / spacing_mm / _PASSES), 1)
    # sums around each pixel: of the pixels inside, of their values, of the squares of their values
    around = torch.stack([weight, values * weight, values.square() * weight])
    for _ in range(_PASSES):
        around = F.avg_pool2d(around[None], 2 * reach + 1, 1, reach)[0]
    share = around[0].clamp_min(1e-6)
    mean = around[1] / share
    spread = (around[2] / share - mean.square()).clamp_min(0).sqrt()
    return ((values - mean) / (spread + _LEAST_SPREAD) / _SPREADS + 0.5).clamp(0, 1) * _HIGHEST
