"""The training objective "levels": the network gives each slice a score that rises along the body.

This is body part regression (Yan et al. 2018; Schuhegger 2021, bpreg).
"""

from dataclasses import replace

import numpy as np
import torch
import torch.nn.functional as F

from ...embedding.models.network import EmbeddingNetwork
from ...training.crops import draw_geometry
from ...training.frames import STILL
from ...training.objectives import LossContext, Objective
from ...training.sampler import BatchSampler, CoordinateBatch, coordinate_row

SLICES_PER_SCAN = 4
_SLICE_STEP_MM = (5.0, 100.0)  # least and largest distance of the slices, as in bpreg


class LevelSampler(BatchSampler):
    """Batches for the objective "levels": from each chosen scan, SLICES_PER_SCAN crops with equal steps in height.

    The score of a crop is the score of its middle slice. Here, `body_mm` holds RAS mm instead of body coordinates.
    """

    def __getitem__(self, step: int) -> CoordinateBatch:
        batch = self.recipe.batch
        size = self.crop_size(step)
        rows = []
        for part in range(max(batch.voxels_per_batch // int(np.prod(size)) // SLICES_PER_SCAN, 1)):
            rng = self.rng(step, 1 + part)
            index, aimed = self.aim(rng)
            scan = replace(self.scans[index], frame=STILL, body_field=None)
            lattice = draw_geometry(self.recipe.augmentation, size, self.spacing, rng)
            last = np.array(scan.hu.shape[::-1]) - 1.0
            intervals = SLICES_PER_SCAN - 1
            gap = min(rng.uniform(*_SLICE_STEP_MM) / scan.grid_to_ras[2, 2], last[2] / intervals)
            lowest = np.clip(aimed[2] - gap * intervals / 2, 0, last[2] - gap * intervals)
            for n in range(SLICES_PER_SCAN):
                centre = np.array([last[0] / 2, last[1] / 2, lowest + n * gap])
                rows.append(coordinate_row(self.recipe, scan, index, centre, lattice, size, rng))
        return CoordinateBatch(*map(torch.stack, zip(*rows, strict=True)))


def level_loss(score: torch.Tensor, height: torch.Tensor, shows_body: torch.Tensor) -> torch.Tensor:
    """Body part regression: L = mean_ij (sigmoid(s_j - s_i) - sigmoid(h_j - h_i))^2 + mean_i l1(s_i+1 - 2 s_i + s_i-1).

    The first term is the order loss of Schuhegger 2021. The second term (smooth l1, Yan 2018) penalises unequal steps
    of the score at equal distances.

    Args:
        score, height: s and h, (b, n), for n equally spaced slices of b scans, the lowest slice first. Heights are in
            units of 100 mm, which is beta = 0.01 in Schuhegger 2021.
        shows_body: (b, n) bool; pairs and triples with a slice that shows no body are left out.
    """
    upper = torch.ones(score.shape[1], score.shape[1], dtype=torch.bool, device=score.device).triu(
        1
    )
    pairs = shows_body[:, :, None] & shows_body[:, None] & upper
    rise = score[:, None] - score[:, :, None]
    true_rise = height[:, None] - height[:, :, None]
    order = (torch.sigmoid(rise) - torch.sigmoid(true_rise)).square() * pairs
    bend = score.diff(n=2, dim=1)
    triples = shows_body[:, 2:] & shows_body[:, 1:-1] & shows_body[:, :-2]
    steps = F.smooth_l1_loss(bend, torch.zeros_like(bend), reduction="none") * triples
    return order.sum() / pairs.sum().clamp_min(1) + steps.sum() / triples.sum().clamp_min(1)


def _loss(network: EmbeddingNetwork, batch: CoordinateBatch, context: LossContext) -> torch.Tensor:
    with context.precision:
        coordinate = network(batch.image).coordinate
    # a crop's score: mean over the body cells of its middle slice (or two)
    depth = coordinate.shape[2]
    middle = slice((depth - 1) // 2, depth // 2 + 1)
    inside = batch.inside[:, middle]
    cells = inside.sum((1, 2, 3))
    score = (coordinate[:, 2, middle] * inside).sum((1, 2, 3)) / cells.clamp_min(1)
    height = batch.body_mm[:, 2, middle].mean((1, 2, 3)) / context.recipe.network.unit_mm
    return level_loss(*(x.unflatten(0, (-1, SLICES_PER_SCAN)) for x in (score, height, cells > 0)))


LEVELS = Objective(LevelSampler, _loss)
