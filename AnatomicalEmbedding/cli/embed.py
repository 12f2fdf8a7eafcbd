"""anatemb embed: write the embedding maps of scans."""

import argparse

from . import arguments, console
from .scans import Scans


def add_to(commands: argparse._SubParsersAction) -> None:
    parser = commands.add_parser(
        "embed",
        help="write the embedding map of each scan",
        description="Embeds scans. Each map is written to one .map.safetensors file, which EmbeddingMap.load and "
        "`anatemb info` can read.",
    )
    arguments.complete(parser, run, "scans", "output", "series")


def run(options: argparse.Namespace) -> None:
    console.check_folder(options.output)
    scans = Scans(options)
    written = []
    model = console.open_model(options)
    for path, name, _, embedding in scans.embedded(model):
        console.make_folder(options.output)
        target = options.output / f"{name}.map.safetensors"
        embedding.save(target)
        written.append({"scan": path, "map": str(target)})
        console.say(f"{target}: {int(embedding.body.sum())} body cells", options.json)
    if options.json:
        console.print_json(written)
    scans.check()
