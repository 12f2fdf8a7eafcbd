"""Test slabs: the result equals that of the whole volume, and the memory limit is kept."""

import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st
from small_models import small_network

from AnatomicalEmbedding.embedding.inference import Model, run_in_slabs
from AnatomicalEmbedding.errors import MemoryLimitError

CPU = torch.device("cpu")
sizes = st.tuples(*[st.integers(2, 19).map(lambda cells: cells * 4)] * 3)


def noise(shape: tuple[int, int, int]) -> torch.Tensor:
    return torch.rand(1, *shape, generator=torch.Generator().manual_seed(0))


@settings(max_examples=25, deadline=None)
@given(sizes, st.integers(1, 5).map(lambda n: 2 * n))
@example((60, 36, 28), 2)
def test_any_slabs_give_the_whole_volume_result(size, slab_cells):
    network = small_network(local_channels=6, organs=("liver", "spleen"), organ_channels=3)
    torch.nn.init.normal_(network.organs.codes, generator=torch.Generator().manual_seed(1))
    x = noise(size)
    with torch.no_grad():
        whole = network(x[None])
        slabs = run_in_slabs(network, x, slab_cells, CPU, lambda share: None)
    for name in ("coordinate", "local", "organs"):
        part = getattr(slabs, name)
        expected = getattr(whole, name)
        step = torch.finfo(
            part.dtype
        ).eps  # local descriptors are half floats, and may be rounded to the next one
        # oneDNN sums in another order by the size of a grid: 5e-5 is 0.005 mm
        torch.testing.assert_close(part, expected, atol=5e-5, rtol=max(step, 1e-5))


class TestBudget:
    """Through Model.embed, on a phantom's torso."""

    @staticmethod
    def model(budget_bytes: int | None = None) -> tuple[Model, list[int]]:
        """A model, and how many voxels each run of its finest level saw."""
        network = small_network()
        voxels = []
        network.stem.register_forward_pre_hook(
            lambda module, inputs: voxels.append(inputs[0].numel())
        )
        return Model(network, "small", "0" * 64, budget_bytes=budget_bytes), voxels

    def test_a_small_budget_is_kept_and_gives_the_same_map(self, phantom_pair):
        volume = phantom_pair[0].volume
        one, seen = self.model()
        reference = one.embed(volume)
        (voxels,) = seen
        network = one.network
        fine = network.bytes_per_voxel - network.fixed_bytes_per_voxel
        budget = int(voxels * (network.fixed_bytes_per_voxel + 0.7 * fine))
        other, parts = self.model(budget)
        slabs = other.embed(volume)
        assert len(parts) > 1
        need = voxels * network.fixed_bytes_per_voxel + max(parts) * fine
        assert need <= budget
        assert torch.equal(slabs.body, reference.body)
        torch.testing.assert_close(slabs.coordinate, reference.coordinate, atol=1e-2, rtol=0)

    def test_a_budget_below_the_thinnest_slab_is_refused(self, phantom_pair):
        one, _ = self.model(2**20)
        with pytest.raises(MemoryLimitError, match=r"needs about \d+ MB but 1 MB are allowed"):
            one.embed(phantom_pair[0].volume)


class TestNoMemoryLeft:
    """The allocator refuses what the budget allows, as when another program took the memory meanwhile."""

    @staticmethod
    def model(most_voxels: int) -> Model:
        """A model whose finest level asks for more memory than there is, where it sees more voxels than that."""
        network = small_network()

        def allocate(_module, inputs):
            if inputs[0].numel() > most_voxels:
                torch.empty(1 << 50)

        network.stem.register_forward_pre_hook(allocate)
        return Model(network, "small", "0" * 64, budget_bytes=1 << 40)

    def test_smaller_slabs_follow(self, phantom_pair):
        volume = phantom_pair[0].volume
        one, seen = TestBudget.model()
        reference = one.embed(volume)
        found = self.model(seen[0] - 1).embed(volume)
        torch.testing.assert_close(found.coordinate, reference.coordinate, atol=1e-2, rtol=0)
