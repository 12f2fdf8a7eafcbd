"""From a loaded scan to its map: seconds, memory above the scan and size of the map, by slices; and of two peers.

python Testing/benchmarks/embedding_speed.py SCAN [--slices 64,134,300,600,1200] [--peers] [--rounds 5] [--threads 2]

The scan is cut into as many slices as asked for, thinner or thicker ones. Each line is a process of its own. Peers have
random weights, for which time and memory are the same: the network of APE as released (Goncharov 2024; its equalisation
of contrast left out), 1 x 1 x 1.5 mm voxels, and one shaped as SAM's (Yan 2022): a 3-D ResNet-18 with a feature
pyramid, 2 mm voxels.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import SimpleITK as sitk
import torch
from comparison.ape_network import ApeShaped
from torch import nn
from torch.nn import functional

from AnatomicalEmbedding import Volume, load_model

_WINDOW_HU = (-1024.0, 3071.0)
_DESCRIPTOR = 128


class _Block(nn.Module):
    """Two convolutions and a shortcut, as in ResNet-18."""

    def __init__(self, inputs: int, outputs: int, stride: tuple[int, int, int], kernel: tuple[int, int, int]) -> None:
        super().__init__()
        pad = tuple(k // 2 for k in kernel)
        self.one = nn.Conv3d(inputs, outputs, kernel, stride, pad, bias=False)
        self.two = nn.Conv3d(outputs, outputs, kernel, 1, pad, bias=False)
        self.norms = nn.ModuleList(nn.BatchNorm3d(outputs) for _ in range(2))
        same = inputs == outputs and stride == (1, 1, 1)
        self.shortcut = nn.Identity() if same else nn.Conv3d(inputs, outputs, 1, stride, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = functional.relu(self.norms[0](self.one(x)))
        return functional.relu(self.norms[1](self.two(y)) + self.shortcut(x))


class SamShaped(nn.Module):
    """Two maps of 128 numbers: every 4 mm, and every 8 x 32 x 32 mm (z, y, x)."""

    def __init__(self) -> None:
        super().__init__()
        flat, deep = (1, 3, 3), (3, 3, 3)
        self.stem = nn.Sequential(nn.Conv3d(1, 64, (3, 7, 7), 1, (1, 3, 3), bias=False), nn.BatchNorm3d(64), nn.ReLU())
        self.stages = nn.ModuleList(
            nn.Sequential(_Block(a, b, stride, kernel), _Block(b, b, (1, 1, 1), kernel))
            for a, b, stride, kernel in (
                (64, 64, (1, 2, 2), flat), (64, 128, (1, 2, 2), flat), (128, 256, (1, 2, 2), deep),
                (256, 512, (2, 2, 2), deep),
            )
        )  # fmt: skip
        self.laterals = nn.ModuleList(nn.Conv3d(n, _DESCRIPTOR, 1) for n in (64, 128, 256))
        self.fine = nn.Conv3d(_DESCRIPTOR, _DESCRIPTOR, 3, padding=1)
        self.coarse = nn.Conv3d(512, _DESCRIPTOR, 3, padding=1)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        x, levels = self.stem(x), []
        for number, stage in enumerate(self.stages):
            x = stage(x)
            if number == 0:
                x = functional.max_pool3d(x, (2, 1, 1))
            levels.append(x)
        top = None
        for lateral, level in zip(reversed(self.laterals), reversed(levels[:3]), strict=True):
            side = lateral(level)
            top = side if top is None else side + functional.interpolate(top, side.shape[2:])
        return tuple(functional.normalize(y, dim=1).half() for y in (self.fine(top), self.coarse(levels[3])))


def embed_like(network: nn.Module, volume: Volume, voxel_mm: tuple[float, float, float], step: int) -> int:
    """The whole scan at once, in voxels of that size and their number a multiple of `step`; bytes of its map."""
    image = sitk.GetImageFromArray(volume.voxels)
    spacing = np.asarray(volume.spacing, dtype=float)
    image.SetSpacing(spacing.tolist())
    size = np.maximum(np.ceil(np.array(volume.shape[::-1]) * spacing / voxel_mm / step) * step, step).astype(int)
    grid = (size.tolist(), sitk.Transform(), sitk.sitkLinear, (0.0, 0.0, 0.0), voxel_mm)
    found = sitk.Resample(image, *grid, np.eye(3).ravel().tolist(), -1024.0, sitk.sitkFloat32)
    low, high = _WINDOW_HU
    x = (torch.from_numpy(sitk.GetArrayFromImage(found)).clamp(low, high) - low) / (high - low)
    with torch.no_grad():
        found = network(x[None, None])
        return sum(y.numel() * y.element_size() for y in (found if isinstance(found, tuple) else (found,)))


def of_slices(volume: Volume, slices: int) -> Volume:
    """The same body in more and thinner slices, or in fewer and thicker ones."""
    index = np.minimum((np.arange(slices) + 0.5) * len(volume.voxels) / slices, len(volume.voxels) - 1).astype(int)
    to_ras = volume.ijk_to_ras.copy()
    to_ras[:3, 2] *= len(volume.voxels) / slices
    return Volume(np.ascontiguousarray(volume.voxels[index]), to_ras)


def measure(scan: Path, kind: str, slices: int, rounds: int, threads: int) -> dict:
    """One line of the table, in this process."""
    torch.set_num_threads(threads)
    torch.manual_seed(0)
    volume = of_slices(Volume.read(scan), slices)
    if kind != "ours":
        network, voxel_mm, step = {
            "sam": (SamShaped, (2.0, 2.0, 2.0), 16),
            "ape": (ApeShaped, (1.0, 1.0, 1.5), 32),
        }[kind]
        network = network().eval()

        def work() -> int:
            return embed_like(network, volume, voxel_mm, step)
    else:
        model = load_model("auto", "cpu")

        def work() -> int:
            found = model.embed(volume)
            tensors = (found.coordinate, found.body, found.global_, found.local)
            return sum(t.numel() * t.element_size() for t in tensors if t is not None)

    resident = int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()
    Path("/proc/self/clear_refs").write_text("5")  # the peak so far is forgotten
    bytes_of_map = work()
    status = Path("/proc/self/status").read_text()
    peak = int(status.split("VmHWM:")[1].split()[0]) * 1024
    times = []
    for _ in range(rounds):
        start = time.perf_counter()
        work()
        times.append(time.perf_counter() - start)
    scan_mb = volume.voxels.nbytes / 2**20
    above = (peak - resident) / 2**20
    return {
        "what": kind, "slices": slices, "scan_mb": round(scan_mb), "seconds": round(float(np.median(times or [0])), 2),
        "above_mb": round(above), "float_copies": round((above + scan_mb) / (volume.voxels.size * 4 / 2**20), 2),
        "map_mb": round(bytes_of_map / 2**20, 1),
        "predicted_mb": round(model.predicted_bytes(volume) / 2**20) if kind == "ours" else None,
    }  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("scan", type=Path)
    parser.add_argument("--slices", default="64,134,300,600,1200")
    parser.add_argument("--peers", action="store_true", help="APE's and SAM's network too, at the second height")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--one", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        kind, slices = options.one.split(",")
        print(json.dumps(measure(options.scan, kind, int(slices), options.rounds, options.threads)))
        return
    heights = [int(n) for n in options.slices.split(",")]
    wanted = [("ours", n) for n in heights]
    if options.peers:
        wanted += [(kind, heights[min(1, len(heights) - 1)]) for kind in ("ape", "sam")]
    for kind, slices in wanted:
        rounds = options.rounds if kind == "ours" else min(options.rounds, 2)
        command = [sys.executable, __file__, str(options.scan), "--one", f"{kind},{slices}", "--rounds", str(rounds)]
        subprocess.run([*command, "--threads", str(options.threads)], check=False)


if __name__ == "__main__":
    main()
