"""python -m AnatomicalEmbedding.papers.ape: trains the recipe of Goncharov 2024."""

import sys
from functools import partial
from pathlib import Path

from ..command import PaperRecipe, run_paper
from .distances import DISTANCES

RECIPES = {
    "ape-paper": PaperRecipe(
        Path(__file__).with_name("recipe.toml"), "distances", ("paired", "upright"), DISTANCES
    )
}

main = partial(run_paper, "ape", "Train the recipe of Goncharov 2024.", RECIPES)

if __name__ == "__main__":
    sys.exit(main())
