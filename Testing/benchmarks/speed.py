"""Measure speed and memory of embedding and matching on this machine: `make bench`. Needs no data.

The script prints one table. Published figures are in RESULTS.md, with the machine and the date.
"""

import argparse
import itertools
import platform
import resource
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch

from AnatomicalEmbedding import Volume, load_model
from AnatomicalEmbedding.embedding.grid_reading import in_rows
from AnatomicalEmbedding.matching.match import match_all
from AnatomicalEmbedding.phantom import make_phantom
from AnatomicalEmbedding.structures.library import shipped_library
from AnatomicalEmbedding.structures.locating import locate

_ROUNDS = 5


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", default="auto")
    parser.add_argument("--device", default="auto")
    parser.add_argument("--scan", help="a CT file to embed instead of the phantom")
    options = parser.parse_args()
    model = load_model(options.model, options.device)
    phantom = make_phantom(5, spacing=(0.78, 0.78, 3.0), coverage_mm=(200.0, 590.0))
    volume = Volume.read(options.scan) if options.scan else phantom.volume
    print(
        f"{platform.processor() or platform.machine()}, {torch.get_num_threads()} threads, torch {torch.__version__}"
    )
    k, j, i = volume.shape
    print(f"{model.name} on {model.device}; scan {i} x {j} x {k} voxels")

    above = _peak_above_bytes(lambda: model.embed(volume))
    seconds = _median_seconds(lambda: model.embed(volume))
    print(f"embed                          {seconds:8.3f} s")
    print(f"  peak memory above the scan   {above / 2**20:8.0f} MB")

    embedding = model.embed(volume)
    rng = np.random.default_rng(0)
    index, _ = embedding.body_cells
    cells = index[torch.from_numpy(rng.integers(len(index), size=10_000))].double().numpy()
    points = cells @ embedding.cell_to_ras[:3, :3].T + embedding.cell_to_ras[:3, 3]
    low, high = volume.bounds_ras
    points = np.clip(points, low + 1, high - 1)
    # maps of their own memory, as many as fit: those of an index lie in memory, not in the processor's cache
    copies = [replace(embedding, local=in_rows(embedding.local.clone())) for _ in range(20)]
    index = [replace(copies[n % len(copies)]) for n in range(200)]
    print("matching              standard      fast   (s; each time other points)")
    for what, count, targets in (
        ("1 point x 1 target", 1, copies[:1]),
        ("1 point x 5 targets", 1, copies[:5]),
        ("1 point x 10 targets", 1, copies[:10]),
        ("100 points x 5 targets", 100, copies[:5]),
        ("10,000 points x 1", 10_000, copies[:1]),
        ("1 point x 200 targets", 1, index),
    ):
        turns = itertools.count()
        times = [
            _median_seconds(
                lambda e=effort, n=count, t=targets, i=turns: match_all(
                    embedding, np.roll(points, next(i), 0)[:n], t, e
                )
            )
            for effort in ("standard", "fast")
        ]
        print(f"{what:<22}" + "".join(f"{seconds:8.3f}  " for seconds in times))
    library = shipped_library(model.weights_hash)
    if library is not None:
        fifteen = {name: library.examples[name] for name in sorted(library.examples)[:15]}
        seconds = _median_seconds(lambda: locate(fifteen, embedding, library.effort))
        print(f"locate 15 structures  {seconds:8.3f} s   (by the shipped library, map at hand)")


def _median_seconds(work: Callable[[], object]) -> float:
    work()
    times = []
    for _ in range(_ROUNDS):
        start = time.perf_counter()
        work()
        times.append(time.perf_counter() - start)
    return float(np.median(times))


def _peak_above_bytes(work: Callable[[], object]) -> int:
    """Highest resident memory while `work` runs, above what is resident before it (Linux; elsewhere 0)."""
    statm = Path("/proc/self/statm")
    if not statm.exists():
        work()
        return 0
    page = resource.getpagesize()

    def resident() -> int:
        return int(statm.read_text().split()[1]) * page

    before = peak = resident()
    done = threading.Event()

    def watch() -> None:
        nonlocal peak
        while not done.wait(0.002):
            peak = max(peak, resident())

    watcher = threading.Thread(target=watch)
    watcher.start()
    work()
    done.set()
    watcher.join()
    return peak - before


if __name__ == "__main__":
    main()
