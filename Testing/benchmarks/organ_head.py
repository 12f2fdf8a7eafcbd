"""Weights with an organ head, trained on labelled scans; the rest of the network stays as it is.

    python Testing/benchmarks/organ_head.py LABELLED... -o NEW.safetensors [--model auto] [--steps 1000]

LABELLED: folders of labelled scans, images of label maps (label_images.py) among them. A folder whose name ends in
`:NAME,NAME` holds scans in which these structures are drawn in part (the oesophagus of a radiotherapy plan).
"""

from __future__ import annotations

import argparse
import re
import time
from collections.abc import Sequence
from pathlib import Path

from AnatomicalEmbedding.embedding.models.registry import find_weights, write_weights
from AnatomicalEmbedding.structures.labelled_scans import Case, load_cases
from AnatomicalEmbedding.training.label_frames import structure_name
from AnatomicalEmbedding.training.organ_codes import with_organ_codes
from AnatomicalEmbedding.training.organ_head import read_example, train_organ_head

LEFT_OUT = r"rib_|vertebrae_|subclavian|common_carotid|iliac_|costal|portal|cort"  # too thin for cells of 12 mm
FEWEST = 4


def organs_of(cases: Sequence[tuple[Case, Sequence[str]]]) -> list[str]:
    """Structures of the scans that a head can learn. cases: with what is drawn in part in each."""
    count: dict[str, int] = {}
    for case, partly in cases:
        for name in {structure_name(name) for name in case.label_map.values} - set(partly):
            count[name] = count.get(name, 0) + 1
    return sorted(name for name, n in count.items() if n >= FEWEST and not re.match(LEFT_OUT, name))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("labelled", nargs="+")
    parser.add_argument("-o", "--output", type=Path, required=True)
    parser.add_argument("--model", default="auto")
    parser.add_argument("--steps", type=int, default=1000)
    options = parser.parse_args()
    weights = find_weights(options.model)
    cases = []
    for argument in options.labelled:
        folder, _, partly = argument.partition(":")
        cases += [(case, tuple(filter(None, partly.split(",")))) for case in load_cases(folder) if case.labels]
    organs = organs_of(cases)
    print(f"{len(cases)} scans, {len(organs)} organs: {', '.join(organs)}", flush=True)
    read = [read_example(weights.network, case, organs, partly) for case, partly in cases]
    examples = [example for example in read if example is not None]
    start = time.monotonic()

    def report(step: int, loss: float) -> None:
        if step % 50 == 0:
            print(f"step {step}: loss {loss:.3f}, {(time.monotonic() - start) / 60:.1f} minutes", flush=True)

    trained = train_organ_head(weights.network, examples, organs, options.steps, report=report)
    network = with_organ_codes(trained, examples)
    about = {key: value for key, value in weights.card.items() if key not in ("name", "network")}
    write_weights(network, options.output, options.output.stem, about)


if __name__ == "__main__":
    main()
