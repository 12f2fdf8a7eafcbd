"""Boxes by five examples for weights of any recipe, those that state levels alone included.

    python Testing/benchmarks/box_recipes.py DEV TRAIN --model hybrid-ct-v3 --model run/weights.safetensors

As `anatemb evaluate boxes DEV --templates TRAIN`, which needs weights with a library for its margins; here margins are
learnt on TRAIN's structures. "heights" is the overlap (IoU) of the range of heights alone, all that weights that state
levels (`bpr-paper`) answer.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from levels import heights_found

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
    print("| weights | boxes | IoU | heights | recall at 0.9 | at 0.99 | VR at 0.9 | at 0.99 |")
    for weights in options.model:
        model = load_model(weights, "cpu")
        measure = _levels if model.embed(cases[0].volume).levels_alone else _boxes
        print(f"| {model.name} | {measure(cases, templates, model)} |", flush=True)


def _boxes(cases: Sequence[BoxCase], templates: Sequence[BoxCase], model: Model) -> str:
    margins = margins_of(find_boxes(templates, model, _SHOTS)[0])
    found, _ = find_boxes(cases, model, _SHOTS, templates)
    overlaps = [intersection_over_union(each.located.box_ras, each.truth.box_ras) for each in found]
    heights = [overlap(each.located.box_ras[:, 2], each.truth.box_ras[:, 2]) for each in found]
    stated = [[margins.box(each.located, recall) for each in found] for recall in (0.9, 0.99)]
    recalls = [np.mean([each.recall(box) for each, box in zip(found, grown, strict=True)]) for grown in stated]
    ratios = [np.median([each.volume_ratio(box) for each, box in zip(found, grown, strict=True)]) for grown in stated]
    return (
        f"{len(found)} | {np.mean(overlaps):.3f} | {np.mean(heights):.3f} | {recalls[0]:.3f} | {recalls[1]:.3f} | "
        f"{ratios[0]:.1f} | {ratios[1]:.1f}"
    )


def _levels(cases: Sequence[BoxCase], templates: Sequence[BoxCase], model: Model) -> str:
    """The range of heights alone: the median over the examples of the levels of a structure's lower and upper side."""
    every = [*cases, *templates]
    maps = {case.id: model.embed(case.volume) for case in every}
    heights = []
    for turn, target in enumerate(cases):
        for name, truth in target.structures.items():
            others = [case for case in every if case.patient != target.patient and name in case.structures]
            start = turn % max(len(others), 1)
            examples = [*others[start:], *others[:start]][:_SHOTS]  # those that find_boxes chooses
            if examples:
                levels = [heights_found(maps[e.id], e.structures[name].box_ras, maps[target.id]) for e in examples]
                heights.append(overlap(np.median(levels, axis=0), truth.box_ras[:, 2]))
    return f"{len(heights)} | - | {np.mean(heights):.3f} | - | - | - | -"


def overlap(one: np.ndarray, other: np.ndarray) -> float:
    """Length that two ranges [low, high] share, over that of both together."""
    shared = max(min(one[1], other[1]) - max(one[0], other[0]), 0.0)
    return float(shared / (max(one[1], other[1]) - min(one[0], other[0]))) if shared else 0.0


if __name__ == "__main__":
    main()
