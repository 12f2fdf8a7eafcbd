"""anatemb cohort: embed many scans once into one folder, then search and export all of them together."""

from __future__ import annotations

import argparse
import time
from collections import Counter
from pathlib import Path
from typing import Any

from ..errors import AnatomicalEmbeddingError
from . import cohort_results
from .cohort_results import add_step
from .console import WEIGHTS_HELP, at_least, megabytes, print_json, progress_lines, say, warn

_SHOWN = 20  # most scans that are listed with the reason of their failure; --json lists all


def add_to(commands: argparse._SubParsersAction) -> None:
    parser = commands.add_parser(
        "cohort",
        help="embed many scans once, then search and export them together",
        description="A cohort is one folder STORE with the map of each scan. `run` adds and embeds scans; `find` and "
        "`export` read their maps. A run that was interrupted or killed continues by the same command.",
    )
    steps = parser.add_subparsers(title="steps", metavar="STEP", required=True)
    for add in (_add_run, cohort_results.add_to, _add_others):
        add(steps)


def _add_run(steps: argparse._SubParsersAction) -> None:
    add = add_step(
        steps, "run", _run_run,
        "Adds the scans of folders to a cohort, and embeds all that wait. Without DIR, embeds those that wait. Image "
        "files and DICOM series are found in DIR and all folders below it. Nothing is copied; STORE is made if it does "
        "not exist. A scan that cannot be used is recorded with the reason.",
    )  # fmt: skip
    add("folders", nargs="*", type=Path, metavar="DIR", help="folders, or single files, to add")
    add("--workers", type=at_least(1), default=0, metavar="N", help="processes (default: by cores and free memory)")
    add("--memory-mb", type=megabytes, default=0, metavar="MB", help="most memory of a worker (default: its share)")
    add("--scheduler", default="", metavar="ADDRESS", help="of a running Dask, such as tcp://host:8786")
    add("--no-descriptors", action="store_true", help="keep coordinates only: 0.1 MB a scan, answers less exact")
    add("--model", default="auto", metavar="NAME|FILE", help=WEIGHTS_HELP)
    add("--device", default="auto", help="auto, cpu or cuda (default: auto)")


def _add_others(steps: argparse._SubParsersAction) -> None:
    add = add_step(steps, "status", _run_status, "Counts the embedded scans, and says why the others cannot be used.")
    add("--verify", action="store_true", help="compare every map with its checksum")
    add("--repair", action="store_true", help="the same, and let the scans of damaged maps be embedded by the next run")
    about = "Removes scans from the store. The scans themselves stay where they are."
    add_step(steps, "remove", _run_remove, about)(
        "scans", nargs="+", metavar="SCAN", help="scan, or a folder: all scans below it"
    )


def _run_run(options: argparse.Namespace) -> None:
    from ..cohort.engine import run
    from ..cohort.store import Store
    from ..cohort.work import Plan

    plan = Plan(
        options.model, options.device, options.workers, options.memory_mb, options.scheduler, not options.no_descriptors
    )
    for folder in options.folders:  # checked before the store is created
        if not folder.exists():
            raise AnatomicalEmbeddingError(f"{folder}: no such file or folder; check the path.")
    with Store(options.store, create=bool(options.folders)) as store:
        refused: list[str] = []
        added = store.add(options.folders, unreadable=refused.append) if options.folders else {}
        for line in refused:
            warn(line)
        if added:
            say(f"{added['new']} new scans, {added['changed']} changed, {added['known']} known before", options.json)
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
            say(f"reasons: `anatemb cohort status {options.store}`")


def _run_status(options: argparse.Namespace) -> None:
    from ..cohort.manifest import EMBEDDED, WAITING
    from ..cohort.store import Store

    with Store(options.store) as store:
        faults = store.verify(options.repair) if options.verify or options.repair else []
        about, counts, maps = store.manifest.about, store.manifest.counts(), store.manifest.map_files()
        size = sum(each for _, each in maps.values())
        rows = store.manifest.rows()
        if options.json:
            facts = {row.id: facts for row, facts in store.manifest.embedded()}
            scans = [_listed(row, facts.get(row.id)) for row in rows]
            known = {"total": sum(counts.values()), "counts": counts, "bytes": size, "model": about.get("model")}
            found = {"faults": [vars(fault) for fault in faults]} if options.verify or options.repair else {}
            print_json({"store": str(store.folder), **known, **found, "scans": scans})
    if not options.json:
        say(f"{options.store}: {_in_words(counts)}")
        if maps:
            say(f"{len(maps)} maps, {size / 2**20:.1f} MB ({size / len(maps) / 2**20:.2f} MB each), {about['model']}")
        reasons = [row for row in rows if row.state not in (EMBEDDED, WAITING)]
        for row in reasons[:_SHOWN]:
            say(f"{row.state}: {row.reason if row.scan in row.reason else f'{row.scan}: {row.reason}'}")
        if len(reasons) > _SHOWN:
            say(f"... and {len(reasons) - _SHOWN} more; --json lists all")
        for fault in faults:
            say(f"{fault.problem}{f': {fault.repaired}' if fault.repaired else ''}")
    if faults and not options.repair:
        raise AnatomicalEmbeddingError(f"{options.store}: {len(faults)} faults; add --repair, then run.")


def _listed(row: Any, facts: dict[str, Any] | None) -> dict[str, Any]:
    known = {name: facts[name] for name in ("held", "low_mm", "high_mm", "misfit_mm")} if facts else {}
    return {"scan": row.scan, "state": row.state, "reason": row.reason or None, "scan_hash": row.scan_hash, **known}


def _run_remove(options: argparse.Namespace) -> None:
    from ..cohort.store import Store

    with Store(options.store) as store:
        removed = store.remove(options.scans)
        counts = store.manifest.counts()
    if options.json:
        print_json({"removed": [row.scan for row in removed], "counts": counts})
        return
    say(f"{len(removed)} scans removed; {options.store}: {_in_words(counts)}")


def _in_rates(counts: Counter[str], total: int, seconds: float) -> str:
    bad = "".join(f", {count} {name}" for name, count in counts.items() if name != "embedded")
    done = counts.total()
    left = f", {(total - done) * seconds / done / 60:.0f} min left" if done else ""
    return f"{done} of {total} scans, {60 * done / max(seconds, 1e-3):.1f} a minute{left}{bad}"


def _in_words(counts: dict[str, int]) -> str:
    return ", ".join(f"{count} {state}" for state, count in counts.items() if count) or "no scans"
