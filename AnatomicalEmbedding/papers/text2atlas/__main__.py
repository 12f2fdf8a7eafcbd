"""python -m AnatomicalEmbedding.papers.text2atlas: trains the network, and finds the places of texts with it."""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from ...cli import console
from ...cli.arguments import at_least, complete, not_negative
from ...cli.main import run_command
from ...errors import AnatomicalEmbeddingError


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m AnatomicalEmbedding.papers.text2atlas", description=__doc__
    )
    parts = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)

    train = parts.add_parser(
        "train",
        help="train on sentences that are made from the known places, and on your own reports",
        description="A small version of the recipe of Grujicic 2020. Repeat the command to continue a stopped run.",
    )
    add = train.add_argument
    add("-o", "--output", type=Path, required=True, metavar="RUN", help="folder of the run")
    add(
        "--reports",
        type=Path,
        nargs="+",
        default=[],
        metavar="FILE",
        help="text files; each line is a report or a part of a report",
    )
    add(
        "--mask",
        type=_share,
        default=0.0,
        metavar="SHARE",
        help="share of place names to mask (default 0, paper 0.5)",
    )
    add(
        "--steps",
        type=at_least(1),
        default=1000,
        metavar="N",
        help="optimiser steps (default: 1000)",
    )
    add(
        "--seed",
        type=at_least(0),
        default=0,
        help="seed of sentences and of first weights (default: 0)",
    )
    complete(train, run_train, model=False)

    place = parts.add_parser(
        "place", help="find the point of the body that a text describes, with a trained network"
    )
    add = place.add_argument
    add("texts", nargs="+", metavar="TEXT")
    add("--model", type=Path, required=True, metavar="RUN", help="folder that `train` wrote")
    complete(place, run_place, model=False)
    return run_command(parser.parse_args(arguments))


def run_train(options: argparse.Namespace) -> None:
    from ...training.loop import Progress
    from ...words.report_text import read_report
    from .organs import shipped_organs
    from .run import FILE, TextRecipe, train_text
    from .sentences import sentences_of

    console.check_folder(options.output)
    examples = []
    for path in options.reports:
        lines = read_report(path).splitlines()
        try:
            examples += sentences_of(lines, shipped_organs())
        except AnatomicalEmbeddingError as error:
            raise AnatomicalEmbeddingError(f"{path}: {error}") from None
    if options.reports:
        if not examples:
            raise AnatomicalEmbeddingError(
                f"{', '.join(map(str, options.reports))}: these reports name no known place; give other reports."
            )
        console.say(f"sentences of the reports that name places: {len(examples)}", options.json)
    console.make_folder(options.output)
    recipe = TextRecipe(options.mask, options.steps, options.seed)
    with console.progress_lines("training", options.json) as bar:

        def show(progress: Progress) -> None:
            minutes = (progress.steps - progress.step) * progress.seconds_per_step / 60
            bar(
                progress.step / progress.steps,
                f"step {progress.step}, loss {progress.loss:.3f}, {minutes:.0f} min to go",
            )

        train_text(recipe, options.output, examples, show, console.stop_on_signals())
    path = options.output / FILE
    if options.json:
        console.print_json({"model": str(path), "steps": recipe.steps, "sentences": len(examples)})
    else:
        console.say(f"wrote {path}; to find a place, run: place TEXT --model {options.output}")


def run_place(options: argparse.Namespace) -> None:
    from .organs import shipped_organs
    from .run import load_text

    points = load_text(options.model).place(options.texts)
    rows = [
        [text, *(round(float(x), 1) for x in point), shipped_organs().name_at(point)]
        for text, point in zip(options.texts, points, strict=True)
    ]
    columns = ("text", "r", "a", "s", "place")
    if options.json:
        console.print_json(console.as_records(columns, rows))
    else:
        console.print_table(columns, [[str(cell) for cell in row] for row in rows])


def _share(text: str) -> float:
    share = not_negative(text)
    if share > 1:
        raise argparse.ArgumentTypeError(
            f"{text!r} is not a number between 0 and 1; give a share, such as 0.5"
        )
    return share


if __name__ == "__main__":
    sys.exit(main())
