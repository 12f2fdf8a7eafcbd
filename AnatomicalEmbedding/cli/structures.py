"""anatemb structures: list the structures that can be located, or build your own library from labelled scans."""

import argparse

from ..errors import AnatomicalEmbeddingError
from .arguments import add_path, at_least, complete
from .console import open_model, print_json, print_table, progress_bar, say


def add_to(commands: argparse._SubParsersAction) -> None:
    parser = commands.add_parser(
        "structures",
        help="list the structures that can be located, or build your own library or atlas",
        description="Lists the structures that can be located, or builds a library or an atlas from labelled scans.",
    )
    steps = parser.add_subparsers(title="steps", metavar="STEP", required=True)
    listing = steps.add_parser(
        "list",
        help="list the structures of a library",
        description="Lists the structures of a library, and the number of examples of each structure.",
    )
    add_path(listing, "--library", "FILE", "library to list (default: the shipped library)")
    complete(listing, _list)
    build = steps.add_parser(
        "build",
        help="build a library or an atlas from labelled scans",
        description="DATA are folders of scans NAME.nii.gz, each with NAME.seg.nii.gz and NAME.labels.json. With -o "
        "NAME.structures.safetensors, the command builds a library for `locate` and `crop`, with every structure that "
        "lies completely inside at least three scans. With -o NAME.atlas.npz, it builds an atlas for `find`; for an "
        "atlas, label maps without scans are enough. A library or atlas can be used only with the weights that it was "
        "built with (--model).",
    )
    add_path(build, "data", "DATA", "folders of labelled scans", nargs="+")
    add_path(build, "-o --output", "FILE", "library or atlas to write", required=True)
    build.add_argument(
        "--phantoms",
        type=at_least(0),
        metavar="N",
        help="synthetic patients to add (default: 8, for an atlas 18)",
    )
    complete(build, _build)


def _build(options: argparse.Namespace) -> None:
    """Build a library or an atlas, by the name of the output file."""
    from ..structures.library import SUFFIX
    from ..words.atlas import SUFFIX as ATLAS_SUFFIX

    if not options.output.name.endswith((SUFFIX, ATLAS_SUFFIX)):
        raise AnatomicalEmbeddingError(
            f"{options.output}: is not a name for a library or atlas; give -o NAME{SUFFIX} or -o NAME{ATLAS_SUFFIX}."
        )
    options.output.parent.mkdir(parents=True, exist_ok=True)
    build = _build_library if options.output.name.endswith(SUFFIX) else _build_atlas
    count = build(options)
    if options.json:
        print_json({"file": str(options.output), "structures": count})
    else:
        say(f"wrote {options.output}: {count} structures")


def _list(options: argparse.Namespace) -> None:
    """Print the structures of a library, with the number of their examples."""
    from ..structures.box_finder import open_library
    from ..structures.examples import SYNTHETIC

    model = open_model(options)
    library = open_library(model.weights_hash, model.name, options.library, model.path)
    rows = []
    for name, examples in sorted(library.examples.items()):
        real = sum(not example.scan.startswith(SYNTHETIC) for example in examples)
        rows.append({"structure": name, "examples": len(examples), "real": real})
    if options.json:
        print_json(rows)
    else:
        header = ["structure", "examples", "of real patients"]
        print_table(header, [list(row.values()) for row in rows])


def _build_library(options: argparse.Namespace) -> int:
    """Build a library. Returns the number of its structures."""
    from ..structures.examples import labelled_boxes, phantom_boxes
    from ..structures.labelled_scans import load_cases
    from ..structures.library_building import PHANTOM_SEED, build_library
    from ..weights.budget import NUMBERS

    cases = [case for folder in options.data for case in load_cases(folder)]
    count = NUMBERS["library_phantoms"] if options.phantoms is None else options.phantoms
    seeds = range(PHANTOM_SEED, PHANTOM_SEED + count)
    model = open_model(options)
    facts = {
        "weights": model.name,
        "scans": [case.id for case in cases if case.structures],
        "phantoms": list(seeds),
    }
    with progress_bar("library", options.json) as progress:
        library = build_library(
            [*labelled_boxes(cases), *phantom_boxes(seeds)], model, facts, progress
        )
    library.save(options.output)
    return len(library.examples)


def _build_atlas(options: argparse.Namespace) -> int:
    """Build an atlas. Returns the number of its structures."""
    from ..weights.budget import NUMBERS
    from ..words.atlas_building import build_atlas

    count = NUMBERS["atlas_phantoms"] if options.phantoms is None else options.phantoms
    model = open_model(options)
    with progress_bar("atlas", options.json) as progress:
        atlas = build_atlas(options.data, model, count, progress)
    atlas.save(options.output)
    return len(atlas.occupancies)
