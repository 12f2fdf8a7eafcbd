"""python -m AnatomicalEmbedding.papers.sam: trains the recipe of Yan 2022."""

import sys
from collections.abc import Sequence
from pathlib import Path

from ..command import PaperRecipe, run_paper
from .descriptors import DESCRIPTORS, rules

RECIPES = {
    "sam-paper": PaperRecipe(Path(__file__).with_name("recipe.toml"), "descriptors", rules, DESCRIPTORS),
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; returns the exit code."""
    return run_paper("sam", "Train the recipe of Yan 2022.", RECIPES, arguments)


if __name__ == "__main__":
    sys.exit(main())
