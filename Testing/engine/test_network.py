"""Test what inference and training need from the network: exact shifts, and quick layers that change nothing."""

import pytest
import torch
from small_models import small_network

from AnatomicalEmbedding.embedding.models import convolution
from AnatomicalEmbedding.embedding.models.convolution import fold_norms
from AnatomicalEmbedding.embedding.models.network import EmbeddingNetwork, NetworkSpec

SPEC = NetworkSpec(widths=(4, 4, 4, 4))


def ready(spec=SPEC, seed=0):
    """A network with random weights and batch statistics, ready for use."""
    torch.manual_seed(seed)
    network = EmbeddingNetwork(spec)
    for name, buffer in network.named_buffers():
        if name.endswith("running_mean"):
            buffer.normal_(0, 0.1)
        elif name.endswith("running_var"):
            buffer.uniform_(0.5, 1.5)
    return network.eval()


@pytest.mark.parametrize("axis", [2, 3, 4])
def test_shift_by_the_lattice_shifts_the_output_exactly(axis):
    network = ready()
    shift = ready().lattice
    long = 640
    shape = [32, 32, 32]
    shape[axis - 2] = long + shift
    x = torch.rand(1, 1, *shape, generator=torch.Generator().manual_seed(1))
    with torch.inference_mode():
        one, other = (network(x.narrow(axis, start, long)).coordinate for start in (0, shift))
    rim = 60  # cells of the receptive field, which reaches the ends: 240 voxels
    cells = shift // 4
    length = long // 4 - 2 * rim - cells
    assert length > 20
    inner = one.narrow(axis, rim + cells, length)
    same = other.narrow(axis, rim, length)
    torch.testing.assert_close(inner, same, rtol=0, atol=1e-5)
    assert inner.std(dim=axis).mean() > 1e-3  # there is something to shift


def test_air_around_the_content_costs_nothing_and_changes_nothing():
    """Descriptors and organs where something is are those of the whole volume; far from it they are zero."""
    torch.manual_seed(0)
    network = ready(
        NetworkSpec(widths=(4, 8), local_channels=6, organs=("liver", "spleen"))
    ).double()
    x = torch.zeros(1, 1, 64, 64, 64, dtype=torch.float64)
    x[:, :, 24:36, 8:30, 33:50] = torch.rand(12, 22, 17)
    with torch.inference_mode():
        found = network(x)
        fine = network.fine(x)
        coarse = network.coarse(network.pool(fine))
        up = network.decoder[-1](torch.cat([network.up[-1](coarse), fine], dim=1))
        local = network.local(x, up)
        image = torch.nn.functional.avg_pool3d(x, 2)
        organs = network.organs(image, found.coordinate, up, coarse, local).softmax(1)[:, 1:]
    where = (slice(None), slice(None), slice(12, 18), slice(4, 15), slice(16, 25))
    torch.testing.assert_close(found.local[where], local[where].half())
    assert (found.local[..., :4, :, :] == 0).all()
    assert (local[..., :4, :, :] != 0).any()
    where = (slice(None), slice(None), slice(6, 9), slice(2, 8), slice(8, 13))
    torch.testing.assert_close(found.organs[where], organs[where].float())
    assert (found.organs[..., :2, :, :] == 0).all()


def test_folded_normalisation_changes_nothing(monkeypatch):
    """With statistics and factors as training leaves them; up to rounding to float16, which bfloat16 would hide."""
    monkeypatch.setattr(convolution, "fast_dtype", lambda device: torch.float32)
    network = small_network(
        global_channels=4, local_channels=6, organs=("liver", "spleen"), organ_channels=2
    )
    draw = torch.Generator().manual_seed(0)
    for layer in network.modules():
        if isinstance(layer, torch.nn.BatchNorm3d):
            for values in (layer.weight, layer.bias, layer.running_mean, layer.running_var):
                values.data = torch.rand(values.shape, generator=draw) + 0.5
    network.organs.codes.copy_(torch.eye(3)[:, :2] + 0.1)
    x = torch.rand(1, 1, 32, 40, 48, generator=draw)
    with torch.no_grad():
        before = network(x)
        norms = [
            layer
            for layer in fold_norms(network).modules()
            if isinstance(layer, torch.nn.BatchNorm3d)
        ]
        assert norms == []
        for one, other in zip(network(x), before, strict=True):
            torch.testing.assert_close(one, other, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize(("dtype", "error"), [(torch.float32, 1e-4), (torch.bfloat16, 0.03)])
def test_quick_convolutions_are_convolutions(dtype, error, monkeypatch):
    """As on processors without and with bfloat16 instructions; bfloat16 has three digits."""
    if dtype == torch.bfloat16 and "AVX512" not in torch.backends.cpu.get_cpu_capability():
        pytest.skip("this processor cannot multiply bfloat16 by oneDNN")
    monkeypatch.setattr(convolution, "fast_dtype", lambda device: dtype)
    x = torch.randn(1, 24, 9, 10, 11)
    weight = torch.randn(8, 24, 3, 3, 3) / 25
    bias = torch.randn(8)
    expected = torch.nn.functional.conv3d(x.double(), weight.double(), bias.double(), padding=1)
    with torch.inference_mode():
        found = convolution.convolve(x, weight, bias, padding=(1, 1, 1))
    assert found.dtype == torch.float32
    assert (found - expected).abs().max() < error
