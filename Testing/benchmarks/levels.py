"""Measure errors along the body, in mm, at organ centres, between different patients of a labelled folder.

    python Testing/benchmarks/levels.py DEV --model ct-research --model run/weights.safetensors

If weights can find points, their answer is the height of the matched point. The weights `bpr-paper` give only a score
for each slice; their answer is the height at which the target's slices have the score of the template's slice. The
first row of the table shows a simple method: the middles of the two bodies are aligned.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path

import numpy as np

from AnatomicalEmbedding import EmbeddingMap, load_model, match
from AnatomicalEmbedding.structures.labelled_scans import Pair, find_pairs, load_cases

_READING_STEP_MM = 1.0


def slice_scores(embedding: EmbeddingMap) -> tuple[np.ndarray, np.ndarray]:
    """Return world z (n,), mm, and score (n,) of the slices of a map that hold body; a slice is two layers of cells."""
    layers = np.arange(0, embedding.body.shape[0], 2)
    cells = np.add.reduceat(embedding.body.sum((1, 2)).numpy(), layers)
    totals = np.add.reduceat((embedding.coordinate[2] * embedding.body).sum((1, 2)).numpy(), layers)
    held = cells > 0
    z = embedding.cell_to_ras[2, 3] + embedding.cell_to_ras[2, 2] * (layers[held] + 0.5)
    return z, totals[held] / cells[held]


def find_levels(template: EmbeddingMap, points_ras: np.ndarray, target: EmbeddingMap) -> np.ndarray:
    """Find (n,) world z, mm, of the target's slices with the same score as the template's slices at (n, 3) RAS mm."""
    scores = np.interp(points_ras[:, 2], *slice_scores(template))
    heights, of_slices = slice_scores(target)
    fine = np.arange(heights[0], heights[-1] + _READING_STEP_MM, _READING_STEP_MM)
    return fine[np.abs(np.interp(fine, heights, of_slices) - scores[:, None]).argmin(1)]


def heights_found(
    template: EmbeddingMap, points_ras: np.ndarray, target: EmbeddingMap
) -> np.ndarray:
    """(n,) world z in the target of (n, 3) RAS mm points of the template."""
    return match(template, points_ras, target).points_ras[:, 2]


def heights_by_middle(
    template: EmbeddingMap, points_ras: np.ndarray, target: EmbeddingMap
) -> np.ndarray:
    """(n,) as `heights_found`, by the mean height of both bodies alone."""
    middle = [
        m.cell_to_ras[2, 3] + m.cell_to_ras[2, 2] * float(m.body_index[:, 2].float().mean())
        for m in (template, target)
    ]
    return points_ras[:, 2] - middle[0] + middle[1]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path)
    parser.add_argument("--model", action="append", required=True)
    options = parser.parse_args()
    cases = load_cases(options.folder)
    pairs = [pair for pair in find_pairs(cases) if "centre" in pair.kinds]
    print("| weights | pairs | centres | mean | median | 90th percentile |")
    rows: list[tuple[str, Callable]] = [("middle of the body", heights_by_middle)]
    for weights in options.model:
        model = load_model(weights, "cpu")
        maps = {case.id: model.embed(case.volume) for case in cases}
        states_levels = model.card.get("recipe", {}).get("objective") == "levels"
        for name, answer in [*rows, (model.name, find_levels if states_levels else heights_found)]:
            print(f"| {name} | {_row(pairs, maps, answer)} |", flush=True)
        rows = []  # the first row needs the maps of any weights


def _row(pairs: list[Pair], maps: dict[str, EmbeddingMap], answer: Callable) -> str:
    errors = []
    for pair in pairs:
        centre = np.array(pair.kinds) == "centre"
        centre &= np.isfinite(pair.template_ras).all(1) & np.isfinite(pair.target_ras).all(1)
        if centre.any():
            found = answer(maps[pair.template.id], pair.template_ras[centre], maps[pair.target.id])
            errors.append(np.abs(found - pair.target_ras[centre, 2]))
    joined = np.concatenate(errors)
    values = (
        f"{value:.1f}" for value in (joined.mean(), np.median(joined), np.percentile(joined, 90))
    )
    return f"{len(errors)} | {len(joined)} | {' | '.join(values)}"


if __name__ == "__main__":
    main()
