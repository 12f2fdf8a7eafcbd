"""SAM's loss against a literal loop over Algorithm 1 of Yan 2022, and ours against what it is meant to tell apart."""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from training_scans import linear_scan, make_sampler, tiny_recipe

from AnatomicalEmbedding.embedding.models.network import Features
from AnatomicalEmbedding.papers.sam.descriptors import sam_loss
from AnatomicalEmbedding.training.objectives import near_loss, read_cells
from AnatomicalEmbedding.training.recipes import LossSpec
from AnatomicalEmbedding.training.views import ViewBatch

PAIRS, POINTS = 2, 3
LOCAL, GLOBAL = (4, 6, 8), (1, 2, 2)  # k, j, i; a global cell is 4 local ones, the last of each axis cut
SPEC = LossSpec(temperature=0.5, exclude_mm=3.0, negatives=5, random_negatives=4, candidates=5)


def generator(seed=0):
    return torch.Generator().manual_seed(seed)


def unit(*shape, seed=0):
    return F.normalize(torch.randn(*shape, dtype=torch.float64, generator=generator(seed)), dim=1)


def small_batch():
    """Views of random descriptors on 2 mm grids, the second one 4 mm to the right of the first."""
    k, j, i = np.indices(LOCAL)
    first = torch.from_numpy(np.stack([i, j, k]) * 2.0)
    second = first + torch.tensor([4.0, 0, 0]).view(3, 1, 1, 1)
    cells = torch.tensor([[2.0, 1, 1], [5, 4, 2], [7, 0, 3]], dtype=torch.float64).expand(PAIRS, POINTS, 3)
    none = torch.zeros(0)
    position = torch.stack([first, first, second, second])
    return ViewBatch(none, none, none, none, position, none, none, cells, cells - torch.tensor([2.0, 0, 0]))


def features(seed=0):
    return unit(2 * PAIRS, 5, *LOCAL, seed=seed), unit(2 * PAIRS, 4, *GLOBAL, seed=seed + 1)


def literal_info_nce(anchor, positive, negatives, temperature):
    own = math.e ** (anchor @ positive / temperature)
    return -torch.log(own / (own + sum(math.e ** (anchor @ h / temperature) for h in negatives)))


def at(grid, cell):
    return read_cells(grid, cell[None])[0]


def literal_sam(local, global_, batch):
    draw, total = generator(7), torch.zeros((), dtype=torch.float64)
    for n in range(PAIRS):
        views = (n, PAIRS + n)
        others = [m for m in range(2 * PAIRS) if m not in views]
        pool = torch.cat([global_[m].flatten(1) for m in others], dim=1)
        random = torch.randint(pool.shape[1], (SPEC.random_negatives,), generator=draw)
        torch.randperm(2 * math.prod(LOCAL), generator=draw)  # which cells are looked at: all of them
        torch.rand(POINTS, SPEC.candidates, generator=draw)  # which candidates are taken: all of them
        global_total = local_total = 0.0
        for i in range(POINTS):
            cells = batch.first_cells[n, i], batch.second_cells[n, i]
            place = batch.position_mm[n][:, *cells[0].long().flip(0)]
            f_l, f_l_plus = (at(local[v], c) for v, c in zip(views, cells, strict=True))
            f_g, f_g_plus = (at(global_[v], (c + 0.5) / 4 - 0.5) for v, c in zip(views, cells, strict=True))
            hard = []
            for v in views:
                for k, j, i_ in np.ndindex(GLOBAL):
                    block = batch.position_mm[v][:, 4 * k : 4 * k + 4, 4 * j : 4 * j + 4, 4 * i_ : 4 * i_ + 4]
                    if (block.flatten(1).mean(1) - place).norm() >= SPEC.exclude_mm:
                        hard.append(global_[v][:, k, j, i_])
            hard = sorted(hard, key=lambda h: -(f_g @ h).item())[: SPEC.negatives]
            global_total = global_total + literal_info_nce(f_g, f_g_plus, [*hard, *pool[:, random].T], 0.5)
            candidates = []
            for v in views:
                coarse = torch.einsum("c,ckji->kji", f_g, global_[v])
                up = F.interpolate(coarse[None, None], scale_factor=4, mode="trilinear")[0, 0]
                for k, j, i_ in np.ndindex(LOCAL):
                    if (batch.position_mm[v][:, k, j, i_] - place).norm() >= SPEC.exclude_mm:
                        h = local[v][:, k, j, i_]
                        candidates.append(((f_l @ h + up[k, j, i_]).item(), h))
            candidates = [h for _, h in sorted(candidates, key=lambda c: -c[0])[: SPEC.candidates]]
            local_total = local_total + literal_info_nce(f_l, f_l_plus, candidates, 0.5)
        total = total + (global_total + local_total) / POINTS
    return total / PAIRS


def test_algorithm_1_and_its_gradients():
    leaves = [x.requires_grad_() for x in features()]
    batch = small_batch()
    expected = literal_sam(*leaves, batch)
    found = sam_loss(Features(None, leaves[1], leaves[0]), batch, SPEC, generator(7))
    torch.testing.assert_close(found, expected)
    for got, true in zip(torch.autograd.grad(found, leaves), torch.autograd.grad(expected, leaves), strict=True):
        torch.testing.assert_close(got, true)


def placed(position_mm, length_mm, channels=64):
    """Unit descriptors of a place in mm: alike within about `length_mm`, unlike beyond."""
    frequency = torch.randn(3, channels // 2, generator=generator(3)) / length_mm
    phase = torch.einsum("nckji,cf->nfkji", position_mm, frequency)
    return torch.cat([phase.cos(), phase.sin()], dim=1) / math.sqrt(channels / 2)


@pytest.fixture(scope="module")
def views():
    recipe = tiny_recipe("hybrid", augmentation={"spacing_scale": [0.8, 1.2], "rotation_rad": 0.15})
    return make_sampler([linear_scan()], recipe, 1)[2], recipe.loss


def test_near_loss_tells_descriptors_of_places_from_others(views):
    batch, spec = views
    spec = replace(spec, temperature=0.1)

    def loss(local):
        return float(near_loss(Features(None, None, local), batch, spec, generator()))

    sharp, blurred = (placed(batch.position_mm, length) for length in (4.0, 40.0))
    same = torch.ones_like(sharp) / 8
    assert loss(sharp) < 0.2 * loss(blurred)
    drawn = 1 + 2 * 4 * (spec.negatives // 4)  # the positive and, in either view, near and far ones
    assert loss(blurred) < loss(same) <= math.log(drawn) + 1e-4


def test_near_loss_leaves_neighbours_within_the_excluded_distance_alone(views):
    batch, spec = views
    local = placed(batch.position_mm, 4.0)
    everywhere = replace(spec, exclude_mm=1e4)
    assert float(near_loss(Features(None, None, local), batch, everywhere, generator())) == 0.0
    near, far = (
        float(near_loss(Features(None, None, local), batch, replace(spec, exclude_mm=e), generator()))
        for e in (0.1, 12.0)
    )
    assert far < 0.8 * near
