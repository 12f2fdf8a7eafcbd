"""The steps of anatemb cohort that write results: find, crop and export."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import AnatomicalEmbeddingError, PointsError
from .console import at_least, check_folder, complete, make_folder, open_model, print_json, progress_bar, say

if TYPE_CHECKING:
    import numpy as np

    from ..cohort.search import Found, Search
    from ..cohort.store import Store
    from ..embedding.map import EmbeddingMap

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
    find.add_argument("--gallery", action="store_true", help="write gallery.html too, with a picture of each place")


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
        if options.gallery:
            from ..cohort.gallery import write_gallery

            with progress_bar("pictures", options.json) as progress:
                title = options.words or f"like {options.like}"
                written.append(write_gallery(options.output / "gallery.html", title, found, progress))
    if options.json:
        print_json({"places": [dict(zip(COLUMNS, _row(each, None), strict=True)) for each in found]})
        return
    there = [each for each in found if each.point_ras is not None]
    for each in there[:_SHOWN]:
        r, a, s = each.point_ras
        say(f"{each.row.scan}: {each.status}, {_percent(each.probability)}, at {r:.1f}, {a:.1f}, {s:.1f}")
    more = f"; {len(there) - _SHOWN} more in places.csv" if len(there) > _SHOWN else ""
    say(f"in {len(there)} of {len(found)} scans{more}")
    for path in written:
        say(f"wrote {path}")


def find(store: Store, options: argparse.Namespace) -> list[Found]:
    """The place that the options name, in all scans of a store."""
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

        search = Search(store)
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
    from dataclasses import replace

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
        return replace(search.map_of(embedded))
    if not Path(options.like).exists():
        raise AnatomicalEmbeddingError(f"{options.like}: is neither a scan of this cohort nor a file; check the path.")
    volume = Volume.read(options.like)
    options = argparse.Namespace(
        model=search.store.manifest.about["model"], device="auto", threads=None, memory_mb=None, no_cache=False
    )
    return open_model(options).embed(volume)


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
    from .console import write_table

    write_table(path, COLUMNS, [_row(each, "") for each in found])
    return path


def _row(found: Found, empty: Any) -> list[Any]:
    point = [empty] * 3 if found.point_ras is None else [round(float(x), 2) for x in found.point_ras]
    chance = empty if found.probability is None else round(found.probability, 3)
    error = empty if found.expected_error_mm is None else round(found.expected_error_mm, 1)
    return [found.row.scan, found.status, chance, error, *point]


def _percent(share: float | None) -> str:
    return "not calibrated" if share is None else f"{share:.0%}"
