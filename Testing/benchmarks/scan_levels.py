"""Measure the levels of `anatemb levels`: synthetic patients with 4, 5 and 6 lumbar vertebrae, and labelled scans.

    python Testing/benchmarks/scan_levels.py [FOLDER...] [--patients 3]

For a patient with 4 lumbar vertebrae, the slices between the middles of the discs above and below L3 are removed; for 6
lumbar vertebrae, they are shown twice. The true levels are then counted from the sacrum; the lowest ribs are one
level off. FOLDER holds labelled scans; scans with fewer than three whole vertebrae are left out.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
from vertebrae import read_middles

from AnatomicalEmbedding import load_model
from AnatomicalEmbedding.anatomy.names import VERTEBRAE
from AnatomicalEmbedding.phantom import make_phantom
from AnatomicalEmbedding.scan.volume import Volume
from AnatomicalEmbedding.spine.vertebrae import level_text
from AnatomicalEmbedding.structures.labelled_scans import load_cases

_SEED, _SPACING, _RANGE = 81_000, (3.0, 3.0, 3.0), (20.0, 480.0)
_NO_LEVEL = 99


def patients(count: int) -> Iterator[tuple[str, Volume, dict[str, float]]]:
    """Yield a name, the scan, and the true S, mm, of each vertebra."""
    for number in range(count):
        phantom = make_phantom(_SEED + number, _SPACING, _RANGE)
        volume = phantom.volume
        step = phantom.volume.ijk_to_ras[2, 2]
        heights = {name: float(phantom.points_ras[f"vertebrae_{name}"][2]) for name in VERTEBRAE[2:-1]
                   if f"vertebrae_{name}" in phantom.points_ras}  # fmt: skip
        yield "5 lumbar vertebrae", volume, heights
        ends = [(heights[a] + heights[b]) / 2 for a, b in (("L3", "L4"), ("L2", "L3"))]
        low, high = sorted(round((s - volume.ijk_to_ras[2, 3]) / step) for s in ends)
        moved = abs(step) * (high - low)
        upper = VERTEBRAE[: VERTEBRAE.index("L3")]
        # Counted from the sacrum: without L3, the old L2 is the new L3; with L3 twice, the upper L3 is the new L2.
        fewer = {VERTEBRAE[VERTEBRAE.index(n) + 1] if n in upper else n: s - moved * (n in upper)
                 for n, s in heights.items() if n != "L3"}  # fmt: skip
        more = {VERTEBRAE[VERTEBRAE.index(n) - 1] if n in upper else n: s + moved * (n in upper)
                for n, s in heights.items()}  # fmt: skip
        more["L2"] = heights["L3"] + moved
        parts = volume.voxels[:low], volume.voxels[low:high], volume.voxels[high:]
        yield (
            "4 lumbar vertebrae",
            replace(volume, voxels=np.concatenate([parts[0], parts[2]])),
            fewer,
        )
        yield (
            "6 lumbar vertebrae",
            replace(volume, voxels=np.concatenate([parts[0], parts[1], *parts[1:]])),
            more,
        )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folders", type=Path, nargs="*")
    parser.add_argument("--patients", type=int, default=3)
    options = parser.parse_args()
    model = load_model("auto", "cpu")
    scans = list(patients(options.patients))
    for case in (
        case for folder in options.folders for case in load_cases(folder) if case.labels is not None
    ):
        whole = {name: float(point[2]) for name, point in read_middles(case.label_map)[0].items()}
        if len(whole) >= 3:
            scans.append((case.id, case.volume, whole))
    rows: dict[str, list[tuple[int, bool]]] = {}
    for name, volume, heights in scans:
        embedding = model.embed(volume)
        for level, s in heights.items():
            spine = embedding.spine
            text = level_text(embedding.spine, s)
            found = None if spine is None else spine.names[int(spine.nearest(np.array([s]))[0])]
            off = _NO_LEVEL if found is None else VERTEBRAE.index(found) - VERTEBRAE.index(level)
            rows.setdefault(name, []).append((off, bool(text) and " or " not in text))
    print("| scans | vertebrae | exact | within one | stated certain | certain and wrong |")
    for name, of in rows.items():
        off = np.array([each[0] for each in of])
        certain = np.array([each[1] for each in of])
        shares = (off == 0), (np.abs(off) <= 1), certain, certain & (off != 0)
        print(
            f"| {name} | {len(of)} | " + " | ".join(f"{each.mean():.0%}" for each in shares) + " |"
        )


if __name__ == "__main__":
    main()
