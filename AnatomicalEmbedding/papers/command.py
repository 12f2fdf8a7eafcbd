"""The command that trains the recipes of a paper: `python -m AnatomicalEmbedding.papers.NAME DATA... -o RUN`."""

import argparse
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from ..cli.arguments import complete
from ..cli.main import run_command
from ..cli.train import add_options, overrides, train_recipe
from ..training.objectives import Objective
from ..training.recipes import Recipe, Rules, load_recipe


@dataclass(frozen=True)
class PaperRecipe:
    """A recipe of a paper.

    path: file of the recipe. name: name of its objective in this file. rules: conditions that the recipe must meet.
    objective: makes the batches and the loss. is_validated: whether training validates the weights; this is possible
    only if the weights can match points.
    """

    path: Path
    name: str
    rules: Rules
    objective: Objective
    is_validated: bool = True

    def load(self, changes: dict[str, object] | None = None) -> Recipe:
        """Read the recipe. changes: "section.key" -> new value. Raises the errors of `load_recipe`."""
        return load_recipe(self.path, changes, {self.name: self.rules})


def run_paper(
    name: str,
    description: str,
    recipes: Mapping[str, PaperRecipe],
    arguments: Sequence[str] | None = None,
) -> int:
    """Parse a paper's command line, and train one of its recipes. Returns the exit code.

    Args:
        name: the paper's folder.
        description: what the command does, for the help.
        recipes: name -> recipe.
        arguments: the words of the command line; None for those of this process.
    """
    parser = argparse.ArgumentParser(
        prog=f"python -m AnatomicalEmbedding.papers.{name}", description=description
    )
    add_options(parser)
    parser.add_argument(
        "--recipe", choices=list(recipes), default=next(iter(recipes)), help="default: %(default)s"
    )

    def run(options: argparse.Namespace) -> None:
        chosen = recipes[options.recipe]
        if not chosen.is_validated:
            options.validate_every = 0
        train_recipe(options, chosen.load(overrides(options.set)), chosen.objective)

    complete(parser, run, model=False)
    return run_command(parser.parse_args(arguments))
