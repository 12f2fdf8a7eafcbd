"""anatemb cohort: embed many scans once into one folder, then search and export all of them together."""

from __future__ import annotations

import argparse
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ..errors import AnatomicalEmbeddingError
from ..files import write_table
from ..scan.points import parse_point
from . import arguments
from .console import (
    as_files,
    as_records,
    cell,
    check_folder,
    coordinates,
    make_folder,
    print_json,
    progress_bar,
    progress_lines,
    say,
    say_written,
    warn,
)
from .locate import BOX_COLUMNS, box_row, open_finder

if TYPE_CHECKING:
    from ..cohort.search import CohortAnswer, Search
    from ..cohort.store import Store
    from ..embedding.inference import Model
    from ..embedding.map import EmbeddingMap
    from ..scan.volume import Volume
    from ..words.phrases import Mention

COLUMNS = ("scan", "status", "probability", "expected_error_mm", "r", "a", "s")
_SCAN_COLUMNS = (
    "scan",
    "state",
    "reason",
    "holds",
    "low_mm",
    "high_mm",
    "voxels_i",
    "voxels_j",
    "voxels_k",
    "spacing_i",
    "spacing_j",
    "spacing_k",
    "misfit_mm",
    "odd",
)
_SHOWN_SCANS = 20  # at most this many failed scans are listed with the reason; --json lists all
_SHOWN_PLACES = 10  # at most this many places are listed; places.csv has all


def add_to(commands: argparse._SubParsersAction) -> None:
    parser = commands.add_parser(
        "cohort",
        help="embed many scans once, then search and export them together",
        description="A cohort is a folder STORE with the maps of many scans. `run` adds scans and embeds them; `find` "
        "and `export` use the maps. To continue a run that was interrupted or killed, give the same command again.",
    )
    steps = parser.add_subparsers(title="steps", metavar="STEP", required=True)
    for add in (_add_run, _add_results, _add_others):
        add(steps)


def _add_run(steps: argparse._SubParsersAction) -> None:
    add = add_step(
        steps,
        "run",
        run_run,
        "Adds the scans in DIR to a cohort, and embeds all scans of the cohort that have no map yet. Without DIR, no "
        "scans are added. Image files and DICOM series are found in DIR and its subfolders. Scans are not copied. "
        "STORE is created if it does not exist. If a scan cannot be used, the reason is recorded.",
    )
    add("folders", nargs="*", type=Path, metavar="DIR", help="folders or files to add")
    add(
        "--no-descriptors",
        action="store_true",
        help="maps without descriptors: 0.1 MB each, less exact answers",
    )
    arguments.add_workers(steps.choices["run"], 0)


def _add_others(steps: argparse._SubParsersAction) -> None:
    """Add the steps `status` and `remove`."""
    help_text = "Counts the scans of a cohort, and states why some scans are not embedded."
    add = add_step(steps, "status", run_status, help_text)
    add("--verify", action="store_true", help="compare every map file with its checksum")
    add(
        "--repair",
        action="store_true",
        help="verify, and delete damaged maps; the next run embeds their scans again",
    )
    help_text = "Removes scans from a cohort. The image files are not deleted."
    add_step(steps, "remove", run_remove, help_text)(
        "scans", nargs="+", metavar="SCAN", help="scan, or folder of scans"
    )


def _add_results(steps: argparse._SubParsersAction) -> None:
    """Add the steps `find` and `export`, which share the options for a place."""
    find = add_step(
        steps,
        "find",
        run_find,
        "Finds one place in all scans. Give the place in words, or as a point or box in an example scan. Writes "
        "places.csv; scans with the highest probability come first. Points are in RAS mm of their scan.",
        "output",
    )
    export = add_step(
        steps,
        "export",
        run_export,
        "Writes tables of a cohort: scans.csv; boxes.csv if --structures is given; places.csv and gallery.html (a page "
        "with pictures) if a place is given.",
        "output",
    )
    for step, add in (("find", find), ("export", export)):
        add("words", nargs="?", metavar="WORDS", help='name of one place, such as "left adrenal"')
        add("--like", metavar="SCAN", help="example scan: a scan of the cohort, or any other CT")
        add("--point", metavar="R,A,S", help="the place in the example scan, RAS mm")
        add("--box", metavar="R,A,S,R,A,S", help="two corners of a box in the example scan, RAS mm")
        best = "best answers to make more exact"
        arguments.add_count(steps.choices[step], "--refine", 50, best, least=0)
    export(
        "--structures",
        metavar="A,B,...",
        help='structures for boxes.csv (see `anatemb structures list`), or "all"',
    )


def add_step(
    steps: argparse._SubParsersAction,
    name: str,
    run: Callable[[argparse.Namespace], None],
    help_text: str,
    *shared: str,
) -> Callable[..., argparse.Action]:
    """Add a subcommand of `anatemb cohort`. Returns the method `add_argument` of the subcommand's parser.

    Args:
        steps: the subcommands.
        name: name of the subcommand.
        run: runs it.
        help_text: text of the help; its first sentence is also the short help.
        shared: names of options to add, such as "output".
    """
    parser = steps.add_parser(
        name, help=help_text[0].lower() + help_text[1:].partition(".")[0], description=help_text
    )
    arguments.add_path(parser, "store", "STORE", "folder of the cohort")
    arguments.complete(parser, run, *shared, model=False)
    return parser.add_argument


def run_run(options: argparse.Namespace) -> None:
    """Add scans to a cohort, embed the scans without a map, and make the index for the search."""
    from ..cohort.engine import run
    from ..cohort.store import Store
    from ..cohort.work import Plan
    from ..scan.sources import list_sources

    plan = Plan(
        options.model,
        options.device,
        options.workers,
        options.memory_bytes,
        not options.no_descriptors,
    )
    # checked before the store is created
    if options.folders and not any(list_sources(options.folders, unreadable=lambda line: None)):
        raise AnatomicalEmbeddingError(
            f"{options.folders[0]}: contains no scan; give folders of CT scans."
        )
    with Store(options.store, create=bool(options.folders)) as store:
        refused: list[str] = []
        added = store.add(options.folders, unreadable=refused.append) if options.folders else {}
        for line in refused:
            warn(line)
        if added:
            say(
                f"{added['new']} new scans, {added['changed']} changed, {added['known']} unchanged",
                options.json,
            )
        start = time.monotonic()
        with progress_lines("cohort", options.json) as show:

            def report(counts: Counter[str], total: int) -> None:
                show(counts.total() / total, _in_rates(counts, total, time.monotonic() - start))

            ended = run(store, plan, report)
        counts = store.manifest.counts()
        if any(ended.values()):
            from ..cohort.index import refresh

            refresh(store)
    if options.json:
        print_json({"added": dict(added), "refused": refused, "this_run": ended, "counts": counts})
    else:
        say(f"{options.store}: {_in_words(counts)}")
        if counts["unusable"] or counts["failed"]:
            say(f"`anatemb cohort status {options.store}` shows the reasons.")


def run_status(options: argparse.Namespace) -> None:
    """Print how many scans are in each state, and why some are not embedded; with --verify, check the maps."""
    from ..cohort.store import Store

    with Store(options.store) as store:
        is_verified = options.verify or options.repair
        faults = store.verify(options.repair) if is_verified else []
        if options.json:
            status = _status(store)
            if is_verified:
                status["faults"] = list(map(vars, faults))
            print_json(status)
        else:
            _print_status(store, options.store)
            consequence = "; the next run embeds the scan again" if options.repair else ""
            for fault in faults:
                say(f"{fault.problem}{consequence}")
    if faults and not options.repair:
        raise AnatomicalEmbeddingError(
            f"{options.store}: {len(faults)} maps are missing or damaged; run `anatemb cohort status` with --repair, "
            "then run `anatemb cohort run`."
        )


def _status(store: Store) -> dict[str, Any]:
    """Return what `cohort status --json` states about a cohort and its scans."""
    manifest = store.manifest
    counts = manifest.counts()
    facts = {row.id: facts for row, facts in manifest.embedded()}
    return {
        "store": str(store.folder),
        "total": sum(counts.values()),
        "counts": counts,
        "bytes": sum(size for _, size in manifest.map_files().values()),
        "model": manifest.about.get("model"),
        "scans": [_listed(row, facts.get(row.id)) for row in manifest.rows()],
    }


def _print_status(store: Store, name: Path) -> None:
    """Print how many scans are in each state, and why some are not embedded. name: of the store, as it was given."""
    from ..cohort.manifest import EMBEDDED, WAITING

    manifest = store.manifest
    say(f"{name}: {_in_words(manifest.counts())}")
    sizes = [size for _, size in manifest.map_files().values()]
    if sizes:
        size_mb = sum(sizes) / 2**20
        model = manifest.about["model"]
        say(f"{len(sizes)} maps, {size_mb:.1f} MB ({size_mb / len(sizes):.2f} MB each), {model}")
    rows = [row for row in manifest.rows() if row.state not in (EMBEDDED, WAITING)]
    for row in rows[:_SHOWN_SCANS]:
        reason = row.reason if row.scan in row.reason else f"{row.scan}: {row.reason}"
        say(f"{row.state}: {reason}")
    if len(rows) > _SHOWN_SCANS:
        say(f"... and {len(rows) - _SHOWN_SCANS} more; --json lists all")


def _listed(row: Any, facts: dict[str, Any] | None) -> dict[str, Any]:
    """Return what `cohort status --json` states about a scan. facts: from `make_facts`, or None without a map."""
    names = ("held", "low_mm", "high_mm", "misfit_mm") if facts else ()
    return {
        "scan": row.scan,
        "state": row.state,
        "reason": row.reason or None,
        "scan_hash": row.scan_hash,
        **{name: facts[name] for name in names},
    }


def run_remove(options: argparse.Namespace) -> None:
    """Remove scans from a cohort."""
    from ..cohort.store import Store

    with Store(options.store) as store:
        removed = store.remove(options.scans)
        counts = store.manifest.counts()
    if options.json:
        print_json({"removed": [row.scan for row in removed], "counts": counts})
        return
    say(f"{len(removed)} scans removed; {options.store}: {_in_words(counts)}")


def _in_rates(counts: Counter[str], total: int, seconds: float) -> str:
    """Return the progress of a run in words. counts: of scans, by the state in which they ended. seconds: since the
    start."""
    done = counts.total()
    words = f"{done} of {total} scans, {60 * done / max(seconds, 1e-3):.1f} a minute"
    if done:
        words += f", {(total - done) * seconds / done / 60:.0f} min left"
    for state, count in counts.items():
        if state != "embedded":
            words += f", {count} {state}"
    return words


def _in_words(counts: dict[str, int]) -> str:
    return ", ".join(f"{count} {state}" for state, count in counts.items() if count) or "no scans"


def run_find(options: argparse.Namespace) -> None:
    """Find a place in all scans, write places.csv, and print the best answers."""
    from ..cohort.search import Search
    from ..cohort.store import Store

    check_folder(options.output)
    with Store(options.store) as store:
        mention = check_place(options)  # before the search reads every map
        answers = find(Search(store), mention, options)
        make_folder(options.output)
        written = [options.output / "places.csv"]
        rows = list(map(_row, answers))
        write_table(written[0], COLUMNS, rows)
    if options.json:
        print_json({"places": as_records(COLUMNS, rows)})
        return
    with_place = [answer for answer in answers if answer.point_ras is not None]
    for answer in with_place[:_SHOWN_PLACES]:
        r, a, s = answer.point_ras
        say(f"{answer.row.scan}: {answer.text}, at {r:.1f}, {a:.1f}, {s:.1f}")
    unlisted = len(with_place) - _SHOWN_PLACES
    more = f"; {unlisted} more in places.csv" if unlisted > 0 else ""
    say(f"found in {len(with_place)} of {len(answers)} scans{more}")
    say_written(written)


def check_place(options: argparse.Namespace) -> Mention | None:
    """Check that the options name one place. Returns the place that the words name; None for an example scan."""
    from ..cohort.search import one_mention

    by_example = [name for name in ("point", "box") if getattr(options, name)]
    if bool(options.words) == bool(options.like) or (options.like and len(by_example) != 1):
        raise AnatomicalEmbeddingError(
            'no place or several places are given; give words such as "left adrenal", or --like SCAN --point R,A,S.'
        )
    if options.words and by_example:
        raise AnatomicalEmbeddingError(
            f"--{by_example[0]} gives a place in an example scan and cannot be used with words; leave out the words "
            f"or --{by_example[0]}."
        )
    return one_mention(options.words) if options.words else None


def find(
    search: Search, mention: Mention | None, options: argparse.Namespace
) -> list[CohortAnswer]:
    """Search all scans of a store for a place.

    Args:
        search: the search in the store.
        mention: the place in words, or None.
        options: options of the command; without a mention, they give a point or a box.
    """
    from ..structures.locating import make_example

    with progress_bar("searching", options.json) as progress:

        def step(share: float) -> None:
            progress(share, "")

        if mention is not None:
            return search.words(mention, options.refine, step)
        template, volume = _template(search, options)
        if options.box:
            corners = parse_point(options.box, 6).reshape(2, 3)
            example = make_example(template, np.sort(corners, axis=0))
            return search.box(example, options.refine, step)
        from ..matching.query import read_query

        point = parse_point(options.point)
        answers = search.point(read_query(template, point[None]), options.refine, step)
        if volume is None:
            return answers
        from ..embedding.cache import MapCache, default_folder
        from ..relations.one_patient import MappedScan

        cache = MapCache(default_folder())
        example_scan = MappedScan(volume, template)
        return search.registered(answers, example_scan, point, cache, options.refine)


def _template(search: Search, options: argparse.Namespace) -> tuple[EmbeddingMap, Volume | None]:
    """Return the map of the example scan `options.like`, and the scan; None if it is known to have no Patient ID.

    A scan that is not in the cohort is embedded first.
    """
    try:
        rows = search.store.manifest.find(options.like)
    except AnatomicalEmbeddingError:
        rows = []
    if len(rows) > 1:
        names = ", ".join(row.scan for row in rows[:4])
        raise AnatomicalEmbeddingError(
            f"--like {options.like}: names {len(rows)} scans ({names}); name one scan."
        )
    if rows and rows[0].scan_hash in search.index.scans:
        embedded, _ = search.index.scans[rows[0].scan_hash]  # duplicate scans share one map
        volume = search.read_volume(embedded) if embedded.source.patient_id else None
        return search.map_of(embedded), volume
    if not Path(options.like).exists():
        raise AnatomicalEmbeddingError(
            f"{options.like}: is neither a scan of this cohort nor a file; check the path."
        )
    from ..scan.volume import Volume

    volume = Volume.read(options.like)
    return _open_model(search.store).embed(volume), volume


def _row(answer: CohortAnswer) -> list[Any]:
    """Return a row of places.csv."""
    chance = cell(answer.probability, 3)
    error = cell(answer.expected_error_mm, 1)
    return [answer.row.scan, answer.status, chance, error, *coordinates(answer.point_ras)]


def run_export(options: argparse.Namespace) -> None:
    """Write the tables of a cohort and, if a place is given, the page with pictures."""
    from ..cohort.gallery import write_gallery
    from ..cohort.search import Search
    from ..cohort.store import Store

    check_folder(options.output)
    with Store(options.store) as store:
        search = Search(store)
        answers = None
        if options.words or options.like or options.point or options.box:
            answers = find(search, check_place(options), options)
        make_folder(options.output)
        written = [_write_scans(store, options.output)]
        if options.structures:
            written.append(_write_boxes(store, search, options))
        if answers is not None:
            written.append(options.output / "places.csv")
            write_table(written[-1], COLUMNS, list(map(_row, answers)))
            facts = {row.id: facts for row, facts in search.index.scans.values()}
            with progress_bar("pictures", options.json) as progress:
                title = options.words or f"Place as in {options.like}"
                written.append(options.output / "gallery.html")
                write_gallery(written[-1], title, answers, facts, lambda share: progress(share, ""))
    if options.json:
        print_json(as_files(written))
    say_written(written, options.json)


def _write_scans(store: Store, folder: Path) -> Path:
    """Write scans.csv: a row for each scan of the cohort. Returns its path."""
    facts = {row.id: facts for row, facts in store.manifest.embedded()}
    rows = []
    for row in store.manifest.rows():
        cells = [""] * 11
        if row.id in facts:
            scan_facts = facts[row.id]
            sizes = [*scan_facts["voxels"], *scan_facts["spacing_mm"]]
            heights = [scan_facts["held"], scan_facts["low_mm"], scan_facts["high_mm"]]
            cells = [*heights, *sizes, scan_facts["misfit_mm"], "; ".join(scan_facts["faults"])]
        rows.append([row.scan, row.state, row.reason, *cells])
    write_table(folder / "scans.csv", _SCAN_COLUMNS, rows)
    return folder / "scans.csv"


def _write_boxes(store: Store, search: Search, options: argparse.Namespace) -> Path:
    """Find the structures in the maps of all scans, and write boxes.csv. Returns its path."""
    from ..structures.box_finder import RECALL

    names = None if options.structures == "all" else options.structures
    finder = open_finder(_open_model(store), RECALL, names)
    rows = []
    with progress_bar("boxes", options.json) as progress:
        for number, (row, _) in enumerate(search.index.scans.values()):
            for box in finder.find(search.map_of(row)).values():
                if box.box_ras is not None:
                    rows.append(box_row(row.scan, box))
            progress((number + 1) / len(search.index.scans), "")
    write_table(options.output / "boxes.csv", BOX_COLUMNS, rows)
    return options.output / "boxes.csv"


def _open_model(store: Store) -> Model:
    """Load the weights with which the cohort was embedded."""
    from ..embedding.cache import MapCache, default_folder
    from ..embedding.inference import load_model

    name = store.manifest.about.get("model", "auto")
    return load_model(name, cache=MapCache(default_folder()))
