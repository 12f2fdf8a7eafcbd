"""python -m AnatomicalEmbedding.papers.ape: trains the recipe of Goncharov 2024."""

import sys
from collections.abc import Sequence
from pathlib import Path

from ..command import PaperRecipe, run_paper
from .distances import DISTANCES
from .pairs import upright

RECIPES = {
    "ape-paper": PaperRecipe(Path(__file__).with_name("recipe.toml"), "distances", upright, DISTANCES),
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; returns the exit code."""
    return run_paper("ape", "Train the recipe of Goncharov 2024.", RECIPES, arguments)


if __name__ == "__main__":
    sys.exit(main())
