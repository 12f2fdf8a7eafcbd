"""Train the network that decides whether a scan is mirrored, or measure it on sources left out of training.

    python Testing/benchmarks/orientation.py SCANS... -o Resources/Orientation/ct.safetensors [--steps 500]
    python Testing/benchmarks/orientation.py SCANS... --sources 4

SCANS are folders of scans with correct orientation. The scans of FOLDER:0.5 are chosen half as often as the others.
The source of a scan is the beginning of its file name, up to a digit, "-" or "_".
"""

from __future__ import annotations

import argparse
import json
import re
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from safetensors.torch import save_file

from AnatomicalEmbedding import Volume
from AnatomicalEmbedding.embedding.body import patient_on_grid
from AnatomicalEmbedding.embedding.models.mirror_network import STRIDE, MirrorNetwork
from AnatomicalEmbedding.embedding.orientation import FORMAT_VERSION, METADATA_KEY, in_cells, log_odds_of
from AnatomicalEmbedding.structures.labelled_scans import list_scans
from AnatomicalEmbedding.training.loop import OptimiserSpec, TrainingLoop

_GRID = (3.0, 3.0, 4.0), 32, 4  # of the shipped weights: spacing, lattice, step of sizes
_LIMITS = (2.0, 3.0, 4.0)  # log odds
_BATCH = 8
_OPTIMISER = OptimiserSpec(2e-3, final=0.01, weight_decay=3e-2, gradient_clip=5.0)
_IMPORTANCE = (1.0, 0.5, 0.5)  # of left and right, front and back, head and feet: the first is the hardest
_LEAST_LAYERS = 5  # of cells along the body that a part of a scan has


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("scans", nargs="+")
    parser.add_argument("-o", "--output", type=Path)
    parser.add_argument("--steps", type=int, default=500)
    parser.add_argument("--members", type=int, default=2)
    parser.add_argument("--sources", type=int, metavar="FOLDS", help="leave out each of so many groups of sources")
    options = parser.parse_args()
    cells: dict[str, torch.Tensor] = {}
    shares: dict[str, float] = {}
    for argument in options.scans:
        folder, _, share = argument.partition(":")
        for path in list_scans(Path(folder)):
            grid, body = patient_on_grid(Volume.read(path), *_GRID)
            cells[path.name] = in_cells(grid, body)
            shares[path.name] = float(share or 1)
    print(f"{len(cells)} scans", flush=True)
    if options.sources:
        sources = sorted({source_of(name) for name in cells})
        found = []
        for fold in range(options.sources):
            left_out = set(sources[fold :: options.sources])
            network = _trained({n: c for n, c in cells.items() if source_of(n) not in left_out}, shares, options)
            found += [_both_ways(network, c) for n, c in cells.items() if source_of(n) in left_out]
        _print(np.array(found))
    if options.output:
        network = _trained(cells, shares, options)
        about = {"format_version": FORMAT_VERSION, "widths": [16, 32, 64], "members": options.members}
        save_file(network.state_dict(), options.output, {METADATA_KEY: json.dumps(about)})


def source_of(name: str) -> str:
    """The collection that a scan comes from, by its file's name."""
    return re.split(r"[-_0-9]", name)[0]


def _trained(cells: dict[str, torch.Tensor], shares: dict[str, float], options: argparse.Namespace) -> MirrorNetwork:
    network = MirrorNetwork(members=options.members)
    for seed in range(options.members):
        member = train_mirror_network(list(cells.values()), [shares[name] for name in cells], options.steps, seed)
        network.members[seed] = member.members[0]
    return network.eval()


@torch.no_grad()
def _both_ways(network: MirrorNetwork, cells: torch.Tensor) -> list[float]:
    """Of the scan as stored along R, A, S, and of its mirror image along each, with the sign turned."""
    mirrored = [-log_odds_of(network, cells.flip(3 - axis))[axis] for axis in range(3)]
    return [*log_odds_of(network, cells).tolist(), *map(float, mirrored)]


def _print(found: np.ndarray) -> None:
    for limit in _LIMITS:
        shown = (found[:, 3:] > limit).mean(axis=0), (found[:, :3] < -limit).mean(axis=0)
        print(f"log odds {limit}: mirrored along R, A, S found {shown[0].round(3)}, false alarms {shown[1].round(3)}")


def train_mirror_network(
    scans: Sequence[torch.Tensor],
    shares: Sequence[float],
    steps: int,
    seed: int = 0,
    report: Callable[[int, float], None] = lambda step, loss: None,
) -> MirrorNetwork:
    """Train one network. scans: (3, k, j, i) each, of `orientation.in_cells`. shares: how often each is drawn.

    report: called with (step, loss).
    """
    torch.manual_seed(seed)
    network = MirrorNetwork()
    chances = np.array(shares) / np.sum(shares)
    importance = torch.tensor(_IMPORTANCE)

    def loss_of(number: int) -> torch.Tensor:
        rng = np.random.default_rng([seed, number])
        chosen = rng.choice(len(scans), _BATCH, p=chances)
        log_odds = network(_batch([_vary(scans[n].float(), rng) for n in chosen], rng))
        return F.softplus(-log_odds).mean(0) @ importance

    loop = TrainingLoop(network, _OPTIMISER, steps)
    loop.run(loss_of, progress=lambda done: report(done.step, done.loss))
    return network.eval()


def _batch(scans: Sequence[torch.Tensor], rng: np.random.Generator) -> torch.Tensor:
    """(b, 3, k, j, i) scans in the middle of air."""
    size = [(-(-max(n) // STRIDE) + 1) * STRIDE for n in zip(*(scan.shape[1:] for scan in scans), strict=True)]
    batch = torch.zeros(len(scans), 3, *size)
    for place, scan in zip(batch, scans, strict=True):
        rounded = rng.integers(0, 2, 3)
        low = [(whole - n + up) // 2 for whole, n, up in zip(size, scan.shape[1:], rounded, strict=True)]
        place[:, *(slice(a, a + n) for a, n in zip(low, scan.shape[1:], strict=True))] = scan
    return batch


def _vary(scan: torch.Tensor, rng: np.random.Generator) -> torch.Tensor:
    """A part of a scan, turned and stretched a little, of other noise and contrast."""
    layers = scan.shape[1]
    if rng.random() < 0.6 and layers > _LEAST_LAYERS:
        kept = int(rng.integers(_LEAST_LAYERS, layers + 1))
        scan = scan.narrow(1, int(rng.integers(0, layers - kept + 1)), kept)
    if rng.random() < 0.15:  # a field of view that cuts the body
        axis = int(rng.integers(2, 4))
        kept = int(scan.shape[axis] * rng.uniform(0.75, 1))
        scan = scan.narrow(axis, int(rng.integers(0, scan.shape[axis] - kept + 1)), kept)
    if rng.random() < 0.8:
        affine = np.zeros((3, 4))
        affine[:, :3] = (np.eye(3) + rng.normal(0, 0.06, (3, 3))) * np.exp(rng.normal(0, 0.1, 3))[:, None]
        affine[:, 3] = rng.normal(0, 0.05, 3)
        grid = F.affine_grid(torch.from_numpy(affine[None]).float(), [1, *scan.shape], align_corners=False)
        scan = F.grid_sample(scan[None], grid, align_corners=False)[0]
    mean, spread, body = scan
    mean = mean * float(np.exp(rng.normal(0, 0.05))) + float(rng.uniform(0, 0.03)) * torch.randn_like(mean)
    if rng.random() < 0.5:
        mean = mean + float(rng.normal(0, 0.3)) * mean * (1 - mean) * body
    return torch.stack([mean, spread * float(np.exp(rng.normal(0, 0.4))), body])


if __name__ == "__main__":
    main()
