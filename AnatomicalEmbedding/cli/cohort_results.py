"""The steps of anatemb cohort that write results: find, crop and export."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from ..errors import AnatomicalEmbeddingError, PointsError, require
from ..files import atomic_path
from .console import (
    at_least,
    check_folder,
    complete,
    make_folder,
    not_negative,
    open_model,
    print_json,
    progress_bar,
    say,
    write_table,
)

if TYPE_CHECKING:
    import numpy as np

    from ..cohort.search import Found, Search
    from ..cohort.store import Store
    from ..embedding.map import EmbeddingMap
    from .box_options import BoxFinder

COLUMNS = ("scan", "status", "probability", "expected_error_mm", "r", "a", "s")
_SHOWN = 10


def add_to(steps: argparse._SubParsersAction) -> None:
    find = _step(
        steps,
        "find",
        run_find,
        "Finds one place in all scans: by words, or by a point or box in a scan. Writes places.csv, the most probable "
        "scan first; points are RAS mm of each scan's own frame.",
    )
    _add_place(find)
    crop = _step(
        steps,
        "crop",
        run_crop,
        "Cuts all scans down to the boxes of structures. Writes a NIfTI file for each that shows them, and crops.csv.",
    )
    crop.add_argument("structures", metavar="A,B,...", help="names of structures (see `anatemb structures`)")
    add = crop.add_argument
    add("--recall", type=float, default=0.95, metavar="R", help="share of the structure to hold (default: 0.95)")
    add("--margin-mm", type=not_negative, default=0.0, metavar="MM", help="further mm on every side")
    add("--spacing", metavar="X,Y,Z", help="resample to voxels of this size in mm; air (-1000 HU) beyond the scan")
    export = _step(
        steps,
        "export",
        run_export,
        "Writes tables of a cohort: scans.csv; with --structures boxes.csv; with a place places.csv and gallery.html.",
    )
    _add_place(export)
    export.add_argument("--structures", metavar="A,B,...", help="boxes of these (see `anatemb structures`); or: all")
    export.add_argument("--parquet", action="store_true", help="write each table as Parquet too (needs pyarrow)")
    export.set_defaults(recall=0.95)


def _step(
    steps: argparse._SubParsersAction, name: str, run: Callable[[argparse.Namespace], None], about: str
) -> argparse.ArgumentParser:
    parser = steps.add_parser(name, help=about[0].lower() + about[1:].partition(".")[0], description=about)
    parser.add_argument("store", type=Path, metavar="STORE", help="folder of the cohort")
    parser.add_argument("-o", "--output", type=Path, required=True, metavar="DIR", help="folder for the results")
    complete(parser, run, model=False)
    return parser


def _add_place(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("words", nargs="?", metavar="WORDS", help='one place, such as "left adrenal"')
    add("--like", metavar="SCAN", help="scan of the cohort, or any other CT, that holds the example")
    add("--point", metavar="R,A,S", help="the example in that scan, RAS mm")
    add("--box", metavar="R,A,S,R,A,S", help="or two corners of a box in it, RAS mm")
    add("--refine", type=at_least(0), default=None, metavar="N", help="answers to refine (default: 50)")


def run_find(options: argparse.Namespace) -> None:
    from ..cohort.store import Store

    check_folder(options.output)
    with Store(options.store) as store:
        found = find(store, options)
        make_folder(options.output)
        written = [_write_places(options.output / "places.csv", found)]
    if options.json:
        print_json({"places": [dict(zip(COLUMNS, _row(each, None), strict=True)) for each in found]})
        return
    there = [each for each in found if each.point_ras is not None]
    for each in there[:_SHOWN]:
        r, a, s = each.point_ras
        say(f"{each.row.scan}: {each.text}, at {r:.1f}, {a:.1f}, {s:.1f}")
    more = f"; {len(there) - _SHOWN} more in places.csv" if len(there) > _SHOWN else ""
    say(f"in {len(there)} of {len(found)} scans{more}")
    for path in written:
        say(f"wrote {path}")


def find(store: Store, options: argparse.Namespace, search: Search | None = None) -> list[Found]:
    """The place that the options name, in all scans of a store. search: of that store, where it is open already."""
    from ..cohort.search import REFINED, Search, one_mention
    from ..structures.locating import make_example

    refined = REFINED if options.refine is None else options.refine
    by_example = [name for name in ("point", "box") if getattr(options, name)]
    if bool(options.words) == bool(options.like) or (options.like and len(by_example) != 1):
        raise AnatomicalEmbeddingError(
            'give a place by words, such as "left adrenal", or by --like SCAN --point R,A,S.'
        )
    if options.words and by_example:
        raise AnatomicalEmbeddingError(f"--{by_example[0]}: is a place in a scan; name the scan by --like.")
    mention = one_mention(options.words) if options.words else None
    with progress_bar("searching", options.json) as progress:

        def step(share: float) -> None:
            progress(share, "")

        search = search or Search(store)
        if mention is not None:
            return search.words(mention, refined, step)
        template = _template(search, options)
        if options.box:
            corners = _numbers(options.box, 6, "--box").reshape(2, 3)
            import numpy as np

            return search.box(make_example(template, np.sort(corners, axis=0)), refined, step)
        return search.point(_query(template, _numbers(options.point, 3, "--point")), refined, step)


def _query(template: EmbeddingMap, point: np.ndarray) -> Any:
    from ..matching.query import Query, StoredQuery

    return StoredQuery.of(Query(template, point[None]))


def _template(search: Search, options: argparse.Namespace) -> EmbeddingMap:
    """The map of the example's scan: of the cohort, or embedded now."""
    from ..scan.volume import Volume

    try:
        rows = search.store.manifest.find(options.like)
    except AnatomicalEmbeddingError:
        rows = []
    if len(rows) > 1:
        names = ", ".join(row.scan for row in rows[:4])
        raise AnatomicalEmbeddingError(f"{options.like}: holds {len(rows)} scans ({names}); name one.")
    if rows and rows[0].scan_hash in search.index.scans:
        embedded = search.index.scans[rows[0].scan_hash][0]  # a duplicate has the map of the first
        return search.map_of(embedded)
    if not Path(options.like).exists():
        raise AnatomicalEmbeddingError(f"{options.like}: is neither a scan of this cohort nor a file; check the path.")
    volume = Volume.read(options.like)
    return open_model(_model_options(search.store)).embed(volume)


def _numbers(text: str, count: int, option: str) -> np.ndarray:
    import numpy as np

    try:
        values = np.array([float(part) for part in text.split(",")])
    except ValueError:
        values = np.empty(0)
    if len(values) != count or not np.isfinite(values).all():
        raise PointsError(f"{option} {text}: give {count} numbers in RAS mm, with commas and without spaces.")
    return values


def _write_places(path: Path, found: list[Found]) -> Path:
    write_table(path, COLUMNS, [_row(each, "") for each in found])
    return path


def _row(found: Found, empty: Any) -> list[Any]:
    point = [empty] * 3 if found.point_ras is None else [round(float(x), 2) for x in found.point_ras]
    chance = empty if found.probability is None else round(found.probability, 3)
    error = empty if found.expected_error_mm is None else round(found.expected_error_mm, 1)
    return [found.row.scan, found.status, chance, error, *point]


def run_crop(options: argparse.Namespace) -> None:
    import numpy as np

    from ..cohort.search import Search
    from ..cohort.store import Store
    from ..cohort.work import read_source
    from ..scan.boxes import enclosing, grown
    from .crop import COLUMNS as CROP_COLUMNS
    from .crop import output_path, read_spacing, write_crop

    spacing = read_spacing(options.spacing)
    check_folder(options.output)
    rows, failed, taken = [], [], set[str]()
    with Store(options.store) as store:
        search, finder = Search(store), _finder(store, options, options.structures)
        total = len(search.index.scans)
        make_folder(options.output)
        with progress_bar("cropping", options.json) as progress:
            for number, (row, found) in enumerate(search.locate(finder.examples, finder.effort)):
                progress(number / total, "")
                here = {n: finder.box(one) for n, one in found.items() if one.status != "absent"}
                if not here:
                    continue
                box = grown(enclosing(list(here.values())), np.full(6, options.margin_mm))
                try:
                    volume = read_source(row.path, row.series, row.files)
                    output = output_path(options.output, f"{search.names[row.id]}_crop", taken, [Path(row.path)])
                    size = write_crop(volume, box, spacing, output)
                except AnatomicalEmbeddingError as error:
                    failed.append(str(error))
                    continue
                missing = " ".join(n for n in found if n not in here)
                rows.append([row.scan, str(output), " ".join(here), *size, missing])
    write_table(options.output / "crops.csv", CROP_COLUMNS, rows)
    if options.json:
        print_json({"crops": [dict(zip(CROP_COLUMNS, row, strict=True)) for row in rows], "skipped": failed})
        return
    for line in failed:
        say(f"skipped: {line}")
    say(f"{len(rows)} crops of {total} scans in {options.output}; {total - len(rows) - len(failed)} show none of these")


def run_export(options: argparse.Namespace) -> None:
    from ..cohort.gallery import write_gallery
    from ..cohort.search import Search
    from ..cohort.store import Store

    check_folder(options.output)
    if options.parquet:
        _parquet()
    with Store(options.store) as store:
        search = Search(store)
        found = find(store, options, search) if options.words or options.like else None
        make_folder(options.output)
        written = [_write_scans(store, options.output)]
        if options.structures:
            written.append(_write_boxes(store, search, options))
        if found is not None:
            written.append(_write_places(options.output / "places.csv", found))
            facts = {row.id: facts for row, facts in search.index.scans.values()}
            with progress_bar("pictures", options.json) as progress:
                title = options.words or f"like {options.like}"
                gallery = options.output / "gallery.html"
                written.append(write_gallery(gallery, title, found, facts, lambda share: progress(share, "")))
    if options.parquet:
        written += [_as_parquet(path) for path in written if path.suffix == ".csv"]
    if options.json:
        print_json({"files": list(map(str, written))})
    for path in written:
        say(f"wrote {path}", options.json)


def _parquet() -> tuple[ModuleType, ModuleType]:
    """What reads tables, and what writes them. Raises AnatomicalEmbeddingError where pyarrow is not installed."""
    reader, writer = (
        require(name, "pyarrow", "Parquet is written by", "parquet") for name in ("pyarrow.csv", "pyarrow.parquet")
    )
    return reader, writer


def _as_parquet(path: Path) -> Path:
    """The same table next to a .csv file: numbers as numbers, empty cells of theirs as null."""
    reader, writer = _parquet()
    table = reader.read_csv(path, parse_options=reader.ParseOptions(newlines_in_values=True))
    with atomic_path(path.with_suffix(".parquet")) as temporary:
        writer.write_table(table, temporary)
    return path.with_suffix(".parquet")


_SCAN_COLUMNS = (
    "scan", "state", "reason", "holds", "low_mm", "high_mm", "voxels_i", "voxels_j", "voxels_k", "spacing_i",
    "spacing_j", "spacing_k", "misfit_mm", "odd",
)  # fmt: skip


def _write_scans(store: Store, folder: Path) -> Path:
    """Write a table of all scans."""
    facts = {row.id: facts for row, facts in store.manifest.embedded()}
    rows = []
    for row in store.manifest.rows():
        cells = [""] * 11
        if known := facts.get(row.id):
            sizes = [*known["voxels"], *known["spacing_mm"]]
            heights = [known["held"], known["low_mm"], known["high_mm"]]
            cells = [*heights, *sizes, known["misfit_mm"], "; ".join(known["faults"])]
        rows.append([row.scan, row.state, row.reason, *cells])
    write_table(folder / "scans.csv", _SCAN_COLUMNS, rows)
    return folder / "scans.csv"


def _write_boxes(store: Store, search: Search, options: argparse.Namespace) -> Path:
    """Write a table of the boxes of structures in all scans."""
    from ..scan.boxes import SIDES

    finder = _finder(store, options, None if options.structures == "all" else options.structures)
    rows, total = [], len(search.index.scans)
    with progress_bar("boxes", options.json) as progress:
        for number, (row, found) in enumerate(search.locate(finder.examples, finder.effort)):
            for name, located in found.items():
                if located.status != "absent":
                    sides = (round(float(x), 2) for x in finder.box(located).ravel())
                    rows.append([row.scan, name, located.status, *sides])
            progress((number + 1) / total, "")
    write_table(options.output / "boxes.csv", ["scan", "structure", "status", *SIDES], rows)
    return options.output / "boxes.csv"


def _finder(store: Store, options: argparse.Namespace, structures: str | None) -> BoxFinder:
    """Examples and margins of the shipped library, for the store's weights."""
    from .box_options import BoxFinder

    given = _model_options(store)
    given.structures, given.library, given.examples, given.recall = structures, None, None, options.recall
    return BoxFinder(given)


def _model_options(store: Store) -> argparse.Namespace:
    """The store's weights, as the options of other commands name them."""
    model = store.manifest.about.get("model", "auto")
    return argparse.Namespace(model=model, device="auto", threads=None, memory_mb=None, no_cache=False)
