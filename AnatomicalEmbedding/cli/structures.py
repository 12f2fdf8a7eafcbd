"""anatemb structures: what a structure library holds, and building one from labelled scans."""

import argparse
from pathlib import Path

from ..errors import AnatomicalEmbeddingError
from ..scan.boxes import SIDES
from .box_options import open_library
from .console import at_least, complete, open_model, print_json, print_table, progress_bar, say

_PHANTOM_SEED = 72_000


def add_to(commands: argparse._SubParsersAction) -> None:
    parser = commands.add_parser("structures", help="structures that can be located without an example; build your own")
    kinds = parser.add_subparsers(title="what to do", metavar="WHAT", required=True)

    listed = kinds.add_parser("list", help="names of a library, and how many examples of each it holds")
    listed.add_argument("--library", type=Path, metavar="FILE", help="default: the shipped one")
    complete(listed, run_list)
    show = kinds.add_parser("show", help="one structure: its examples, their sizes, and the margins it needs")
    show.add_argument("structure", metavar="NAME")
    show.add_argument("--library", type=Path, metavar="FILE", help="default: the shipped one")
    complete(show, run_show, json=False)
    merge = kinds.add_parser("merge", help="one library of two for the same weights; margins are those of the first")
    merge.add_argument("libraries", type=Path, nargs=2, metavar="FILE")
    merge.add_argument("-o", "--output", type=Path, required=True, metavar="FILE")
    complete(merge, run_merge, json=False, model=False)
    build = kinds.add_parser(
        "build",
        help="make a library from labelled scans and synthetic patients",
        description="Takes every structure that three scans hold whole. DATA: folders of scans NAME.nii.gz with "
        "NAME.seg.nii.gz + NAME.labels.json. Works for the weights of --model alone.",
    )
    build.add_argument("data", type=Path, nargs="*", metavar="DATA")
    build.add_argument("--phantoms", type=at_least(0), default=8, metavar="N", help="synthetic patients (default: 8)")
    build.add_argument("-o", "--output", type=Path, required=True, metavar="FILE")
    complete(build, run_build, json=False)
    atlas = kinds.add_parser(
        "atlas",
        help="count how often each structure lies at each place of the body, for `anatemb find`",
        description="DATA: folders of label maps NAME.seg.nii.gz + NAME.labels.json, with or without their scans "
        "NAME.nii.gz. Works for the weights of --model alone.",
    )
    atlas.add_argument("data", type=Path, nargs="+", metavar="DATA")
    atlas.add_argument("--phantoms", type=at_least(0), default=18, metavar="N", help="synthetic patients (default: 18)")
    atlas.add_argument("-o", "--output", type=Path, required=True, metavar="FILE")
    complete(atlas, run_atlas, json=False)


def run_show(options: argparse.Namespace) -> None:
    library = open_library(open_model(options), options.library)
    ((name, examples),) = library.select([options.structure]).items()
    sizes = [example.box_ras[1] - example.box_ras[0] for example in examples]
    shown = [[e.scan, " x ".join(f"{mm:.0f}" for mm in size)] for e, size in zip(examples, sizes, strict=True)]
    print_table(["example", "R x A x S mm"], shown)
    if library.margins is not None:
        scales = library.margins.scales.get(name, library.margins.scales[""])
        say("")
        say("true errors of its sides over the expected ones (learned from real scans where there are some):")
        print_table([*SIDES], [[f"{scale:.1f}" for scale in scales]])


def run_merge(options: argparse.Namespace) -> None:
    from ..structures.library import SUFFIX, StructureLibrary

    if not options.output.name.endswith(SUFFIX):
        raise AnatomicalEmbeddingError(f"{options.output}: must be named NAME{SUFFIX}.")
    one, other = (StructureLibrary.load(path) for path in options.libraries)
    both = one.merged(other)
    both.save(options.output)
    say(f"wrote {options.output}: {len(both.examples)} structures")


def run_list(options: argparse.Namespace) -> None:
    from ..structures.examples import SYNTHETIC

    library = open_library(open_model(options), options.library)
    rows = [
        [name, str(len(examples)), str(sum(not e.scan.startswith(SYNTHETIC) for e in examples))]
        for name, examples in sorted(library.examples.items())
    ]
    if options.json:
        keys = ("structure", "examples", "real")
        print_json([dict(zip(keys, (name, int(n), int(real)), strict=True)) for name, n, real in rows])
        return
    print_table(["structure", "examples", "of real patients"], rows)


def run_build(options: argparse.Namespace) -> None:
    from ..structures.cross_validation import build_library
    from ..structures.examples import labelled_boxes, phantom_boxes
    from ..structures.labelled_scans import load_cases
    from ..structures.library import SUFFIX

    if not options.output.name.endswith(SUFFIX):
        raise AnatomicalEmbeddingError(f"{options.output}: must be named NAME{SUFFIX}.")
    cases = [case for folder in options.data for case in load_cases(folder)]
    seeds = range(_PHANTOM_SEED, _PHANTOM_SEED + options.phantoms)
    model = open_model(options)
    about = {"weights": model.name, "scans": [case.id for case in cases if case.structures], "phantoms": list(seeds)}
    with progress_bar("library") as progress:
        library = build_library([*labelled_boxes(cases), *phantom_boxes(seeds)], model, about, progress)
    options.output.parent.mkdir(parents=True, exist_ok=True)
    library.save(options.output)
    say(f"wrote {options.output}: {len(library.examples)} structures")


def run_atlas(options: argparse.Namespace) -> None:
    from ..words.atlas import SUFFIX
    from ..words.atlas_building import build_atlas

    if not options.output.name.endswith(SUFFIX):
        raise AnatomicalEmbeddingError(f"{options.output}: must be named NAME{SUFFIX}.")
    model = open_model(options)
    with progress_bar("atlas") as progress:
        atlas = build_atlas(options.data, model, options.phantoms, progress)
    atlas.save(options.output)
    say(f"wrote {options.output}: {len(atlas.occupancies)} structures")
