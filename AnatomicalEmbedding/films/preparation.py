"""Prepare projected films for training: several films of each CT, with the body coordinate of each place.

A place of a film shows all tissue along a ray. Its body coordinate is the mean along the ray, weighted by the density.
The coordinates of a CT come from the deformable registration with one CT, the atlas, and from the map of the atlas. So
the same structure has the same coordinate in the films of all patients.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
import torch

from ..embedding.coverage import apply_affine, robust_affine
from ..embedding.inference import Model, load_model
from ..embedding.map import EmbeddingMap
from ..errors import AnatomicalEmbeddingError
from ..files import write_table
from ..phantom import make_phantom
from ..registration.register import register
from ..scan.geometry import grid_matrix, transform_points
from ..scan.sources import find_scans
from ..scan.volume import Volume
from ..training.crops import body_coordinates
from ..training.frames import frame_from_map
from ..training.preparation import REPORT, align_scan
from ..training.scans import (
    PHANTOM_SEED,
    PreparedScan,
    Spacing,
    as_field,
    prepare_film,
    prepare_volume,
)
from .projection import Beam, Tissue, film_of, random_beam, read_volume, vary_film

_FIELD_MM = 10.0  # distance of the nodes at which the body coordinates of a CT are computed
_LEAST_MM = 20.0  # a ray through less tissue shows no body
PHANTOM_MM = (3.0, 3.0, 3.0)  # voxels of their CTs; by hand: rays average them
CHEST_MM = (330.0, 600.0)  # body heights of synthetic patients
ToBody = Callable[[np.ndarray], np.ndarray]


@dataclass(frozen=True, eq=False)
class Atlas:
    """The CT that defines the body coordinates. scan: the same CT, with the smoothed coordinates of its map."""

    volume: Volume
    embedding: EmbeddingMap
    scan: PreparedScan

    @classmethod
    def of(cls, volume: Volume, model: Model) -> Atlas:
        """Make the atlas of a CT, with its map."""
        embedding = model.embed(volume)
        scan = prepare_volume(volume, frame_from_map(embedding), model.network.spacing_mm)
        return cls(volume, embedding, align_scan(scan, embedding))

    def to_body(self, points_ras: np.ndarray) -> np.ndarray:
        """Convert RAS mm of the atlas (n, 3) to body coordinates; outside the atlas, its frame is continued."""
        voxels = transform_points(np.linalg.inv(self.scan.grid_to_ras), points_ras)
        clipped = np.clip(voxels, 0, np.array(self.scan.hu.shape[::-1]) - 1.0)
        # beyond the atlas, mm times the scale of its frame
        beyond = (voxels - clipped) * np.diag(self.scan.grid_to_ras)[:3] * self.scan.frame.scale
        positions = torch.from_numpy(clipped.astype(np.float32)).view(1, 1, -1, 3)
        return body_coordinates(self.scan, positions).view(-1, 3).numpy() + beyond

    def body_of(self, volume: Volume, model: Model) -> ToBody:
        """Register a CT with the atlas. Returns the function from its RAS mm (n, 3) to body coordinates."""
        if volume.path == self.volume.path:
            return self.to_body
        registration = register((model.embed(volume), self.embedding), (volume, self.volume))
        return lambda points: self.to_body(registration.transform_points(points))


def prepare_films(
    folders: Sequence[Path],
    spacing_mm: Spacing,
    destination: Path,
    atlas: Path,
    weights: str,
    count: int,
    report: Callable[[str], None],
) -> list[Path]:
    """Make and prepare `count` films of each CT in the folders; CTs prepared before are reused.

    Args:
        atlas: file of the CT that defines the body coordinates.
        weights: name or file of the weights that register the CTs with the atlas.

    Returns the prepared files. Raises AnatomicalEmbeddingError if no CT can be used.
    """
    destination.mkdir(parents=True, exist_ok=True)
    model = load_model(weights, "cpu")
    reference: Atlas | None = None
    paths = []
    rows: list[tuple[str, ...]] = []
    for name, source in find_scans(folders, report).items():
        files = [destination / f"{name}-film{n}.safetensors" for n in range(count)]
        if not all(file.exists() for file in files):
            try:
                reference = reference or Atlas.of(Volume.read(atlas), model)
                volume = source.read()
                save_films(volume, reference.body_of(volume, model), files, spacing_mm)
            except AnatomicalEmbeddingError as error:
                report(f"skipped: {error}")
                rows.append((name, source.label, "no", str(error)))
                continue
            report(f"prepared {count} films of {name}")
        rows.append((name, source.label, "yes", ""))
        paths += files
    write_table(destination / REPORT, ("name", "path", "used", "reason"), rows)
    if not paths:
        raise AnatomicalEmbeddingError(
            f"{folders[0]}: no CT can be projected; correct the problems listed above."
        )
    return paths


def prepare_phantom_films(
    patients: int, count: int, spacing_mm: Spacing, destination: Path, report: Callable[[str], None]
) -> list[Path]:
    """Make and prepare films of synthetic patients. Returns their files.

    Args:
        patients: number of patients.
        count: number of films of each patient.
        spacing_mm: size of the pixels.
        destination: folder of the files.
        report: called with a sentence about the progress.
    """
    destination.mkdir(parents=True, exist_ok=True)
    paths = []
    for seed in range(PHANTOM_SEED, PHANTOM_SEED + patients):
        files = [destination / f"phantom{seed}-film{n}.safetensors" for n in range(count)]
        if not all(file.exists() for file in files):
            phantom = make_phantom(seed, PHANTOM_MM, CHEST_MM)
            save_films(phantom.volume, phantom.to_body, files, spacing_mm, "phantom")
            report(f"prepared {count} films of synthetic patient {seed}")
        paths += files
    return paths


def save_films(
    volume: Volume,
    to_body: ToBody,
    files: Sequence[Path],
    spacing_mm: Spacing,
    origin: str = "scan",
) -> None:
    """Project a CT, differently for each file, and save the prepared films.

    Args:
        volume: the CT.
        to_body: converts RAS mm to body coordinates.
        files: the files.
        spacing_mm: size of the pixels.
        origin: what the CT is, see `scans.ORIGINS`.
    """
    tissue = Tissue.of(volume)
    body = body_grid(tissue, to_body)
    for number, file in enumerate(files):
        rng = np.random.default_rng([number, len(file.stem), *file.stem.encode()])
        beam = random_beam(tissue, rng)
        exposed, pasted = vary_film(film_of(tissue, beam, file.stem, rng), rng)
        means = partial(ray_means, tissue, body, beam)
        prepare_film(pasted, exposed, spacing_mm, origin, means).save(file)


def body_grid(tissue: Tissue, to_body: ToBody) -> tuple[torch.Tensor, np.ndarray]:
    """Compute the body coordinates of a CT on a grid. Returns float32 (1, 3, k, j, i), and grid_to_ras (4, 4)."""
    low, high = tissue.box_ras
    matrix = grid_matrix(low - _FIELD_MM, (_FIELD_MM,) * 3)
    shape = (np.ceil((high - low) / _FIELD_MM).astype(int) + 3)[::-1]
    index = np.indices(shape)[::-1].reshape(3, -1).T  # i, j, k
    points = transform_points(matrix, index)
    return as_field(to_body(points).reshape(*shape, 3))[None], matrix


def ray_means(
    tissue: Tissue, body: tuple[torch.Tensor, np.ndarray], beam: Beam, film_ras: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Average the body coordinates along the rays of film places.

    Args:
        tissue: the tissue of the CT.
        body: body coordinates on a grid, and the grid's matrix (4, 4) to RAS mm.
        beam: the rays.
        film_ras: (n, 3) places of the film.

    Returns:
        (n, 3) mm, of which A is the film's own A, and (n,) mm of water along each ray. Rays without tissue get the
        coordinates of an affine function that is fitted to the other rays.
    """
    depths, step = tissue.depths(beam)
    places = beam.at_depth(film_ras, depths[:, None])
    weight = read_volume(tissue.values, tissue.grid_to_ras, places).sum(0)
    coordinate = read_volume(*body, places)
    total = weight.sum(0)
    length = (total * step).numpy()
    mean = ((coordinate * weight).sum(1) / total.clamp_min(1e-6)).numpy().T  # (n, 3)
    is_long = length > _LEAST_MM
    affine, _ = robust_affine(film_ras[is_long], mean[is_long])
    mean = np.where(is_long[:, None], mean, apply_affine(affine, film_ras))
    mean[:, 1] = film_ras[:, 1]
    return mean, length
