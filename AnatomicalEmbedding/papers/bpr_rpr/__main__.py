"""python -m AnatomicalEmbedding.papers.bpr_rpr: trains relative position regression or body part regression."""

import sys
from functools import partial
from pathlib import Path

from ..command import PaperRecipe, run_paper
from . import levels, offsets

RECIPES = {
    "rpr-paper": PaperRecipe(
        Path(__file__).with_name("rpr.toml"),
        "offsets",
        ("coordinates", "metric", "scan", "paired", "upright"),
        offsets.OFFSETS,
    ),
    "bpr-paper": PaperRecipe(
        Path(__file__).with_name("bpr.toml"),
        "levels",
        ("coordinates", "metric", "scan", "upright"),
        levels.LEVELS,
        False,
    ),
}

main = partial(
    run_paper, "bpr_rpr", "Train relative position regression or body part regression.", RECIPES
)

if __name__ == "__main__":
    sys.exit(main())
