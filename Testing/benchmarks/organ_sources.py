"""Landmarks with whole sources left out of the organ head: every labelled scan is once a target of a head without it.

    python Testing/benchmarks/organ_sources.py LABELLED... --groups kbp segthor ts,totalsegmentator ...
        [--images IMAGES] [--model auto] [--steps 800]

A source is what a file's name begins with, up to a digit, "-" or "_"; those joined by commas are left out together.
Templates are all other labelled scans; images of label maps (label_images.py) are trained on and nothing else.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import torch
from confidence_by_source import DRAWN_IN_PART, labelled_cases
from organ_head import organs_of
from orientation import source_of
from regions import REGIONS, mean_and_median, region_of

from AnatomicalEmbedding.embedding.inference import Model
from AnatomicalEmbedding.embedding.models.network import EmbeddingNetwork
from AnatomicalEmbedding.embedding.models.registry import find_weights
from AnatomicalEmbedding.evaluation.protocol import EmbeddingMatcher, evaluate_landmarks
from AnatomicalEmbedding.evaluation.results import Measured
from AnatomicalEmbedding.structures.labelled_scans import load_cases
from AnatomicalEmbedding.training.organ_codes import with_organ_codes
from AnatomicalEmbedding.training.organ_head import read_example, train_organ_head


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("labelled", nargs="+", type=Path)
    parser.add_argument("--groups", nargs="+", required=True)
    parser.add_argument("--images", type=Path)
    parser.add_argument("--model", default="auto")
    parser.add_argument("--steps", type=int, default=800)
    options = parser.parse_args()
    network = without_head(find_weights(options.model).network)
    cases = labelled_cases(options.labelled)
    trained_on = [case for case in cases if case.labels] + (load_cases(options.images) if options.images else [])
    about = [(case, [n for s, n in DRAWN_IN_PART.items() if s == source_of(case.id)]) for case in trained_on]
    organs = organs_of(about)
    examples = {case.id: read_example(network, case, organs, partly) for case, partly in about}
    print(f"{len(cases)} labelled scans, {len(examples)} to learn from, {len(organs)} organs", flush=True)
    before = EmbeddingMatcher(_model(network))
    measured: list[Measured] = []
    for group in options.groups:
        sources, start = set(group.split(",")), time.process_time()
        known = [each for name, each in examples.items() if each is not None and source_of(name) not in sources]
        head = with_organ_codes(train_organ_head(network, known, organs, options.steps), known)
        print(f"{group}: {len(known)} scans learnt from, {time.process_time() - start:.0f} s", flush=True)
        targets = [case for case in cases if source_of(case.id) in sources]
        others = [case for case in cases if source_of(case.id) not in sources]
        matchers = {"no organ head": before, "left out": EmbeddingMatcher(_model(head))}
        found = evaluate_landmarks(targets, matchers, templates=others).measured
        measured += found
        _print(group, found)
    _print("all", measured)


def without_head(network: EmbeddingNetwork) -> EmbeddingNetwork:
    """The same network with neither organs nor their codes in its descriptors."""
    bare = EmbeddingNetwork(replace(network.spec, organs=(), organ_channels=0))
    bare.load_state_dict(network.state_dict(), strict=False)
    return bare.eval()


def _model(network: EmbeddingNetwork) -> Model:
    return Model(network, "left out", "0" * 64, torch.device("cpu"))


def _print(group: str, measured: Sequence[Measured]) -> None:
    rows = [
        (each.matcher, region_of(structure), kind, error)
        for each in measured
        for structure, kind, error in zip(each.names, each.groups, each.errors_mm, strict=True)
    ]
    for region in (*REGIONS, "all"):
        for kind in ("centre", "extreme", "landmark"):
            cells = [
                mean_and_median(e for m, r, k, e in rows if (m, k) == (matcher, kind) and region in (r, "all"))
                for matcher in ("no organ head", "left out")
            ]
            if cells != ["-", "-"]:
                print(f"| {group:24} | {region:10} | {kind:8} | {cells[0]} | {cells[1]} |", flush=True)


if __name__ == "__main__":
    main()
