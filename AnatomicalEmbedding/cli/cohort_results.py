"""The subcommands of `anatemb cohort` that write results: find and export."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ..errors import AnatomicalEmbeddingError
from ..scan.points import parse_point
from . import console
from .locate import open_finder

if TYPE_CHECKING:
    from ..cohort.search import Found, Search
    from ..cohort.store import Store
    from ..embedding.inference import Model
    from ..embedding.map import EmbeddingMap

COLUMNS = ("scan", "status", "probability", "expected_error_mm", "r", "a", "s")
_SHOWN = 10


def add_to(steps: argparse._SubParsersAction) -> None:
    find = add_step(
        steps, "find", run_find,
        "Finds one place in all scans: by words, or by a point or box in a scan. Writes places.csv, the most probable "
        "scan first; points are RAS mm of each scan's own frame.", "output",
    )  # fmt: skip
    export = add_step(
        steps, "export", run_export,
        "Writes tables of a cohort: scans.csv; with --structures boxes.csv; with a place places.csv and gallery.html.",
        "output",
    )  # fmt: skip
    for add in (find, export):
        add("words", nargs="?", metavar="WORDS", help='one place, such as "left adrenal"')
        add("--like", metavar="SCAN", help="scan of the cohort, or any other CT, that holds the example")
        add("--point", metavar="R,A,S", help="the example in that scan, RAS mm")
        add("--box", metavar="R,A,S,R,A,S", help="or two corners of a box in it, RAS mm")
        add("--refine", type=console.at_least(0), default=50, metavar="N", help="answers to refine (default: 50)")
    export("--structures", metavar="A,B,...", help="boxes of structures (see `anatemb structures`), or of all: all")


def add_step(
    steps: argparse._SubParsersAction, name: str, run: Callable[[argparse.Namespace], None], about: str, *shared: str
) -> Callable[..., argparse.Action]:
    """Add a subcommand of `anatemb cohort` that uses a store. Returns `add_argument` of the subcommand's parser."""
    parser = steps.add_parser(name, help=about[0].lower() + about[1:].partition(".")[0], description=about)
    parser.add_argument("store", type=Path, metavar="STORE", help="folder of the cohort")
    console.complete(parser, run, *shared, model=False)
    return parser.add_argument


def run_find(options: argparse.Namespace) -> None:
    from ..cohort.search import Search
    from ..cohort.store import Store

    console.check_folder(options.output)
    with Store(options.store) as store:
        found = find(Search(store), options)
        console.make_folder(options.output)
        written = [options.output / "places.csv"]
        console.write_table(written[0], COLUMNS, [_row(each, "") for each in found])
    if options.json:
        console.print_json({"places": [dict(zip(COLUMNS, _row(each, None), strict=True)) for each in found]})
        return
    shown = [each for each in found if each.point_ras is not None]
    for each in shown[:_SHOWN]:
        r, a, s = each.point_ras
        console.say(f"{each.row.scan}: {each.text}, at {r:.1f}, {a:.1f}, {s:.1f}")
    more = f"; {len(shown) - _SHOWN} more in places.csv" if len(shown) > _SHOWN else ""
    console.say(f"in {len(shown)} of {len(found)} scans{more}")
    console.say_written(written)


def find(search: Search, options: argparse.Namespace) -> list[Found]:
    """Search all scans of a store for the place given in the options: words, or a point or box in an example scan."""
    from ..cohort.search import one_mention
    from ..structures.locating import make_example

    by_example = [name for name in ("point", "box") if getattr(options, name)]
    if bool(options.words) == bool(options.like) or (options.like and len(by_example) != 1):
        raise AnatomicalEmbeddingError(
            'give a place by words, such as "left adrenal", or by --like SCAN --point R,A,S.'
        )
    if options.words and by_example:
        raise AnatomicalEmbeddingError(f"--{by_example[0]}: is a place in a scan; name the scan by --like.")
    mention = one_mention(options.words) if options.words else None
    with console.progress_bar("searching", options.json) as progress:

        def step(share: float) -> None:
            progress(share, "")

        if mention is not None:
            return search.words(mention, options.refine, step)
        template = _template(search, options)
        if options.box:
            corners = parse_point(options.box, 6).reshape(2, 3)
            return search.box(make_example(template, np.sort(corners, axis=0)), options.refine, step)
        from ..matching.query import read_query

        point = parse_point(options.point)
        return search.point(read_query(template, point[None]), options.refine, step)


def _template(search: Search, options: argparse.Namespace) -> EmbeddingMap:
    """Return the map of the example scan (--like). A scan that is not in the cohort is embedded now."""
    try:
        rows = search.store.manifest.find(options.like)
    except AnatomicalEmbeddingError:
        rows = []
    if len(rows) > 1:
        names = ", ".join(row.scan for row in rows[:4])
        raise AnatomicalEmbeddingError(f"{options.like}: holds {len(rows)} scans ({names}); name one.")
    if rows and rows[0].scan_hash in search.index.scans:
        embedded = search.index.scans[rows[0].scan_hash][0]  # duplicate scans share one map
        return search.map_of(embedded)
    if not Path(options.like).exists():
        raise AnatomicalEmbeddingError(f"{options.like}: is neither a scan of this cohort nor a file; check the path.")
    return _open_model(search.store).embed(options.like)


def _row(found: Found, empty: Any) -> list[Any]:
    point = [empty] * 3 if found.point_ras is None else [round(float(x), 2) for x in found.point_ras]
    chance = empty if found.probability is None else round(found.probability, 3)
    error = empty if found.expected_error_mm is None else round(found.expected_error_mm, 1)
    return [found.row.scan, found.status, chance, error, *point]


def run_export(options: argparse.Namespace) -> None:
    from ..cohort.gallery import write_gallery
    from ..cohort.search import Search
    from ..cohort.store import Store

    console.check_folder(options.output)
    with Store(options.store) as store:
        search = Search(store)
        found = find(search, options) if options.words or options.like else None
        console.make_folder(options.output)
        written = [_write_scans(store, options.output)]
        if options.structures:
            written.append(_write_boxes(store, search, options))
        if found is not None:
            written.append(options.output / "places.csv")
            console.write_table(written[-1], COLUMNS, [_row(each, "") for each in found])
            facts = {row.id: facts for row, facts in search.index.scans.values()}
            with console.progress_bar("pictures", options.json) as progress:
                title = options.words or f"like {options.like}"
                gallery = options.output / "gallery.html"
                written.append(write_gallery(gallery, title, found, facts, lambda share: progress(share, "")))
    if options.json:
        console.print_json({"files": list(map(str, written))})
    console.say_written(written, options.json)


_SCAN_COLUMNS = (
    "scan", "state", "reason", "holds", "low_mm", "high_mm", "voxels_i", "voxels_j", "voxels_k", "spacing_i",
    "spacing_j", "spacing_k", "misfit_mm", "odd",
)  # fmt: skip


def _write_scans(store: Store, folder: Path) -> Path:
    facts = {row.id: facts for row, facts in store.manifest.embedded()}
    rows = []
    for row in store.manifest.rows():
        cells = [""] * 11
        if known := facts.get(row.id):
            sizes = [*known["voxels"], *known["spacing_mm"]]
            heights = [known["held"], known["low_mm"], known["high_mm"]]
            cells = [*heights, *sizes, known["misfit_mm"], "; ".join(known["faults"])]
        rows.append([row.scan, row.state, row.reason, *cells])
    console.write_table(folder / "scans.csv", _SCAN_COLUMNS, rows)
    return folder / "scans.csv"


def _write_boxes(store: Store, search: Search, options: argparse.Namespace) -> Path:
    from ..scan.boxes import SIDES
    from ..structures.box_finder import RECALL

    names = None if options.structures == "all" else options.structures
    finder = open_finder(_open_model(store), RECALL, names)
    rows = []
    with console.progress_bar("boxes", options.json) as progress:
        for number, (row, _) in enumerate(search.index.scans.values()):
            for name, each in finder.find(search.map_of(row)).items():
                if each.box_ras is not None:
                    rows.append([row.scan, name, each.status, *each.box_ras.ravel().round(2).tolist()])
            progress((number + 1) / len(search.index.scans), "")
    console.write_table(options.output / "boxes.csv", ["scan", "structure", "status", *SIDES], rows)
    return options.output / "boxes.csv"


def _open_model(store: Store) -> Model:
    """Load the weights with which the store was made."""
    model = store.manifest.about.get("model", "auto")
    return console.open_model(
        argparse.Namespace(model=model, device="auto", threads=None, memory_mb=None, no_cache=False)
    )
