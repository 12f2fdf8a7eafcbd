"""Samplers choose the scan, the place and the size of each crop of a batch.

The seed and the number of a batch determine all crops of the batch. So a stopped run continues with the same batches.

Descriptors are learnt from pairs of views, and from points that both views of a pair show (Yan 2022, Algorithm 1, lines
1-5). A view is a crop. Usually, both views of a pair are crops of one scan. The views may differ in scale, rotation,
elastic deformation and intensity. Each view comes with the positions of its cells in the scan. These positions show
where a point of the first view lies in the second view.
"""

import signal
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from torch.utils.data import Dataset

from ..embedding.grid_reading import flat_index
from ..embedding.models.network import LOCAL_STRIDE
from ..errors import AnatomicalEmbeddingError
from .augmentation import augment
from .crops import Crop, Size, body_coordinates, cell_positions, cut_crop, draw_geometry
from .recipes import Recipe
from .scans import ORIGINS, PreparedScan

_KEEP_INSIDE = 0.7  # share of crops that are moved into the scan, along the axes on which the scan is long enough
_SEARCH = 4  # a point is searched for in the second view within this many local cells of its approximate place
_CANDIDATES = 4  # cells tried for each wanted point, because some cells lie outside the second view or the body
_TRIES = 10  # to crop a pair of views, before another pair is drawn; by hand
_TISSUE_HU = -900.0  # higher HU counts as tissue, lung included; the outside of the body is air
_ROUNDS = 12  # in which the partner place is approached; by hand
_SAME_PLACE_MM = 4.0  # if it is farther off then, the partner does not show it; by hand
_FEWEST = 16  # a pair with fewer shared points is replaced by another pair of views


@dataclass
class CoordinateBatch:
    """A batch of b crops. A crop has k x j x i voxels; a cell has 4 x 4 x 4 voxels.

    image: (b, 1, k, j, i) network input. body_mm: (b, 3, k/4, j/4, i/4) body coordinates of the cells, mm. inside: bool
    (b, k/4, j/4, i/4), True for cells in the body. scan: (b,) number of each crop's scan.
    """

    image: torch.Tensor
    body_mm: torch.Tensor
    inside: torch.Tensor
    scan: torch.Tensor


class BatchSampler(Dataset):
    """Base class of all samplers: chooses a scan and a place in it for each crop."""

    def __init__(self, scans: list[PreparedScan], recipe: Recipe, seed: int):
        self.scans = scans
        self.recipe = recipe
        self.seed = seed
        self.ranges = np.array([s.height_range_mm for s in scans])
        self.origin = np.array([ORIGINS.index(s.origin) for s in scans])
        # shares of the crops, in the order of ORIGINS; an origin without a scan gets none
        shares = np.array([0.0, recipe.batch.label_image_share, recipe.batch.phantom_share])
        shares[0] = 1 - shares.sum()
        present = np.isin(np.arange(len(ORIGINS)), self.origin).astype(float)
        chances = shares * present if (shares * present).any() else present
        self.shares = chances / chances.sum()
        # of each scan: the slices k that show the body
        self.rows = [np.flatnonzero(scan.body.flatten(1).any(1).cpu().numpy()) for scan in scans]
        self.spacing = np.array(recipe.network.spacing_mm)
        self.planar = recipe.network.planar
        # low, high: (bands,) mm; reached: (scans,) whether a scan shows a height in some band
        low, high = np.array([b[:2] for b in recipe.batch.height_bands if b[2] > 0]).T
        reached = ((self.ranges[:, :1] <= high) & (low <= self.ranges[:, 1:])).any(axis=1)
        for origin in set(self.origin):
            if not reached[self.origin == origin].any():
                raise AnatomicalEmbeddingError(
                    f"recipe {recipe.name}: no {ORIGINS[origin]} shows a body height within batch.height_bands; "
                    "check the level readings of the scans, or change these bands."
                )

    def rng(self, step: int, part: int = 0) -> np.random.Generator:
        """Make the random generator of batch `step` or, if `part` > 0, of crop or pair number `part` of this batch."""
        return np.random.default_rng([self.seed, step, part])

    def crop_size(self, step: int) -> Size:
        """Choose the size of all crops in batch number `step`: (i, j, k) voxels."""
        sizes = self.recipe.batch.crop_sizes
        i, j, k = sizes[int(self.rng(step).integers(len(sizes)))]
        return i, j, k

    def aim(self, rng: np.random.Generator) -> tuple[int, np.ndarray]:
        """Choose a random body height. Return the number of a scan, and a body voxel (i, j, k) near this height."""
        bands = np.array(self.recipe.batch.height_bands)
        origin = int(rng.choice(len(ORIGINS), p=self.shares))
        while True:
            band = bands[rng.choice(len(bands), p=bands[:, 2] / bands[:, 2].sum())]
            height = rng.uniform(band[0], band[1])
            in_range = (self.ranges[:, 0] <= height) & (height <= self.ranges[:, 1])
            candidates = np.flatnonzero(in_range & (self.origin == origin))
            if len(candidates):
                break
        index = int(rng.choice(candidates))
        scan = self.scans[index]
        low, high = self.ranges[index]
        k = round((height - low) / (high - low) * (scan.hu.shape[0] - 1))
        k = int(self.rows[index][np.abs(self.rows[index] - k).argmin()])
        in_slice = torch.nonzero(scan.body[k])
        j, i = in_slice[int(rng.integers(len(in_slice)))].tolist()
        return index, np.array([i, j, k], float)


class CoordinateSampler(BatchSampler):
    """Makes the batches for the training objective "coordinates"."""

    def __getitem__(self, step: int) -> CoordinateBatch:
        batch = self.recipe.batch
        size = self.crop_size(step)
        rows = []
        for part in range(max(batch.voxels_per_batch // int(np.prod(size)), 1)):
            rng = self.rng(step, 1 + part)
            index, centre = self.aim(rng)
            scan = self.scans[index]
            lattice = draw_geometry(self.recipe.augmentation, size, self.spacing, rng, self.planar)
            if rng.random() < _KEEP_INSIDE:
                centre = move_inside(centre, lattice, scan)
            rows.append(coordinate_row(self.recipe, scan, index, centre, lattice, size, rng))
        return CoordinateBatch(*map(torch.stack, zip(*rows, strict=True)))


def coordinate_row(
    recipe: Recipe,
    scan: PreparedScan,
    index: int,
    centre_ijk: np.ndarray,
    lattice_mm: np.ndarray,
    size_ijk: Size,
    rng: np.random.Generator,
) -> tuple[torch.Tensor, ...]:
    """Cut one crop out of a scan. Returns image, body_mm, inside and scan, as in `CoordinateBatch`.

    Args:
        recipe: settings of the network and of the random changes.
        scan: the scan.
        index: its number.
        centre_ijk, lattice_mm, size_ijk: as for `cut_crop`.
        rng: random numbers.
    """
    crop = cut_crop(scan, centre_ijk, lattice_mm, size_ijk)
    body_mm, inside = cell_positions(scan, crop)
    return (
        augment(crop.hu, recipe.augmentation, recipe.network, rng)[None],
        body_mm,
        inside,
        torch.tensor(index),
    )


def move_inside(centre_ijk: np.ndarray, lattice_mm: np.ndarray, scan: PreparedScan) -> np.ndarray:
    """Return a crop's centre (i, j, k), moved so that the crop lies in the scan.

    If the crop is longer than the scan along an axis, the crop is centred on the scan along this axis.

    Args:
        centre_ijk: (3,) the centre.
        lattice_mm: (3, k, j, i) mm from the crop's centre to each point of a coarse lattice in the crop.
        scan: the scan.
    """
    half = np.abs(lattice_mm).max((1, 2, 3)) / scan.spacing_mm
    last = scan.size_ijk - 1.0
    return np.where(
        last > 2 * half, np.clip(centre_ijk, half, np.maximum(last - half, half)), last / 2
    )


@dataclass
class ViewBatch:
    """n pairs of views: the first views of all pairs, then the second views. A local cell has 2 x 2 x 2 voxels.

    image: (2n, 1, k, j, i). body_mm, inside, scan: as in `CoordinateBatch`.
    position_mm: (2n, 3, k/2, j/2, i/2) RAS mm of the local cells; body coordinates if the pair shows two patients.
    labels: uint8 (2n, k/2, j/2, i/2), 1 + index of the cell's organ in the recipe, or 0. labelled: bool
    (2n, organs), whether the organ is labelled in the scan. first_cells, second_cells: (n, p, 3) local cells (i, j, k)
    of the p points that both views show; integers in the first view, fractions in the second view.
    """

    image: torch.Tensor
    body_mm: torch.Tensor
    inside: torch.Tensor
    scan: torch.Tensor
    position_mm: torch.Tensor
    labels: torch.Tensor
    labelled: torch.Tensor
    first_cells: torch.Tensor
    second_cells: torch.Tensor


class _ViewPair(NamedTuple):
    """Two views, results of `_view`, and the cells (p, 3) of the p points that both show.

    With fewer common points than wanted, points are repeated.
    """

    first: dict[str, torch.Tensor]
    second: dict[str, torch.Tensor]
    first_cells: torch.Tensor
    second_cells: torch.Tensor


class ViewSampler(BatchSampler):
    """Makes the batches for the training objectives "descriptors" and "hybrid"."""

    def __getitem__(self, step: int) -> ViewBatch:
        batch = self.recipe.batch
        size = self.crop_size(step)
        pairs = [self._pair(size, self.rng(step, 1 + n)) for n in range(batch.pairs)]
        views = [pair.first for pair in pairs] + [pair.second for pair in pairs]
        stacked = {name: torch.stack([view[name] for view in views]) for name in views[0]}
        return ViewBatch(
            **stacked,
            first_cells=torch.stack([pair.first_cells for pair in pairs]),
            second_cells=torch.stack([pair.second_cells for pair in pairs]),
        )

    def _pair(self, size: Size, rng: np.random.Generator) -> _ViewPair:
        """Draw a pair of views that show at least _FEWEST points in common."""
        count = self.recipe.batch.points_per_pair
        while True:
            index, voxel = self.aim(rng)
            partner, partner_voxel = self._partner(index, voxel, rng)
            aims = (index, voxel), (partner, partner_voxel)
            in_body = index != partner  # two scans share no RAS positions
            for _ in range(_TRIES):
                first, second = self._crops(aims, size, rng)
                first_mm = _positions(self.scans[index], first, in_body)
                second_mm = _positions(self.scans[partner], second, in_body)
                cells, partner_cells = matching_cells(
                    first.hu, first_mm, second_mm, count * _CANDIDATES, rng
                )
                if len(cells) >= _FEWEST:
                    chosen = torch.arange(count) % len(cells)
                    return _ViewPair(
                        self._view(index, first, first_mm, rng),
                        self._view(partner, second, second_mm, rng),
                        cells[chosen],
                        partner_cells[chosen],
                    )

    def _partner(
        self, index: int, voxel: np.ndarray, rng: np.random.Generator
    ) -> tuple[int, np.ndarray]:
        """Return the scan number and the voxel i, j, k for the second view of a pair. The result is `index` and
        `voxel`, or sometimes, if the scan shows a phantom, the same place of the body in a scan of another phantom.
        Of a film, it is sometimes the same place in another film, because the coordinates of all films are exact."""
        exact = self.origin == ORIGINS.index("phantom")
        if self.planar:
            exact = self.origin == self.origin[index]
        partners = np.flatnonzero(exact & (np.arange(len(self.scans)) != index))
        if exact[index] and len(partners) and rng.random() < self.recipe.batch.cross_share:
            partner = int(rng.choice(partners))
            place = counterpart(self.scans[index], voxel, self.scans[partner])
            if place is not None:
                return partner, place
        return index, voxel

    def _crops(
        self,
        aims: tuple[tuple[int, np.ndarray], tuple[int, np.ndarray]],
        size: Size,
        rng: np.random.Generator,
    ) -> list[Crop]:
        """Cut two crops of `size` voxels (i, j, k) that overlap by a random share along each axis. aims: for each crop,
        the number of its scan and the voxel i, j, k of this scan near which the crop is cut."""
        crops = []
        low, high = self.recipe.batch.overlap
        side = np.where(rng.random(3) < 0.5, -1, 1)
        shift = side * (1 - rng.uniform(low, high))
        for part, (index, voxel) in zip((-0.5, 0.5), aims, strict=True):
            scan = self.scans[index]
            lattice = draw_geometry(self.recipe.augmentation, size, self.spacing, rng, self.planar)
            length = lattice.max((1, 2, 3)) * 2 / scan.spacing_mm
            centre = voxel + part * shift * length
            if rng.random() < _KEEP_INSIDE:
                centre = move_inside(centre, lattice, scan)
            if self.planar:
                centre[1] = (scan.hu.shape[1] - 1) / 2
            crops.append(cut_crop(scan, centre, lattice, size))
        return crops

    def _view(
        self, index: int, crop: Crop, position: torch.Tensor, rng: np.random.Generator
    ) -> dict[str, torch.Tensor]:
        """Return one view with the fields of `ViewBatch`, except the cells of shared points.

        Args:
            index: number of the scan.
            crop: the crop.
            position: result of `_positions`.
            rng: random numbers for the changes of the grey values.
        """
        body_mm, inside = cell_positions(self.scans[index], crop)
        labels, labelled = self._labels(self.scans[index], crop)
        return {
            "image": augment(crop.hu, self.recipe.augmentation, self.recipe.network, rng)[None],
            "body_mm": body_mm,
            "inside": inside,
            "scan": torch.tensor(index),
            "position_mm": position.movedim(-1, 0).contiguous(),
            "labels": labels,
            "labelled": labelled,
        }

    def _labels(self, scan: PreparedScan, crop: Crop) -> tuple[torch.Tensor, torch.Tensor]:
        """Return two tensors. The first has, for each local cell (k, j, i), the number of its organ in the recipe's
        organs, counted from 1, or 0 if the cell has no label. The second, bool (organs,), is True for each organ that
        the scan has labels for."""
        organs = self.recipe.network.organs
        device = crop.hu.device
        labelled = torch.tensor(
            [name in scan.label_names for name in organs], dtype=torch.bool, device=device
        )
        if scan.labels is None or not labelled.any():
            shape = [n // LOCAL_STRIDE for n in crop.hu.shape]
            no_labels = torch.zeros(shape, dtype=torch.uint8, device=device)
            return no_labels, torch.zeros_like(labelled)
        voxel = crop.warp.voxel_ijk(LOCAL_STRIDE).round().long()
        row, inside = flat_index(voxel, scan.labels.shape)
        organ_numbers = scan.numbers_among(organs).to(device)
        return organ_numbers[scan.labels.flatten()[row].long()] * inside, labelled


def counterpart(
    scan: PreparedScan, voxel_ijk: np.ndarray, target: PreparedScan
) -> np.ndarray | None:
    """Find the voxel of a scan with the same body coordinates as a voxel of another scan; None if no voxel has them.

    The search starts in the middle of `target`. Each step corrects the remaining error in body coordinates.

    Args:
        scan: the scan of the voxel.
        voxel_ijk: (3,) the voxel.
        target: the scan in which a voxel is searched.
    """

    def body_at(searched: PreparedScan, voxel: np.ndarray) -> np.ndarray:
        position = torch.from_numpy(voxel.astype(np.float32)).to(searched.hu.device)
        return body_coordinates(searched, position.view(1, 1, 1, 3)).view(3).double().cpu().numpy()

    goal_mm = body_at(scan, voxel_ijk)
    voxel_mm = target.spacing_mm * target.frame.scale  # in the body frame
    place = target.size_ijk / 2
    for _ in range(_ROUNDS):
        place = place + (goal_mm - body_at(target, place)) / voxel_mm
        place = np.clip(place, 0, target.size_ijk - 1)
    i, j, k = place.round().astype(int)
    is_near = np.linalg.norm(body_at(target, place) - goal_mm) < _SAME_PLACE_MM
    return place if is_near and target.body[k, j, i] else None


def matching_cells(
    hu: torch.Tensor,
    first: torch.Tensor,
    second: torch.Tensor,
    candidates: int,
    rng: np.random.Generator,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Choose random local cells with tissue in the first crop, and find their positions in the second crop.

    An affine function, fitted to the second crop's positions, predicts the cell of a position. Of the cells around the
    predicted cell, the cell nearest to the position is taken. The affine function converts the remaining distance to a
    fraction of a cell. With elastic deformation, the error is some hundredths of a cell.

    Args:
        hu: HU (k, j, i) of the first crop.
        first, second: (k/2, j/2, i/2, 3) mm, positions of each crop's local cells.
        candidates: number of cells to choose. Cells whose position lies outside the second crop are left out.
        rng: random numbers.

    Returns for the p remaining cells: (p, 3) whole i, j, k in the first crop; (p, 3) fractional i, j, k in the second.
    """
    device = hu.device
    shape = torch.tensor(second.shape[2::-1], device=device)
    tissue = torch.nonzero(F.avg_pool3d(hu[None, None], LOCAL_STRIDE)[0, 0] > _TISSUE_HU)
    if not len(tissue):
        no_cells = torch.zeros(0, 3, device=device)
        return no_cells, no_cells
    kji = tissue[torch.from_numpy(rng.integers(len(tissue), size=candidates)).to(device)]
    goals_mm = first[kji.unbind(1)]
    inverse, offset = _inverse_affine(second)  # cell = inverse @ (position - offset)
    guess = ((goals_mm - offset)[:, None] * inverse).sum(-1).round().long()
    axis = torch.arange(-_SEARCH, _SEARCH + 1, device=device)
    # a film has equal layers
    along_a = axis if second.shape[1] > LOCAL_STRIDE else axis[_SEARCH : _SEARCH + 1]
    around = guess[:, None] + torch.cartesian_prod(axis, along_a, axis)
    clamped = torch.minimum(around.clamp(min=0), shape - 1)
    i, j, k = clamped.unbind(-1)
    around_mm = second[k, j, i]
    nearest = (around_mm - goals_mm[:, None]).square().sum(-1).argmin(1)
    row = torch.arange(len(goals_mm), device=device)
    cell = clamped[row, nearest].float()
    second_cells = cell + ((goals_mm - around_mm[row, nearest])[:, None] * inverse).sum(-1)
    # if the point lies outside the second crop, the nearest cell is a border cell and the point is far from it
    inside = second_cells.round(decimals=3)  # in a film, all cells lie at the border along A
    is_near = ((second_cells - cell).abs() <= 1.0).all(1)
    shared = is_near & ((inside >= 0) & (inside <= shape - 1)).all(1)
    return kji.flip(1).float()[shared], second_cells[shared]


def _positions(scan: PreparedScan, crop: Crop, in_body: bool) -> torch.Tensor:
    """Return the positions (k, j, i, 3), mm, of a crop's local cells: RAS, or body coordinates if `in_body`."""
    voxel = crop.warp.voxel_ijk(LOCAL_STRIDE)
    if in_body:
        return body_coordinates(scan, voxel)
    matrix = torch.from_numpy(scan.grid_to_ras).float().to(voxel.device)
    return voxel * torch.diagonal(matrix)[:3] + matrix[:3, 3]


def _inverse_affine(positions: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Fit the affine function slope @ (i, j, k) + offset to the positions (k, j, i, 3), mm, of cells.

    Returns inverse slope (3, 3), offset (3,). NumPy is used, because torch's CPU solver is not bitwise reproducible.
    """
    some = [np.arange(0, n, max(n // 6, 1)) for n in positions.shape[:3]]
    k, j, i = np.meshgrid(*some, indexing="ij")
    design = np.stack([i, j, k, np.ones_like(i)], axis=-1).reshape(-1, 4).astype(np.float64)
    sampled = positions.cpu().numpy()[k, j, i].reshape(-1, 3).astype(np.float64)
    solution = np.linalg.lstsq(design, sampled, rcond=None)[0]
    inverse = torch.from_numpy(np.linalg.inv(solution[:3].T)).float()
    return inverse.to(positions.device), torch.from_numpy(solution[3]).float().to(positions.device)


def start_worker(_: int) -> None:
    """Set up a worker process: it uses one thread, and ignores signals, because the parent process ends it."""
    torch.set_num_threads(1)
    # ignored, because the parent process ends its workers
    for name in "SIGINT", "SIGTERM", "SIGHUP":
        if hasattr(signal, name):
            signal.signal(getattr(signal, name), signal.SIG_IGN)
