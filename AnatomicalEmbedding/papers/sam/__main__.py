"""python -m AnatomicalEmbedding.papers.sam: trains the recipe of Yan 2022."""

import sys
from functools import partial
from pathlib import Path

from ...training.recipes import descriptor_rules
from ..command import PaperRecipe, run_paper
from .descriptors import DESCRIPTORS

RECIPES = {
    "sam-paper": PaperRecipe(Path(__file__).with_name("recipe.toml"), "descriptors", descriptor_rules, DESCRIPTORS)
}

main = partial(run_paper, "sam", "Train the recipe of Yan 2022.", RECIPES)

if __name__ == "__main__":
    sys.exit(main())
