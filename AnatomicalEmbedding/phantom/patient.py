"""Synthetic patients and their scans; `phantom_views` makes the scans that validation and benchmarks use."""

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from ..scan.volume import Volume
from .anatomy import Anatomy, canonical_anatomy
from .deformation import Deformation
from .landmarks import LANDMARKS
from .render import ScanGrid, Spacing, render
from .tissues import LABEL_ID, PHASES, hu_table

BODY_RANGE_MM = (-115.0, 828.0)  # lowest and highest body height that a scan can show
_EVERY = 7  # voxels; the outline of the body is smooth
# of PHASES; by hand: native and portal venous scans are most frequent
_PHASE_ODDS = (0.3, 0.18, 0.38, 0.14)
_MARGIN_MM = (12.0, 12.0, 40.0)  # air at the sides, in front, and behind (room for the couch)
# lowest and highest body height that a scan shows, mm; None: the whole body
VIEWS = {"whole": None, "lower half": (-100.0, 330.0), "upper half": (250.0, 620.0)}
# of the voxels in training, libraries and validation; by hand: finer than the 3 x 3 x 4 mm that networks see
SPACING_MM = (2.0, 2.0, 3.0)


@dataclass(frozen=True, eq=False)
class Phantom:
    """A synthetic CT with its exact truth.

    volume: int16 HU. labels: (k, j, i) uint8, on the volume's grid. label_names: number -> name, as in
    TotalSegmentator. points_ras: name -> (3,) RAS mm; only points inside the volume. deformation: transform to the
    canonical body.
    """

    volume: Volume
    labels: np.ndarray = field(repr=False)
    label_names: Mapping[int, str] = field(repr=False)
    points_ras: Mapping[str, np.ndarray] = field(repr=False)
    deformation: Deformation = field(repr=False)

    def to_body(self, points_ras: np.ndarray) -> np.ndarray:
        """Convert points (N, 3), inside or outside the body, from patient RAS mm to the canonical body frame, mm."""
        return self.deformation.to_body(points_ras)

    def from_body(self, points_body: np.ndarray) -> np.ndarray:
        """Convert points (N, 3) from the canonical body frame, mm, to patient RAS mm: the inverse of `to_body`."""
        return self.deformation.from_body(points_body)


def map_points(a: Phantom, b: Phantom, points_ras: np.ndarray) -> np.ndarray:
    """Map points of one patient to the same anatomy in another patient. Returns (N, 3) RAS mm, exact.

    Args:
        a: the patient of the points.
        b: the other patient.
        points_ras: (N, 3) RAS mm.
    """
    return b.from_body(a.to_body(points_ras))


def make_phantom(
    seed: int,
    spacing: Spacing = (2.0, 2.0, 2.0),
    coverage_mm: tuple[float, float] | None = None,
    noise_hu: float = 12.0,
    table: bool = True,
    contrast: str | None = None,
) -> Phantom:
    """Make one synthetic patient and scan it.

    The seed alone decides the patient. The same seed with another spacing, coverage or contrast gives the same person
    in the same position on the table.

    Args:
        seed: which patient, 0 or more.
        spacing: voxel size in x, y, z, mm.
        coverage_mm: lowest and highest body height that the scan shows, mm above the femoral heads (kidneys 257, carina
            469); default: from the thighs to the vertex.
        noise_hu: standard deviation of the image noise.
        table: whether to draw the couch.
        contrast: "native", "arterial", "portal" or "delayed"; default: chosen by the seed.

    Returns:
        The scan with labels, named points and the transform to the canonical body. Equal arguments give equal scans.
    """
    low, high = coverage_mm or BODY_RANGE_MM
    shape_rng, phase_rng, hu_rng, image_rng, sex_rng = map(
        np.random.default_rng, np.random.SeedSequence(seed).spawn(5)
    )
    deformation = Deformation.random(shape_rng)
    phase = contrast or str(phase_rng.choice(PHASES, p=_PHASE_ODDS))
    anatomy = canonical_anatomy(bool(sex_rng.random() < 0.5))
    grid = grid_about(deformation, anatomy, spacing, low, high)
    voxels, labels = render(
        deformation.to_body, grid, anatomy, hu_table(phase, hu_rng), noise_hu, table, image_rng
    )
    volume = Volume(voxels, grid.ijk_to_ras, name=f"phantom-{seed}")
    places = deformation.from_body(np.stack(list(LANDMARKS.values())))
    visible = {
        name: place
        for name, place, ok in zip(LANDMARKS, places, volume.contains(places), strict=True)
        if ok
    }
    names = {number: name for name, number in LABEL_ID.items()}
    return Phantom(volume, labels, names, visible, deformation)


def grid_about(
    deformation: Deformation,
    anatomy: Anatomy,
    spacing: Spacing,
    low: float,
    high: float,
) -> ScanGrid:
    """Make the grid of a scan that shows a part of the body.

    Args:
        deformation: the transform of the patient.
        anatomy: the canonical body.
        spacing: voxel size in x, y, z, mm.
        low, high: lowest and highest body height of the part, mm.
    """
    bottom, top = deformation.from_body(np.array([[0, 0, low], [0, 0, high]]))[:, 2]
    outline = deformation.from_body(_body_points(anatomy, low, high))
    low_x = outline[:, 0].min() - _MARGIN_MM[0]
    high_x = outline[:, 0].max() + _MARGIN_MM[0]
    front = outline[:, 1].max() + _MARGIN_MM[1]
    rear = outline[:, 1].min() - _MARGIN_MM[2]
    size = np.array([top - bottom, front - rear, high_x - low_x])
    k, j, i = np.maximum(np.rint(size / np.array(spacing)[::-1]), 2).astype(int).tolist()
    first = np.array([high_x - spacing[0] / 2, front - spacing[1] / 2, bottom + spacing[2] / 2])
    return ScanGrid(first, spacing, (k, j, i))


def _body_points(anatomy: Anatomy, low: float, high: float) -> np.ndarray:
    """Return the positions (N, 3), mm, of voxels of the canonical body between the heights `low` and `high`, mm. Of
    _EVERY voxels along an axis, one is returned."""
    slices = (np.array([low, high]) - anatomy.low[2]) / anatomy.step
    first, last = np.clip(slices, 0, len(anatomy.label) - 1).astype(int)
    rows = np.unique(np.append(np.arange(first, last, _EVERY), last))
    k, j, i = np.nonzero(anatomy.label[rows][:, ::_EVERY, ::_EVERY])
    return np.stack([i * _EVERY, j * _EVERY, rows[k]], axis=1) * anatomy.step + anatomy.low


def phantom_views(seed: int) -> dict[str, Phantom]:
    """Make the scans of one synthetic patient that show the heights in VIEWS. Returns name of the view -> scan."""
    return {view: make_phantom(seed, SPACING_MM, heights) for view, heights in VIEWS.items()}
