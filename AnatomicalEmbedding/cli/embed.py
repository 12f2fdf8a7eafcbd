"""anatemb embed: write the embedding maps of scans."""

import argparse
import time
from pathlib import Path

from .console import check_folder, complete, embed, make_folder, open_model, print_json, read_scan, say, unique_names


def add_to(commands: argparse._SubParsersAction) -> None:
    parser = commands.add_parser(
        "embed",
        help="write the embedding map of each scan",
        description="Embed scans; each map becomes one .map.safetensors file for EmbeddingMap.load and `anatemb info`.",
    )
    parser.add_argument("scans", nargs="+", type=Path, metavar="SCAN", help="CT file or DICOM folder")
    parser.add_argument("-o", "--output", type=Path, required=True, metavar="DIR", help="folder for the maps")
    complete(parser, run, series=True)


def run(options: argparse.Namespace) -> None:
    check_folder(options.output)
    model = open_model(options)
    written = []
    for path, name in zip(options.scans, unique_names(options.scans), strict=True):
        volume = read_scan(path, options.series)
        say(f"{path}: needs at most {model.predicted_bytes(volume) / 2**20:.0f} MB beyond the scan", options.json)
        start = time.perf_counter()
        embedding = embed(model, volume, options)
        seconds = time.perf_counter() - start
        make_folder(options.output)
        target = options.output / f"{name}.map.safetensors"
        embedding.save(target)
        written.append({"scan": str(path), "map": str(target), "seconds": round(seconds, 3)})
        say(f"{target}: {int(embedding.body.sum())} body cells, {seconds:.1f} s", options.json)
    if options.json:
        print_json(written)
