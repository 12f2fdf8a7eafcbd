"""Train the network that decides whether a scan is mirrored, or measure it on sources left out of training.

    python Testing/benchmarks/orientation.py SCANS... -o Resources/Orientation/ct.safetensors [--steps 500]
    python Testing/benchmarks/orientation.py SCANS... --sources 4

SCANS are folders of scans with correct orientation. The scans of FOLDER:0.5 are chosen half as often as the others.
The source of a scan is the beginning of its file name, up to a digit, "-" or "_".
"""

from __future__ import annotations

import argparse
import re
from pathlib import Path

import numpy as np
import torch

from AnatomicalEmbedding import Volume
from AnatomicalEmbedding.embedding.body import patient_on_grid
from AnatomicalEmbedding.embedding.models.mirror_network import MirrorNetwork
from AnatomicalEmbedding.embedding.orientation import in_cells, log_odds_of
from AnatomicalEmbedding.structures.labelled_scans import list_scans
from AnatomicalEmbedding.training.mirrors import train_mirror_networks, write_mirror_network

_GRID = (3.0, 3.0, 4.0), 32, 4  # of the shipped weights: spacing, lattice, step of sizes
_LIMITS = (2.0, 3.0, 4.0)  # log odds


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("scans", nargs="+")
    parser.add_argument("-o", "--output", type=Path)
    parser.add_argument("--steps", type=int, default=500)
    parser.add_argument("--members", type=int, default=2)
    parser.add_argument(
        "--sources", type=int, metavar="FOLDS", help="leave out each of so many groups of sources"
    )
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
            network = _trained(
                {n: c for n, c in cells.items() if source_of(n) not in left_out}, shares, options
            )
            found += [_both_ways(network, c) for n, c in cells.items() if source_of(n) in left_out]
        _print(np.array(found))
    if options.output:
        write_mirror_network(_trained(cells, shares, options), options.output)


def source_of(name: str) -> str:
    """The collection that a scan comes from, by its file's name."""
    return re.split(r"[-_0-9]", name)[0]


def _trained(
    cells: dict[str, torch.Tensor], shares: dict[str, float], options: argparse.Namespace
) -> MirrorNetwork:
    chances = [shares[name] for name in cells]
    return train_mirror_networks(
        list(cells.values()), chances, options.steps, range(options.members)
    )


@torch.no_grad()
def _both_ways(network: MirrorNetwork, cells: torch.Tensor) -> list[float]:
    """Of the scan as stored along R, A, S, and of its mirror image along each, with the sign turned."""
    mirrored = [-log_odds_of(network, cells.flip(3 - axis))[axis] for axis in range(3)]
    return [*log_odds_of(network, cells).tolist(), *map(float, mirrored)]


def _print(found: np.ndarray) -> None:
    for limit in _LIMITS:
        shown = (found[:, 3:] > limit).mean(axis=0), (found[:, :3] < -limit).mean(axis=0)
        print(
            f"log odds {limit}: mirrored along R, A, S found {shown[0].round(3)}, false alarms {shown[1].round(3)}"
        )


if __name__ == "__main__":
    main()
