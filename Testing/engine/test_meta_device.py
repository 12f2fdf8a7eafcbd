"""Test network, losses and a training step on PyTorch's `meta` device, which stands in for a GPU.

The device computes nothing. Code that creates a tensor on the CPU, or copies a tensor to the CPU, raises an error, as
on a GPU.
"""

import torch
from small_models import small_network
from training_scans import linear_scan

from AnatomicalEmbedding.papers.ape.distances import distance_loss
from AnatomicalEmbedding.training.objectives import FrameCorrections, coordinate_loss, info_nce

META = torch.device("meta")
SHAPE = (2, 1, 16, 24, 32)
CELLS = tuple(n // 4 for n in SHAPE[2:])
HEADS = {"global_channels": 6, "local_channels": 8}


def on_meta(*shape: int, **more: object) -> torch.Tensor:
    return torch.empty(*shape, device=META, **more)


def test_a_step_of_training_stays_on_its_device():
    network = small_network(**HEADS).to(META).train()
    frames = FrameCorrections([linear_scan()], 100.0).to(META)
    optimiser = torch.optim.AdamW([*network.parameters(), *frames.parameters()], lr=1e-3)
    found = network(on_meta(*SHAPE))
    scan = on_meta(2, dtype=torch.long)
    target = frames(on_meta(2, 3, *CELLS), scan)
    loss = coordinate_loss(found.coordinate, target, on_meta(2, *CELLS, dtype=torch.bool), 0.1)
    rows = found.local.flatten(2).transpose(1, 2)[0]
    loss = loss + info_nce(rows[:9], rows[9:18], rows[:9] @ rows[18:].T, 0.1)
    loss = loss + distance_loss(rows[:9, :3], rows[9:18, :3], on_meta(9, 3)) + frames.prior(scan)
    assert loss.device == META
    loss.backward()
    torch.nn.utils.clip_grad_norm_(network.parameters(), 1.0)
    optimiser.step()
    assert {p.grad.device for p in network.parameters() if p.grad is not None} == {META}
