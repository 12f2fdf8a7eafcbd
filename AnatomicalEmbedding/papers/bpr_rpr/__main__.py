"""python -m AnatomicalEmbedding.papers.bpr_rpr: trains relative position regression or body part regression."""

import sys
from collections.abc import Sequence
from pathlib import Path

from ..command import PaperRecipe, run_paper
from . import levels, offsets

RECIPES = {
    "rpr-paper": PaperRecipe(Path(__file__).with_name("rpr.toml"), "offsets", offsets.rules, offsets.OFFSETS),
    "bpr-paper": PaperRecipe(Path(__file__).with_name("bpr.toml"), "levels", levels.rules, levels.LEVELS, False),
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; returns the exit code."""
    return run_paper("bpr_rpr", "Train relative position regression or body part regression.", RECIPES, arguments)


if __name__ == "__main__":
    sys.exit(main())
