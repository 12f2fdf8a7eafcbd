"""python -m AnatomicalEmbedding.papers.pcl ACDC: measures Dice with and without pre-training on slice positions."""

import argparse
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

from ...training.loop import OptimiserSpec, TrainingLoop

THRESHOLD = 0.35  # the paper's threshold for ACDC
_MIDDLE, _SIDE, _CLASSES = 160, 80, 4
TEMPERATURE = 0.1
_WIDTHS = (12, 24, 48, 64)


def position_contrast(z: torch.Tensor, position: torch.Tensor, threshold: float) -> torch.Tensor:
    """Compute the loss of Zeng 2021, equation 2.

    Two slices are a positive pair if their positions are closer than `threshold`; a slice that is in no positive pair
    has loss 0.

    Args:
        z: (n, c) vectors of n slices.
        position: (n,) slice index divided by the number of slices.
        threshold: see above.
    """
    unit = F.normalize(z, dim=1)
    itself = torch.eye(len(z), dtype=torch.bool)
    likeness = (unit @ unit.T / TEMPERATURE).masked_fill(itself, float("-inf"))
    log_share = (likeness - torch.logsumexp(likeness, dim=1, keepdim=True)).masked_fill(itself, 0.0)
    positive = ((position[:, None] - position[None]).abs() < threshold) & ~itself
    return -((positive * log_share).sum(1) / positive.sum(1).clamp(min=1)).mean()


class UNet(nn.Module):
    """2-D U-Net: slices (b, 1, j, i) -> logits (b, classes, j, i); j and i are multiples of 8."""

    def __init__(self, classes: int):
        super().__init__()
        pairs = list(zip((1, *_WIDTHS), _WIDTHS, strict=False))
        self.encoder = nn.ModuleList(_block(narrow, wide) for narrow, wide in pairs)
        self.up = nn.ModuleList(
            nn.ConvTranspose2d(wide, narrow, 2, stride=2) for narrow, wide in pairs[:0:-1]
        )
        self.decoder = nn.ModuleList(_block(2 * narrow, narrow) for narrow, _ in pairs[:0:-1])
        self.head = nn.Conv2d(_WIDTHS[0], classes, 1)
        self.project = nn.Sequential(nn.Linear(_WIDTHS[-1], 64), nn.ReLU(), nn.Linear(64, 64))

    def encode(self, x: torch.Tensor) -> list[torch.Tensor]:
        """Compute the features at each resolution, the finest resolution first."""
        features = [self.encoder[0](x)]
        for block in self.encoder[1:]:
            features.append(block(F.max_pool2d(features[-1], 2)))
        return features

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        *skips, x = self.encode(x)
        for up, block, skip in zip(self.up, self.decoder, reversed(skips), strict=True):
            x = block(torch.cat([skip, up(x)], dim=1))
        return self.head(x)


def _block(inputs: int, width: int) -> nn.Sequential:
    layers: list[nn.Module] = []
    for channels in (inputs, width):
        layers += [
            nn.Conv2d(channels, width, 3, padding=1),
            nn.InstanceNorm2d(width, affine=True),
            nn.ReLU(),
        ]
    return nn.Sequential(*layers)


def read_scan(path: Path) -> torch.Tensor:
    """Read the middle of each slice of an ACDC scan (.npz). The file contains `image` and `label`, (z, j, i).

    Returns (z, 1 + 4, 80, 80): the image (0 to 1), and the share of each of the 4 classes in each pixel.
    """
    with np.load(path, allow_pickle=False) as file:
        image, label = (torch.from_numpy(file[key].astype(np.int64)) for key in ("image", "label"))
    low, high = np.percentile(image.numpy(), (1, 99))
    grey = ((image - low) / (high - low)).clamp(0, 1)
    parts = torch.cat([grey[:, None], F.one_hot(label, _CLASSES).movedim(3, 1)], 1)
    parts = F.pad(parts.float(), [_MIDDLE // 2] * 4)
    first_row, first_column = ((n - _MIDDLE) // 2 for n in parts.shape[2:])
    return F.avg_pool2d(
        parts[:, :, first_row : first_row + _MIDDLE, first_column : first_column + _MIDDLE],
        _MIDDLE // _SIDE,
    )


def move(x: torch.Tensor, rng: np.random.Generator) -> torch.Tensor:
    """Turn, scale and shift each slice of a batch (b, c, j, i) at random."""
    angle = rng.normal(0, 0.35, len(x))
    size = np.exp(rng.normal(0, 0.15, len(x)))
    turn = np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]]) * size
    affine = np.concatenate([turn.transpose(2, 0, 1), rng.normal(0, 0.08, (len(x), 2, 1))], 2)
    grid = F.affine_grid(torch.from_numpy(affine).float(), x.shape, align_corners=False)
    return F.grid_sample(x, grid, align_corners=False)


def train(
    scans: Sequence[torch.Tensor],
    steps: int,
    seed: int,
    start: UNet | None = None,
    contrast: bool = False,
) -> UNet:
    """Train a network with outlines or, if `contrast` is True, with `position_contrast` and without outlines.

    Args:
        scans: results of `read_scan`.
        steps: number of optimiser steps.
        seed: random seed.
        start: network whose encoder is copied before training; None for random weights.
        contrast: whether to train with `position_contrast`.
    """
    torch.manual_seed(seed)
    network = UNet(_CLASSES).train()
    if start is not None:
        network.encoder.load_state_dict(start.encoder.state_dict())
    slices = torch.cat(list(scans))
    position = torch.cat([torch.arange(len(s)) / len(s) for s in scans])

    def loss_of(step: int) -> torch.Tensor:
        rng = np.random.default_rng([seed, step])
        pick = torch.from_numpy(rng.integers(len(slices), size=16 if contrast else 5))
        if contrast:
            views = torch.cat([move(slices[pick, :1], rng) for _ in range(2)])
            z = network.project(network.encode(views)[-1].mean((2, 3)))
            return position_contrast(z, position[pick].repeat(2), THRESHOLD)
        batch = move(slices[pick], rng)
        return F.cross_entropy(network(batch[:, :1]), batch[:, 1:])

    TrainingLoop(network, OptimiserSpec(4e-3, warm_up=0.0), steps).run(loss_of)
    return network.eval()


@torch.no_grad()
def dice(network: UNet, scan: torch.Tensor) -> float:
    """Compute the mean Dice over the three structures of a scan."""
    shares = network(scan[:, :1]), scan[:, 1:]
    predicted, true = (F.one_hot(share.argmax(1), _CLASSES)[..., 1:] for share in shares)
    return float(
        (
            2 * (predicted * true).sum((0, 1, 2)) / (predicted + true).sum((0, 1, 2)).clamp(min=1)
        ).mean()
    )


def main(arguments: Sequence[str] | None = None) -> None:
    """Train with 2, 6 and 10 outlined patients and print the Dice on the test patients."""
    parser = argparse.ArgumentParser(
        prog="python -m AnatomicalEmbedding.papers.pcl", description=__doc__
    )
    parser.add_argument(
        "data", type=Path, metavar="ACDC", help="folder with train.list, test.list, NAME_frame*.npz"
    )
    parser.add_argument(
        "--steps", type=int, default=600, help="optimiser steps of each training (default: 600)"
    )
    parser.add_argument(
        "--seed", type=int, default=0, help="seed of patient order and first weights (default: 0)"
    )
    options = parser.parse_args(arguments)
    patients = [(options.data / f"{part}.list").read_text().split() for part in ("train", "test")]

    def scans_of(name: str) -> list[torch.Tensor]:
        return list(map(read_scan, options.data.glob(f"{name}_frame*.npz")))

    learnt, tested = (list(map(scans_of, sorted(names))) for names in patients)
    pretrained = train(
        [scan for scans in learnt for scan in scans], options.steps, options.seed, contrast=True
    )
    order = np.random.default_rng(options.seed).permutation(len(learnt))
    for shots in (2, 6, 10):
        outlined = [scan for n in order[:shots] for scan in learnt[n]]
        for name, start in (("random", None), ("PCL", pretrained)):
            network = train(outlined, options.steps, options.seed, start)
            mean_dice = np.mean([dice(network, scan) for scans in tested for scan in scans])
            print(f"{shots:2} patients, {name:6} start: Dice {mean_dice:.3f}", flush=True)


if __name__ == "__main__":
    main()
