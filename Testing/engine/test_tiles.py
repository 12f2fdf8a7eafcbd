"""Tiles: the blended result is the whole-volume result, within the memory they were given."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from small_models import Averaging, small_network
from torch import nn
from torch.nn import functional as F

from AnatomicalEmbedding.embedding import EmbeddingMap
from AnatomicalEmbedding.errors import MemoryLimitError
from AnatomicalEmbedding.inference import Model
from AnatomicalEmbedding.tiles import HALO_LATTICE, run_in_tiles

STRIDE = 4


def noise(shape: tuple[int, int, int], seed: int = 0) -> torch.Tensor:
    return torch.rand(1, *shape, generator=torch.Generator().manual_seed(seed))


def tiled(network, x: torch.Tensor, core: tuple[int, int, int], lattice: int) -> torch.Tensor:
    with torch.no_grad():
        return run_in_tiles(network, x, core, lattice, STRIDE, lambda share: None)


def whole(network, x: torch.Tensor) -> torch.Tensor:
    with torch.no_grad():
        return network(x[None])[0]


class SmallReach(nn.Module):
    """Strided stem, then three convolutions: sees 12 voxels around a cell; zero padding disturbs its rim."""

    def __init__(self):
        super().__init__()
        with torch.random.fork_rng():
            torch.manual_seed(0)
            self.layers = nn.Sequential(
                nn.Conv3d(1, 4, 4, stride=4), *(nn.Conv3d(4, n, 3, padding=1) for n in (4, 4, 3))
            )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.layers(x)


sizes = st.tuples(*[st.integers(2, 22).map(lambda n: n * STRIDE)] * 3)
cores = st.tuples(*[st.integers(1, 3).map(lambda n: n * 8)] * 3)


class TestAgreement:
    @settings(max_examples=25, deadline=None)
    @given(sizes, cores)
    def test_where_a_cell_sees_only_itself_any_tiling_is_the_whole(self, size, core):
        """Pooling of each cell: what is left to go wrong is where tiles are put and how they are weighted."""
        x = noise(size)
        torch.testing.assert_close(
            tiled(lambda part: F.avg_pool3d(part, STRIDE).expand(-1, 3, -1, -1, -1), x, core, lattice=8),
            F.avg_pool3d(x[None], STRIDE)[0].expand(3, -1, -1, -1),
            atol=1e-5,
            rtol=0,
        )

    @settings(max_examples=8, deadline=None)
    @given(sizes, cores)
    def test_a_network_of_small_reach(self, size, core):
        network, x = SmallReach(), noise(size)
        torch.testing.assert_close(tiled(network, x, core, lattice=8), whole(network, x), atol=1e-4, rtol=0)

    def test_nothing_of_the_outer_half_of_the_halo_is_seen(self):
        """A reach of nearly half the halo is still exact: means along each axis in turn."""
        reach = HALO_LATTICE * 16 // 2 - STRIDE
        for axis in range(3):
            kernel = [1, 1, 1]
            kernel[axis] = 2 * reach + 1

            def network(part, kernel=kernel):
                mean = F.avg_pool3d(part, kernel, stride=1, padding=[n // 2 for n in kernel])
                return F.avg_pool3d(mean, STRIDE).expand(-1, 3, -1, -1, -1)

            size = [16, 16, 16]
            size[axis] = 320
            x = noise(tuple(size), seed=axis)
            torch.testing.assert_close(tiled(network, x, (16, 16, 16), 16), whole(network, x), atol=1e-4, rtol=0)

    def test_the_real_network(self):
        """Its reach in theory exceeds the halo, but what comes from that far is nothing next to a coordinate."""
        network = small_network(widths=(4, 6, 8))
        x = noise((224, 48, 48))
        reference = whole(network, x)
        blended = tiled(network, x, (16, 48, 48), network.lattice)
        assert (blended - reference).abs().max() < 0.005 * reference.std()


class TestProgress:
    def test_each_tile_is_as_small_as_asked_and_the_share_done_rises_to_one(self):
        seen, shares = [], []

        def network(part):
            seen.append(tuple(part.shape[2:]))
            return F.avg_pool3d(part, STRIDE).expand(-1, 3, -1, -1, -1)

        run_in_tiles(network, noise((96, 40, 24)), (32, 40, 8), 8, STRIDE, shares.append)
        halo = HALO_LATTICE * 8
        assert len(seen) == 3 * 1 * 3
        assert all(k <= 32 + 2 * halo and j == 40 and i <= 24 for k, j, i in seen)
        assert shares == [pytest.approx((n + 1) / 9) for n in range(9)]


class TestBudget:
    """Through Model.embed, on a phantom's torso."""

    @staticmethod
    def embed(volume, budget_bytes: int | None) -> tuple[EmbeddingMap, list[int]]:
        """The map, and how many voxels each run of the network saw."""
        network = Averaging(spacing_mm=(4.0, 4.0, 4.0))
        network.lattice = 8
        voxels: list[int] = []
        network.register_forward_pre_hook(lambda module, inputs: voxels.append(inputs[0].numel()))
        return Model(network, "averaging", "0" * 64, budget_bytes=budget_bytes).embed(volume), voxels

    def test_a_small_budget_is_kept_and_gives_the_same_map(self, phantom_pair):
        volume = phantom_pair[0].volume
        reference, (all_voxels,) = self.embed(volume, None)
        budget = int(0.6 * all_voxels * Averaging.bytes_per_voxel)
        blended, voxels = self.embed(volume, budget)
        assert len(voxels) > 1
        assert max(voxels) * Averaging.bytes_per_voxel <= budget
        assert torch.equal(blended.body, reference.body)
        torch.testing.assert_close(blended.coordinate, reference.coordinate, atol=1e-3, rtol=0)

    def test_a_budget_below_the_smallest_tile_is_refused(self, phantom_pair):
        with pytest.raises(MemoryLimitError, match=r"needs \d+ MB even in the smallest tiles but 1 MB are allowed"):
            self.embed(phantom_pair[0].volume, 2**20)
