"""Radiographs of CTs: the image, and the exact map between points of the CT and places in the film.

A point source behind the patient sends rays to a film in front (posterior-anterior view). Along each ray, the
attenuation of soft tissue and of bone is summed for two energies, so that beam hardening arises. Then scatter, noise,
the film's exposure and a processing curve are applied, and the collimator cuts the film.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import product

import numpy as np
import torch
import torch.nn.functional as F

from ..embedding.body import patient_on_grid
from ..scan.film import film_matrix
from ..scan.geometry import rotations, transform_points
from ..scan.volume import Film, Volume

PIXEL_MM = 1.5  # of a projected film; by hand: finer than the network's 2 mm
_GRID_MM = (2.0, 3.0, 2.0)  # of the CT that is projected
_SOURCE_MM = 1800.0  # from the source to the film
_GAP_MM = 25.0  # from the front of the body to the film
_BONE_HU = 150.0  # HU above count as bone
# per mm of water and of bone (1150 HU), for two energies
_ATTENUATION = ((0.0225, 0.055), (0.0175, 0.028))
_FIRST_ENERGY = 0.45  # share of the first energy
_LEAST_EXPOSURE = 1e-4  # of the full light, so that the logarithm is finite
_LEAST_SHARE = 0.4  # of the height and of the width that a cut film keeps; most films keep more
_LEAST_MM = 120.0  # least height and width of a cut film
_MARGIN_MM = 40.0  # largest margin around a cut film
_SHARPENED = (1, 3, 10)  # pixels, scales on which a film is sharpened or smoothed
_MARKERS = 4  # largest number of markers in a film
_CHUNK = 24  # planes of the body that are sampled at a time
_BRIGHTEST = 4095.0  # of 12 bits, as detectors store


@dataclass(frozen=True, eq=False)
class Beam:
    """Where the rays run: from a point of the CT to a place in the film, and back.

    Args:
        middle_ras: (3,) RAS mm, point of the CT about which the patient is turned.
        turn: (3, 3) rotation of the patient about this point.
        source: (3,) mm, source relative to the middle, after the turn; behind the patient (A < 0).
        film_a: mm along A from the middle to the film.
        centre: (2,) mm, R and S of the film's centre on the film's plane, relative to the middle.
    """

    middle_ras: np.ndarray
    turn: np.ndarray
    source: np.ndarray
    film_a: float
    centre: np.ndarray

    def to_film(self, points_ras: np.ndarray) -> np.ndarray:
        """Project points (n, 3), RAS mm of the CT, to the film. Returns (n, 3) RAS mm of the film; A is 0."""
        turned = (np.asarray(points_ras) - self.middle_ras) @ self.turn.T
        share = (self.film_a - self.source[1]) / (turned[:, 1] - self.source[1])
        places = self.source + share[:, None] * (turned - self.source)
        places[:, [0, 2]] -= self.centre
        places[:, 1] = 0
        return places

    def at_depth(self, film_ras: np.ndarray, depth_mm: np.ndarray) -> np.ndarray:
        """Return the points on the rays of film places.

        Args:
            film_ras: (n, 3) RAS mm of the film.
            depth_mm: (n,) or (d, 1) mm along A from the middle of the patient; negative: behind.

        Returns:
            (n, 3) or (d, n, 3) RAS mm of the CT.
        """
        r, _, s = film_ras.T
        a = np.full(len(r), self.film_a)
        on_film = np.column_stack([r + self.centre[0], a, s + self.centre[1]])
        share = (np.asarray(depth_mm) - self.source[1]) / (self.film_a - self.source[1])
        turned = self.source + share[..., None] * (on_film - self.source)
        return turned @ self.turn + self.middle_ras  # points are rows, so this turns back


@dataclass(frozen=True, eq=False)
class Tissue:
    """A CT prepared for projections.

    values: float32 (1, 2, k, j, i), the mm of water and of bone that a ray passes per mm. grid_to_ras: (4, 4).
    """

    values: torch.Tensor
    grid_to_ras: np.ndarray

    @classmethod
    def of(cls, volume: Volume) -> Tissue:
        """Prepare a CT: the couch is removed. Raises VolumeError if the CT shows no patient."""
        grid, _ = patient_on_grid(volume, _GRID_MM, 2, 2)
        water = (1 + grid.hu.clamp(-1000, _BONE_HU) / 1000).clamp_min(0)
        bone = (grid.hu - _BONE_HU).clamp(0, 2500) / 1000
        return cls(torch.stack([water, bone])[None], grid.grid_to_ras)

    @property
    def box_ras(self) -> np.ndarray:
        """(2, 3) lowest and highest corner of the body, RAS mm."""
        last = np.array(self.values.shape[:1:-1]) - 1
        return transform_points(self.grid_to_ras, np.array([np.zeros(3), last]))

    def lengths(self, beam: Beam, film_ras: np.ndarray) -> torch.Tensor:
        """Sum water and bone along the rays of film places (n, 3). Returns (2, n) mm."""
        depths, step = self.depths(beam)
        total = torch.zeros(2, len(film_ras))
        for part in np.array_split(depths, max(len(depths) // _CHUNK, 1)):
            places = beam.at_depth(film_ras, part[:, None])
            total += read_volume(self.values, self.grid_to_ras, places).sum(1)
        return total * step

    def depths(self, beam: Beam) -> tuple[np.ndarray, float]:
        """Return the depths at which rays are sampled, (d,) mm from the middle along A, and their distance, mm."""
        low, high = self.box_ras
        step = _GRID_MM[1]
        # half of the body's depth, and what a turned patient adds; no farther than the film
        reach = np.linalg.norm(high - low) / 2 * 0.35 + (high[1] - low[1]) / 2
        reach = min(reach, beam.film_a)
        return np.arange(-reach, reach, step), step


def read_volume(
    values: torch.Tensor, grid_to_ras: np.ndarray, places_ras: np.ndarray
) -> torch.Tensor:
    """Interpolate values at places; 0 outside. Returns (c, d, n).

    Args:
        values: (1, c, k, j, i).
        grid_to_ras: (4, 4), from i, j, k to RAS mm.
        places_ras: (d, n, 3) RAS mm.
    """
    size = np.array(values.shape[:1:-1])
    ijk = transform_points(np.linalg.inv(grid_to_ras), places_ras.reshape(-1, 3))
    index = ijk.reshape(places_ras.shape)
    # `grid_sample` counts from -1 to 1, between the outer sides of the outermost voxels
    positions = torch.from_numpy(((index + 0.5) * (2 / size) - 1).astype(np.float32))[None, None]
    return F.grid_sample(values, positions, align_corners=False)[0, :, 0]


def straight_beam(tissue: Tissue) -> Beam:
    """Return the usual beam of a chest film: no turn, the source in the middle."""
    low, high = tissue.box_ras
    film_a = (high[1] - low[1]) / 2 + _GAP_MM
    source = np.array([0.0, film_a - _SOURCE_MM, 0.0])
    return Beam((low + high) / 2, np.eye(3), source, film_a, np.zeros(2))


def random_beam(tissue: Tissue, rng: np.random.Generator) -> Beam:
    """Draw a beam: the patient is turned and bent forward by some degrees, source and film are not centred."""
    plain = straight_beam(tissue)
    about_x, about_y, about_z = rotations(rng.normal(0, np.radians([6, 2.5, 4])))
    film_a = plain.film_a + rng.uniform(0, 40)
    source = np.array([rng.normal(0, 25), film_a - rng.uniform(1200, 2000), rng.normal(0, 60)])
    return Beam(plain.middle_ras, about_x @ about_y @ about_z, source, film_a, rng.normal(0, 12, 2))


def film_of(
    tissue: Tissue,
    beam: Beam,
    name: str,
    rng: np.random.Generator | None = None,
    pixel_mm: float = PIXEL_MM,
) -> Film:
    """Make the film of a CT.

    Args:
        tissue: the CT.
        beam: the rays.
        name: name of the film.
        pixel_mm: size of the pixels.
        rng: draws exposure, scatter, noise, processing and collimation; None for a plain film of the whole CT.

    Returns:
        The film, with grey values that increase with the attenuation. Outside the collimator, the grey value is 0.
    """
    # R and S of the corners of the body; the film is centred at 0
    corners = beam.to_film(np.array(list(product(*tissue.box_ras.T))))[:, [0, 2]]
    reach = np.abs(corners).max(axis=0)
    columns, rows = (int(n) for n in np.ceil(2 * reach / pixel_mm))
    matrix = film_matrix((rows, columns), (pixel_mm, pixel_mm))
    index = np.indices((1, rows, columns))[::-1].reshape(3, -1).T  # i, j, k
    places = transform_points(matrix, index)
    water, bone = tissue.lengths(beam, places).view(2, rows, columns)
    grey = expose(water, bone, rng, pixel_mm)
    # pixels stay 0 that the collimator covers, or whose ray misses the CT: a film would show unknown tissue there
    exposed = _shown(water, rng)
    grey = np.where(exposed, grey, 0.0).astype(np.float32)
    return Film(grey[None], matrix, name, is_projection=True)


def _shown(water: torch.Tensor, rng: np.random.Generator | None) -> np.ndarray:
    """Return the mask (j, i) of a film that is not collimated. Rows that the CT does not fill are left out."""
    # share of each row in which a ray passes tissue
    filled = (water > 20.0).float().mean(1).numpy()
    rows = np.flatnonzero(filled > 0.5 * np.quantile(filled, 0.9))
    exposed = np.zeros(tuple(water.shape), bool)
    exposed[rows[0] : rows[-1] + 1] = True
    if rng is not None:
        # what the collimator cuts off
        top, bottom = (rng.uniform(0, 0.12, 2) * (rows[-1] + 1 - rows[0])).astype(int)
        left, right = (rng.uniform(0, 0.1, 2) * water.shape[1]).astype(int)
        exposed[: rows[0] + top] = False
        exposed[rows[-1] + 1 - bottom :] = False
        exposed[:, :left] = False
        exposed[:, water.shape[1] - right :] = False
    return exposed


def expose(
    water: torch.Tensor,
    bone: torch.Tensor,
    rng: np.random.Generator | None,
    pixel_mm: float,
) -> np.ndarray:
    """Turn path lengths into the grey values of a film, 1 to 4095.

    Args:
        water, bone: (j, i) mm of water and of bone along each ray.
        rng: random numbers; None for mean scatter and a mean processing curve, without noise.
        pixel_mm: size of the pixels.
    """
    share, bone_weight, scatter, scatter_mm = _FIRST_ENERGY, 1.0, 0.4, 30.0
    if rng is not None:
        share = rng.uniform(0.2, 0.7)
        bone_weight = rng.uniform(0.7, 2.2)
        scatter = rng.uniform(0.0, 1.5)
        scatter_mm = rng.uniform(15.0, 60.0)
    primary = torch.zeros_like(water)
    for energy_share, (of_water, of_bone) in zip((share, 1 - share), _ATTENUATION, strict=True):
        attenuation = of_water * water + of_bone * bone_weight * bone
        primary = primary + energy_share * torch.exp(-attenuation)
    reach = max(round(scatter_mm / pixel_mm), 1)
    light = primary + scatter * _blurred(_blurred(primary, reach), reach)  # about a Gaussian
    if rng is not None:
        light = _noisy(light, rng)
    grey = -torch.log(light.clamp_min(_LEAST_EXPOSURE))
    low, high = (float(q) for q in np.quantile(grey.numpy(), (0.02, 0.98)))
    grey = (grey - low) / max(high - low, 1e-6)
    if rng is not None:
        grey = _processed(grey, rng, pixel_mm)
    return (grey.clamp(0, 1.2) / 1.2 * (_BRIGHTEST - 1) + 1).numpy()


def _noisy(light: torch.Tensor, rng: np.random.Generator) -> torch.Tensor:
    """Add quantum noise to the light (j, i) on a film; its share of the light is larger in dark places."""
    noise = torch.from_numpy(rng.standard_normal(tuple(light.shape), dtype=np.float32))
    darkness = (light.mean() / light.clamp_min(1e-6)).sqrt().clamp(max=3)
    light = light * (1 + rng.uniform(0, 0.01) * noise * darkness)
    return _blurred(light, 1) if rng.random() < 0.5 else light


def _processed(grey: torch.Tensor, rng: np.random.Generator, pixel_mm: float) -> torch.Tensor:
    """Process a film (j, i) as a workstation does: by a curve, sharpening or smoothing, and another brightness."""
    slope = rng.uniform(2.0, 6.0)
    middle = rng.uniform(0.35, 0.65)
    curve = torch.sigmoid(slope * (grey - middle))
    grey = torch.lerp(grey.clamp(-0.5, 1.5), curve, float(rng.uniform(0, 1)))
    reach = max(round(rng.uniform(4, 25) / pixel_mm), 1)
    smooth = _blurred(_blurred(grey, reach), 2)
    grey = grey + rng.uniform(-0.2, 1.0) * (grey - smooth)
    return grey.clamp(0, 1.2) ** rng.uniform(0.6, 1.6)


def cut_film(film: Film, rng: np.random.Generator) -> Film:
    """Return the part of a film that a narrower collimator shows, at a random place, in a random margin of 0."""
    exposed = film.voxels[0] > 0
    slices = []
    for axis in (0, 1):
        places = np.flatnonzero(exposed.any(axis=1 - axis))
        length = round(len(places) * (1 - (1 - _LEAST_SHARE) * rng.random() ** 2))
        length = min(max(length, int(_LEAST_MM / film.spacing[0])), len(places))
        first = places[0] + int(rng.integers(len(places) - length + 1))
        slices.append(slice(first, first + length))
    rows, columns = slices
    # (rows and columns, before and after)
    margin = (rng.uniform(0, _MARGIN_MM, (2, 2)) / film.spacing[0]).astype(int)
    part = np.pad(film.voxels[0, rows, columns], margin)
    matrix = film.ijk_to_ras.copy()
    origin = np.array([[columns.start - margin[1, 0], rows.start - margin[0, 0], 0]])
    matrix[:3, 3] = transform_points(matrix, origin)[0]
    return replace(film, voxels=part[None], ijk_to_ras=matrix)


def vary_film(film: Film, rng: np.random.Generator) -> tuple[Film, Film]:
    """Change a film so that a network learns neither the look of projections nor the borders of the picture.

    The film is cut at random. Brightness, contrast, sharpness and noise change, and markers are added.

    Returns the film with grey value 0 outside the collimator; and the same film on a random background.
    """
    film = cut_film(film, rng)
    exposed = film.voxels[0] > 0
    grey = torch.from_numpy(film.voxels[0] / _BRIGHTEST) ** float(np.exp(rng.uniform(-0.6, 0.6)))
    shade = torch.from_numpy(rng.uniform(-0.25, 0.25, (1, 1, 4, 4))).float()
    grey = grey + F.interpolate(shade, grey.shape, mode="bicubic")[0, 0]
    for reach in _SHARPENED:
        if rng.random() < 0.5:
            grey = grey + rng.uniform(-0.7, 1.5) * (grey - _blurred(grey, reach))
    background = torch.full_like(grey, float(rng.choice([0.0, 1.0, rng.random()])))
    # markers in the film, and in three of ten films, around it, too
    most_around = 2 * _MARKERS * (rng.random() < 0.3)
    for image, most in ((grey, _MARKERS), (background, most_around)):
        for _ in range(rng.integers(most + 1)):
            _mark(image, rng)
    voxels = np.where(exposed, grey.clamp(0, 1).numpy() * (_BRIGHTEST - 1) + 1, 0.0)
    pasted = np.where(exposed, voxels, background.clamp(0, 1).numpy() * _BRIGHTEST)
    return (
        replace(film, voxels=voxels.astype(np.float32)[None]),
        replace(film, voxels=pasted.astype(np.float32)[None]),
    )


def _mark(image: torch.Tensor, rng: np.random.Generator) -> None:
    """Draw a letter, a wire or a plate into an image (j, i), at a random place."""
    kind = rng.choice(["letter", "wire", "plate"])
    level = float(rng.uniform(0, 1.2))
    thick = int(rng.integers(1, 4))
    top, left = rng.integers(0, image.shape)
    is_letter = kind == "letter"
    strokes = int(rng.integers(2, 5)) if is_letter else 1
    for stroke in range(strokes):
        size = rng.integers(4, 12 if is_letter else 50, 2)
        if kind == "plate":
            size = size // 2
        else:  # strokes run down and across in turn
            size[(stroke + len(kind)) % 2] = thick
        height, width = size
        image[top : top + height, left : left + width] = level
        down, right = rng.integers(0, 8, 2)
        top += down
        left += right


def _blurred(image: torch.Tensor, reach: int) -> torch.Tensor:
    """Average an image (j, i) over squares that reach `reach` pixels to each side."""
    return F.avg_pool2d(image[None, None], 2 * reach + 1, 1, reach, count_include_pad=False)[0, 0]
