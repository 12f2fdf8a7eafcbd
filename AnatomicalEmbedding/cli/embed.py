"""anatemb embed: write the embedding maps of scans."""

import argparse
import time
from dataclasses import replace
from pathlib import Path

from .box_options import SCANS_HELP
from .console import check_folder, complete, embed, find_scans, make_folder, noted, open_model, print_json, say


def add_to(commands: argparse._SubParsersAction) -> None:
    parser = commands.add_parser(
        "embed",
        help="write the embedding map of each scan",
        description="Embed scans; each map becomes one .map.safetensors file for EmbeddingMap.load and `anatemb info`.",
    )
    parser.add_argument("scans", nargs="+", type=Path, metavar="SCAN", help=SCANS_HELP)
    parser.add_argument("-o", "--output", type=Path, required=True, metavar="DIR", help="folder for the maps")
    complete(parser, run, series=True)


def run(options: argparse.Namespace) -> None:
    check_folder(options.output)
    scans = find_scans(options)
    model = open_model(options)
    written = []
    for name, source in scans.items():
        volume = noted(replace(source.read(), name=name), source.label)
        say(
            f"{source.label}: needs at most {model.predicted_bytes(volume) / 2**20:.0f} MB beyond the scan",
            options.json,
        )
        start = time.perf_counter()
        embedding = embed(model, volume, options)
        seconds = time.perf_counter() - start
        make_folder(options.output)
        target = options.output / f"{name}.map.safetensors"
        embedding.save(target)
        written.append({"scan": source.label, "map": str(target), "seconds": round(seconds, 3)})
        say(f"{target}: {int(embedding.body.sum())} body cells, {seconds:.1f} s", options.json)
    if options.json:
        print_json(written)
