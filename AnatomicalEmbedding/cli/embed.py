"""anatemb embed: write the embedding maps of scans."""

import argparse
import time
from pathlib import Path

from ..errors import AnatomicalEmbeddingError
from .box_options import SCANS_HELP, finish, note_failure, read_all
from .console import check_folder, complete, embed, find_scans, make_folder, open_model, print_json, say


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
    failed, written = [], []
    for path, name, volume, of in read_all(scans, failed):
        most = model.predicted_bytes(volume) / 2**20
        say(f"{path}: needs at most {most:.0f} MB beyond the scan", options.json)
        start = time.perf_counter()
        try:
            embedding = embed(model, volume, options)
        except AnatomicalEmbeddingError as error:
            note_failure(error, failed, of)
            continue
        seconds = time.perf_counter() - start
        make_folder(options.output)
        target = options.output / f"{name}.map.safetensors"
        embedding.save(target)
        written.append({"scan": path, "map": str(target), "seconds": round(seconds, 3)})
        say(f"{target}: {int(embedding.body.sum())} body cells, {seconds:.1f} s", options.json)
    if options.json:
        print_json(written)
    finish(failed, written)
