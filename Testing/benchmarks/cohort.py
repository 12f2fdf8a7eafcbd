"""Measure cohorts of many scans: memory and speed of a run, file sizes, search times.

python Testing/benchmarks/cohort.py WORK [--scans 1000] [--real DIR] [--steps data,run,...]

The scans are small parts of synthetic patients and, if DIR is given, real CTs. One scan in twenty is damaged, empty,
very large, a duplicate or not a CT. Each step prints its figures and adds them to WORK/figures.json; see RESULTS.md.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import sqlite3
import subprocess
import sys
import threading
import time
from collections import Counter
from contextlib import closing
from datetime import datetime
from pathlib import Path

import numpy as np
import psutil

from AnatomicalEmbedding.cohort.manifest import EMBEDDED
from AnatomicalEmbedding.cohort.search import Search, one_mention
from AnatomicalEmbedding.cohort.store import MANIFEST_NAME, Store
from AnatomicalEmbedding.matching.query import read_query
from AnatomicalEmbedding.phantom import make_phantom
from AnatomicalEmbedding.scan.volume import Volume

STEPS = ("data", "run", "find")
_PATIENTS = 24
_REAL_EVERY = 8  # of the real scans, so that most of the run is many small ones
_PART_MM = (210.0, 210.0, 110.0)
_ANATEMB = [sys.executable, "-m", "AnatomicalEmbedding", "cohort"]


def make_data(folder: Path, scans: int, real: Path | None) -> dict:
    """Parts of synthetic patients, every twentieth spoilt; and links to real scans."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    links = (
        [] if real is None else sorted([*real.glob("train/*.nii.gz"), *real.glob("dev/*.nii.gz")])
    )
    links = [path for path in links if ".seg." not in path.name][::_REAL_EVERY]
    for path in links:
        (folder / path.name).symlink_to(path.resolve())
    rng = np.random.default_rng(0)
    spoilt: Counter[str] = Counter()
    patients = [make_phantom(seed, spacing=(3, 3, 4)).volume for seed in range(_PATIENTS)]
    for number in range(scans - len(links)):
        whole = patients[number % _PATIENTS]
        size = np.round(np.array(_PART_MM) / whole.spacing).astype(int)[::-1]
        first = [
            int(rng.integers(0, max(n - s, 0) + 1)) for n, s in zip(whole.shape, size, strict=True)
        ]
        part = whole.voxels[tuple(slice(a, a + n) for a, n in zip(first, size, strict=True))]
        to_ras = whole.ijk_to_ras.copy()
        to_ras[:3, 3] = (whole.ijk_to_ras @ [*first[::-1], 1])[:3]
        voxels = (part + rng.normal(0, 10, part.shape)).astype(np.int16)
        path = folder / f"part_{number:04d}.nii"
        Volume(voxels, to_ras).write(path)
        if number % 20 == 7:
            kind = ("cut", "empty", "huge", "duplicate", "noise")[number // 20 % 5]
            spoil(path, kind, folder / f"part_{number - 1:04d}.nii")
            spoilt[kind] += 1
    return {"scans": scans, "real": len(links), "spoilt": dict(spoilt)}


def spoil(path: Path, kind: str, other: Path) -> None:
    content = path.read_bytes()
    if kind == "cut":
        path.write_bytes(content[: len(content) // 2])
    elif kind == "empty":
        path.write_bytes(b"")
    elif kind == "huge":  # a header of 8,000 million voxels
        head = bytearray(content)
        head[42:48] = np.array([2000, 2000, 2000], dtype="<i2").tobytes()
        path.write_bytes(head)
    elif kind == "duplicate":
        shutil.copy(other, path)
    else:
        path.write_bytes(random.Random(1).randbytes(len(content)))


def finished(store: Path) -> list[float]:
    """UTC seconds at which each scan ended, in order."""
    with closing(sqlite3.connect(store / MANIFEST_NAME)) as manifest:
        times = [
            row[0]
            for row in manifest.execute("SELECT finished FROM scans WHERE finished IS NOT NULL")
        ]
    return sorted(datetime.fromisoformat(each).timestamp() for each in times)


class Watched:
    """A running command, and the memory of its own process: (UTC seconds, bytes) twice a second."""

    def __init__(self, command: list[str]) -> None:
        self.process = subprocess.Popen(
            command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        self.memory: list[tuple[float, int]] = []
        threading.Thread(target=self._watch, daemon=True).start()

    def _watch(self) -> None:
        own = psutil.Process(self.process.pid)
        while self.process.poll() is None:
            try:
                self.memory.append((time.time(), own.memory_info().rss))
            except psutil.Error:
                return
            time.sleep(0.5)


def run_once(work: Path, workers: int = 2) -> dict:
    store = work / "a"
    shutil.rmtree(store, ignore_errors=True)
    subprocess.run(
        [*_ANATEMB, "add", str(store), str(work / "data")], check=True, stdout=subprocess.DEVNULL
    )
    start = time.perf_counter()
    start_utc = time.time()
    run = Watched([*_ANATEMB, "run", str(store), "--workers", str(workers)])
    run.process.wait()
    seconds = time.perf_counter() - start
    with Store(store) as opened:
        found = opened.manifest.counts()
        sizes = [size for _, size in opened.manifest.map_files().values()]
    index = sum(path.stat().st_size for path in (store / "index").glob("*"))
    ends = finished(store)
    memory = np.array(run.memory)
    shares = {
        f"{share:.0%}": ends[int(share * (len(ends) - 1))] for share in (0.1, 0.25, 0.5, 0.75, 1.0)
    }
    return {
        "workers": workers, "seconds": round(seconds), "states": found, "load": os.getloadavg()[2],
        "seconds_to": {share: round(end - start_utc) for share, end in shares.items()},
        "parent_mb_at": {s: round(np.interp(end, *memory.T) / 2**20) for s, end in shares.items()},
        "parent_peak_mb": round(memory[:, 1].max() / 2**20),
        "maps": len(sizes),
        "mb_a_scan": {"mean": round(np.mean(sizes) / 2**20, 2), "largest": round(max(sizes) / 2**20, 2)},
        "index_mb_a_scan": round(index / len(sizes) / 2**20, 3),
    }  # fmt: skip


def time_find(work: Path) -> dict:
    """Warm: in one process, the second time. Cold: a new process, pages of the files dropped where that is possible.

    Seconds, and in brackets those of the processor alone, which other programs hardly change.
    """
    folder = work / "a"
    with closing(Store(folder)) as store:
        row = next(iter(store.manifest.rows(EMBEDDED)))
        search = Search(store)
        template = search.map_of(row)
        points = template.body_bounds_ras.mean(axis=0)[None]
        query = read_query(template, points)
        words = one_mention("left adrenal gland")
        times = {}
        for refined in (0, 50):
            for kind, ask in (
                ("point", lambda n: search.point(query, n)),
                ("words", lambda n: search.words(words, n)),
            ):
                for _ in range(2):
                    start = time.perf_counter()
                    used = time.process_time()
                    found = ask(refined)
                    taken = time.perf_counter() - start, time.process_time() - used
                times[f"warm_{kind}_{refined}"] = f"{taken[0]:.2f} ({taken[1]:.2f})"
                near = sum(each.point_ras is not None for each in found)
                times[f"hold_{kind}"] = near
    place = ",".join(f"{x:.1f}" for x in points[0])
    wanted = {"point": ["--like", row.scan, f"--point={place}"], "words": ["left adrenal gland"]}
    for kind, asked in wanted.items():
        for refined in (0, 50):
            for path in folder.rglob("*.safetensors"):
                with path.open("rb") as file:
                    os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
            command = [
                *_ANATEMB,
                "find",
                str(folder),
                *asked,
                "-o",
                str(work / "f"),
                "--refine",
                str(refined),
            ]
            start = time.perf_counter()
            before = os.times()
            subprocess.run(
                command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
            )
            seconds = time.perf_counter() - start
            after = os.times()
            used = sum(after[2:4]) - sum(before[2:4])
            times[f"new_process_{kind}_{refined}"] = f"{seconds:.2f} ({used:.2f})"
    return {"maps": len(found), "seconds": times, "load": os.getloadavg()[0]}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("work", type=Path)
    parser.add_argument("--scans", type=int, default=1000)
    parser.add_argument("--real", type=Path)
    parser.add_argument("--steps", default=",".join(STEPS))
    options = parser.parse_args()
    work = options.work.absolute()
    steps = {
        "data": lambda: make_data(work / "data", options.scans, options.real),
        "run": lambda: run_once(work),
        "find": lambda: time_find(work),
    }
    path = work / "figures.json"
    for name in options.steps.split(","):
        found = steps[name]()
        print(name, json.dumps(found), flush=True)
        known = json.loads(path.read_text()) if path.exists() else {}
        path.write_text(json.dumps(known | {name: found}, indent=1))


if __name__ == "__main__":
    main()
