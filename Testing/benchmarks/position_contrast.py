"""Starts of a 2-D U-Net on cardiac MR (ACDC): random, contrast by slice index (Zeng 2021), contrast by place.

    python Testing/benchmarks/position_contrast.py ACDC -o starts.csv [--steps 80] [--seeds 3]

Reduced for CPUs: the middle 160 x 160 pixels, averaged to 80 x 80; widths 12 to 64; few steps. The starts whose name
ends in "cut" are pre-trained on volumes of which a random 60 % of the slices are kept: the slice index then counts from
the cut, while the place counts from the whole heart, as a body coordinate would.
"""

from __future__ import annotations

import argparse
import csv
import time
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F

from AnatomicalEmbedding.segmentation.network import UNet, UNetSpec
from AnatomicalEmbedding.segmentation.pretraining import Projected, by_body, by_slice, position_contrast
from AnatomicalEmbedding.segmentation.training import segmentation_loss

SPEC = UNetSpec(1, 3, 0, (12, 24, 48, 64), dimensions=2)
STARTS = ("random", "pcl", "place", "pcl cut", "place cut")
SHOTS = (2, 6, 10)
THRESHOLD = 0.35  # of the paper for ACDC
NEAR = THRESHOLD / 2  # of graded positives, in shares of the heart's height
KEPT = 0.6
MIDDLE, SIDE = 160, 80


def read_volume(path: Path) -> tuple[torch.Tensor, torch.Tensor]:
    """(z, 80, 80) image 0..1 and (z, 3, 80, 80) shares of right ventricle, myocardium, left ventricle."""
    with np.load(path) as file:
        image, label = (torch.from_numpy(np.asarray(file[key])).float() for key in ("image", "label"))
    low, high = np.percentile(image.numpy(), (1, 99))
    image = ((image - low) / max(high - low, 1.0)).clamp(0, 1)
    parts = torch.cat([image[:, None], *((label == n).float()[:, None] for n in (1, 2, 3))], dim=1)
    lack = [max(0, MIDDLE - n) for n in parts.shape[2:]]
    parts = F.pad(parts, (lack[1] // 2, lack[1] - lack[1] // 2, lack[0] // 2, lack[0] - lack[0] // 2))
    top, left = ((n - MIDDLE) // 2 for n in parts.shape[2:])
    small = F.avg_pool2d(parts[:, :, top : top + MIDDLE, left : left + MIDDLE], MIDDLE // SIDE)
    return small[:, 0], small[:, 1:]


def changed(x: torch.Tensor, rng: np.random.Generator) -> torch.Tensor:
    """A batch (b, c, j, i) of which the first channel is an image: turned, scaled, shifted; other grey values."""
    b = len(x)
    angle = torch.from_numpy(rng.normal(0, 0.35, b)).float()
    size = torch.from_numpy(np.exp(rng.normal(0, 0.15, b))).float()
    moved = torch.from_numpy(rng.normal(0, 0.08, (b, 2, 1))).float()
    turn = torch.stack([angle.cos(), -angle.sin(), angle.sin(), angle.cos()], 1).reshape(b, 2, 2) * size[:, None, None]
    grid = F.affine_grid(torch.cat([turn, moved], 2), x.shape, align_corners=False)
    x = F.grid_sample(x, grid, align_corners=False)
    gamma = torch.from_numpy(np.exp(rng.normal(0, 0.3, (b, 1, 1, 1)))).float()
    image = x[:, :1].clamp(min=1e-3) ** gamma + torch.from_numpy(rng.normal(0, 0.03, (b, 1, *x.shape[2:]))).float()
    return torch.cat([image, x[:, 1:]], dim=1)


def pretrain(volumes: list[torch.Tensor], start: str, steps: int, seed: int) -> dict[str, torch.Tensor]:
    """Encoder weights from images alone, 16 slices in two views each a step."""
    rng = np.random.default_rng(seed)
    torch.manual_seed(seed)
    model = Projected(UNet(SPEC)).train()
    optimiser = torch.optim.AdamW(model.parameters(), lr=1e-3)
    slices, index, place = [], [], []
    for volume in volumes:
        z = len(volume)
        kept = max(2, round(KEPT * z)) if start.endswith("cut") else z
        first = int(rng.integers(z - kept + 1))
        slices += list(volume[first : first + kept])
        index += [n / kept for n in range(kept)]
        place += [(first + n) / z for n in range(kept)]
    for _ in range(steps):
        pick = rng.integers(len(slices), size=16)
        x = torch.stack([slices[n] for n in pick])[:, None]
        z = model(torch.cat([changed(x, rng), changed(x, rng)]))
        if start.startswith("pcl"):
            weights = by_slice(torch.tensor([index[n] for n in pick] * 2), THRESHOLD)
        else:
            weights = by_body(torch.tensor([[place[n]] for n in pick] * 2), NEAR)
        loss = position_contrast(z, weights)
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
    return model.network.encoder.state_dict()


def fine_tune(
    labelled: list[tuple[torch.Tensor, torch.Tensor]], encoder: dict[str, torch.Tensor] | None, steps: int, seed: int
) -> UNet:
    rng = np.random.default_rng(seed)
    torch.manual_seed(seed)
    network = UNet(SPEC).train()
    if encoder is not None:
        network.encoder.load_state_dict(encoder)
    optimiser = torch.optim.AdamW(network.parameters(), lr=2e-3)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimiser, steps)
    slices = [torch.cat([image[n : n + 1], label[n]]) for image, label in labelled for n in range(len(image))]
    known = torch.ones(3, dtype=torch.bool)
    for _ in range(steps):
        batch = changed(torch.stack([slices[n] for n in rng.integers(len(slices), size=6)]), rng)
        loss = segmentation_loss(network(batch[:, :1]), batch[:, 1:], known)
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        schedule.step()
    return network.eval()


@torch.no_grad()
def mean_dice(network: UNet, test: list[tuple[torch.Tensor, torch.Tensor]]) -> float:
    """Mean over volumes and the three structures, whole volumes at a time, on 80 x 80 pixels."""
    found = []
    for image, label in test:
        mask, true = network(image[:, None]) > 0, label > 0.5
        both, total = ((mask & true).sum((0, 2, 3)), (mask.sum((0, 2, 3)) + true.sum((0, 2, 3))))
        found.append((2 * both / total.clamp(min=1)).mean())
    return float(torch.stack(found).mean())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("data", type=Path)
    parser.add_argument("-o", "--output", type=Path, required=True)
    parser.add_argument("--steps", type=int, default=80)
    parser.add_argument("--seeds", type=int, default=3)
    options = parser.parse_args()
    train, test = (sorted((options.data / f"{part}.list").read_text().split()) for part in ("train", "test"))

    def frames(patient: str) -> list[tuple[torch.Tensor, torch.Tensor]]:
        return [read_volume(path) for path in sorted(options.data.glob(f"{patient}_frame*.npz"))]

    of = {patient: frames(patient) for patient in [*train, *test]}
    tested = [frame for patient in test for frame in of[patient]]
    images = [image for patient in train for image, _ in of[patient]]
    began = time.monotonic()
    with options.output.open("w", newline="", encoding="utf-8") as file:
        table = csv.writer(file)
        table.writerow(("seed", "start", "M", "dice"))
        for seed in range(options.seeds):
            encoders = {s: None if s == "random" else pretrain(images, s, options.steps, seed) for s in STARTS}
            chosen = np.random.default_rng(seed).permutation(train)
            for shots in SHOTS:
                labelled = [frame for patient in chosen[:shots] for frame in of[patient]]
                for start in STARTS:
                    dice = mean_dice(fine_tune(labelled, encoders[start], options.steps, seed), tested)
                    table.writerow((seed, start, shots, f"{dice:.4f}"))
                    file.flush()
                    print(
                        f"seed {seed}  {start:10} M = {shots:2}  Dice {dice:.3f}  {time.monotonic() - began:.0f} s",
                        flush=True,
                    )


if __name__ == "__main__":
    main()
