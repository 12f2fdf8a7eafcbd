"""python -m AnatomicalEmbedding.papers.sam: trains the recipe of Yan 2022, or measures errors of trained weights."""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from ...cli.arguments import complete
from ...cli.main import run_command
from ..command import PaperRecipe, run_paper
from .descriptors import DESCRIPTORS

RECIPES = {
    "sam-paper": PaperRecipe(
        Path(__file__).with_name("recipe.toml"),
        "descriptors",
        ("described", "paired"),
        DESCRIPTORS,
        False,
    ),
    "sam-paper-2d": PaperRecipe(
        Path(__file__).with_name("recipe_2d.toml"),
        "descriptors",
        ("described", "paired"),
        DESCRIPTORS,
        False,
    ),
}


def main(arguments: Sequence[str] | None = None) -> int:
    arguments = list(sys.argv[1:] if arguments is None else arguments)
    if arguments[:1] != ["landmarks"]:
        return run_paper(
            "sam",
            "Train the recipe of Yan 2022; to test: sam landmarks WEIGHTS DIR",
            RECIPES,
            arguments,
        )
    parser = argparse.ArgumentParser(prog="python -m AnatomicalEmbedding.papers.sam landmarks")
    parser.add_argument(
        "weights", metavar="WEIGHTS", help="file of weights that this recipe trained"
    )
    parser.add_argument("folder", type=Path, metavar="DIR", help="folder of labelled scans")
    complete(parser, _measure, json=False, model=False)
    return run_command(parser.parse_args(arguments[1:]))


def _measure(options: argparse.Namespace) -> None:
    import numpy as np

    from ...embedding.models.registry import find_weights
    from ...errors import WeightsError
    from ...structures.label_names import GROUPS, group_of
    from ...structures.labelled_scans import find_pairs, load_cases
    from .matching import DescriptorMatcher

    weights = find_weights(options.weights)
    if not weights.network.spec.global_channels:
        raise WeightsError(
            f"{options.weights}: gives no global descriptors; use weights of the recipe sam-paper."
        )
    matcher = DescriptorMatcher(weights.network)
    errors: dict[str, list[float]] = {group: [] for group in GROUPS}
    for pair in find_pairs(load_cases(options.folder)):
        answers = matcher(pair.template, pair.template_ras, pair.target)
        for kind, error in zip(
            pair.kinds, np.linalg.norm(answers - pair.target_ras, axis=1), strict=True
        ):
            errors[group_of(kind)].append(error)
    for group, group_errors in errors.items():
        if group_errors:
            print(
                f"{GROUPS[group]}: mean {np.mean(group_errors):.1f}, median {np.median(group_errors):.1f} mm"
            )


if __name__ == "__main__":
    sys.exit(main())
