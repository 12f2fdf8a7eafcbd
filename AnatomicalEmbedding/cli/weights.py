"""anatemb weights: make weights and all files that belong to them from a folder of data, with one command."""

import argparse
import sys

from .arguments import add_jobs, add_path, add_training, complete, number
from .console import as_files, check_folder, print_json, say_written, stop_on_signals, use_threads


def add_to(commands: argparse._SubParsersAction) -> None:
    parser = commands.add_parser(
        "weights",
        help="make weights, calibration, structure library, atlas and model card from a folder of data",
        description="Makes all files that ship with weights, within a budget of hours. DATA contains index.csv, which "
        "lists the scans with licence, collection, source and patient, and can contain labelmaps/index.csv, "
        "train_levels.json, and labelled scans for measuring in dev/. To continue a stopped build, give the same "
        "command again.",
    )
    add = parser.add_argument
    add_path(parser, "data", "DATA", "folder with index.csv")
    folder = "folder of the build and of its results"
    add_path(parser, "-o --output", "DIR", folder, required=True)
    terms = "open: use only data whose licence permits any use (ct-open); all: use all data (ct-research)"
    add("--terms", choices=("open", "all"), required=True, help=terms)
    hours = number(float, lambda value: 0 < value < 10_000, "a number of hours above 0")
    add(
        "--hours",
        type=hours,
        default=1.0,
        metavar="H",
        help="time budget, wall-clock hours (default: 1)",
    )
    add(
        "--recipe",
        default="joint",
        metavar="NAME|FILE",
        help="recipe of the network (default: joint)",
    )
    add_training(parser)
    add_jobs(parser)
    complete(parser, run, model=False)


def run(options: argparse.Namespace) -> None:
    from ..embedding.device import choose_device
    from ..training.recipes import load_recipe
    from ..weights.building import WeightsBuild
    from ..weights.stages import run_build

    use_threads(options)
    check_folder(options.output)
    build = WeightsBuild(
        options.data,
        options.output,
        options.terms,
        load_recipe(options.recipe),
        options.hours,
        options.seed,
        str(choose_device(options.device)),
        options.workers,
        options.jobs,
        lambda line: print(line, file=sys.stderr, flush=True),
        stop_on_signals(),
    )
    files = run_build(build)
    say_written(files, options.json)
    if options.json:
        print_json(as_files(files))
