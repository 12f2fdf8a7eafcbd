"""anatemb prepare: prepare a folder of scans once, for several training runs."""

import argparse

from .arguments import add_path, complete
from .console import check_folder, print_json, say
from .train import add_preparation, add_recipe, overrides, prepare_scans


def add_to(commands: argparse._SubParsersAction) -> None:
    parser = commands.add_parser(
        "prepare",
        help="prepare a folder of CTs once, for several training runs",
        description="Prepares the CTs of DATA. The output folder can then be the DATA of every `anatemb train` with "
        "the same voxel size. Duplicates and scans that cannot be used are reported and left out.",
    )
    add_path(parser, "data", "DATA", "folders with CTs, also in subfolders", nargs="+")
    add_path(parser, "-o --output", "DIR", "folder of the prepared set", required=True)
    add_preparation(parser)
    add_recipe(parser)
    complete(parser, run, model=False)


def run(options: argparse.Namespace) -> None:
    from ..training.recipes import load_recipe

    recipe = load_recipe(options.recipe, overrides(options.set))
    check_folder(options.output)
    paths = prepare_scans(options, options.data, recipe, options.output)
    if options.json:
        print_json({"prepared": list(map(str, paths))})
    say(
        f"prepared {len(paths)} scans in {options.output}; the file report.csv lists all scans.",
        options.json,
    )
