"""Boxes by five examples for weights without a library of their own, such as those of the papers' recipes.

    python Testing/benchmarks/box_recipes.py DEV TRAIN --model hybrid-ct-v3 --model run/weights.safetensors

As `anatemb evaluate boxes DEV --templates TRAIN`, which takes its margins from the weights' library; here they are
learnt on TRAIN's structures.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from AnatomicalEmbedding import load_model
from AnatomicalEmbedding.embedding.inference import Model
from AnatomicalEmbedding.scan.boxes import intersection_over_union
from AnatomicalEmbedding.structures.cross_validation import find_boxes, margins_of
from AnatomicalEmbedding.structures.examples import BoxCase, labelled_boxes
from AnatomicalEmbedding.structures.labelled_scans import load_cases

_SHOTS = 5


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("templates", type=Path)
    parser.add_argument("--model", action="append", required=True)
    options = parser.parse_args()
    cases, templates = (list(labelled_boxes(load_cases(folder))) for folder in (options.folder, options.templates))
    print("| weights | boxes | IoU (by structure) | recall at 0.9 | at 0.99 | VR at 0.9 | at 0.99 |")
    for weights in options.model:
        model = load_model(weights, "cpu")
        print(f"| {model.name} | {row_of(cases, templates, model)} |", flush=True)


def row_of(cases: Sequence[BoxCase], templates: Sequence[BoxCase], model: Model) -> str:
    """Means over the boxes of `cases`; of the volume ratio the median, as a box that misses has none."""
    margins = margins_of(find_boxes(templates, model, _SHOTS)[0])
    found, _ = find_boxes(cases, model, _SHOTS, templates)
    overlaps = np.array([intersection_over_union(each.located.box_ras, each.truth.box_ras) for each in found])
    names = np.array([each.name for each in found])
    by_structure = np.mean([overlaps[names == name].mean() for name in np.unique(names)])
    grown = [[margins.box(each.located, recall) for each in found] for recall in (0.9, 0.99)]
    recalls = [np.mean([each.recall(box) for each, box in zip(found, boxes, strict=True)]) for boxes in grown]
    ratios = [np.median([each.volume_ratio(box) for each, box in zip(found, boxes, strict=True)]) for boxes in grown]
    return (
        f"{len(found)} | {overlaps.mean():.3f} ({by_structure:.3f}) | {recalls[0]:.3f} | {recalls[1]:.3f} | "
        f"{ratios[0]:.1f} | {ratios[1]:.1f}"
    )


if __name__ == "__main__":
    main()
