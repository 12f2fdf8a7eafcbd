"""anatemb cohort: many scans embedded once into one folder, then searched, cropped and exported together."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import AnatomicalEmbeddingError
from . import cohort_results
from .console import at_least, complete, megabytes, print_json, say

if TYPE_CHECKING:
    from ..cohort.engine import Progress

_EVERY_S = 10.0  # between two lines of progress where there is no terminal
_SHOWN = 20  # scans that are listed with their reasons; --json lists all


def add_to(commands: argparse._SubParsersAction) -> None:
    parser = commands.add_parser(
        "cohort",
        help="embed many scans once, then search, crop and export them together",
        description="A cohort is one folder STORE with what is kept of each scan. Scans are added, embedded by `run`, "
        "and then found, cropped and exported. Interrupted or killed, `run` goes on by the same command.",
    )
    steps = parser.add_subparsers(title="steps", metavar="STEP", required=True)
    for add in (_add_add, _add_run, _add_status, cohort_results.add_to, _add_verify, _add_remove):
        add(steps)


def _step(steps: argparse._SubParsersAction, name: str, run: Callable[[argparse.Namespace], None], about: str) -> Any:
    parser = steps.add_parser(name, help=about[0].lower() + about[1:].partition(".")[0], description=about)
    parser.add_argument("store", type=Path, metavar="STORE", help="folder of the cohort")
    complete(parser, run, model=False)
    return parser.add_argument


def _add_add(steps: argparse._SubParsersAction) -> None:
    about = "Adds the scans of folders and their subfolders: image files, and every DICOM series of any patients."
    add = _step(steps, "add", _run_add, f"{about} Nothing is copied; STORE is made where it does not exist.")
    add("folders", nargs="+", type=Path, metavar="DIR", help="folders, or single files")


def _add_run(steps: argparse._SubParsersAction) -> None:
    about = "Embeds the scans that wait. Unusable ones are recorded with the reason and stop nothing."
    add = _step(steps, "run", _run_run, about)
    add("--workers", type=at_least(1), default=0, metavar="N", help="processes (default: by cores and free memory)")
    add("--memory-mb", type=megabytes, default=0, metavar="MB", help="most memory of a worker (default: its share)")
    add("--scheduler", default="", metavar="ADDRESS", help="of a running Dask, such as tcp://host:8786")
    add("--no-descriptors", action="store_true", help="keep coordinates only: 0.1 MB a scan, answers less exact")
    add("--model", default="auto", metavar="NAME|FILE", help="weights by name or file (default: auto)")
    add("--device", default="auto", help="auto, cpu or cuda (default: auto)")


def _add_status(steps: argparse._SubParsersAction) -> None:
    _step(steps, "status", _run_status, "How many scans are embedded, and which cannot be used, and why.")


def _add_verify(steps: argparse._SubParsersAction) -> None:
    add = _step(steps, "verify", _run_verify, "Compares every file of the store with its checksum.")
    add("--repair", action="store_true", help="let the scans of damaged files be embedded again by the next run")


def _add_remove(steps: argparse._SubParsersAction) -> None:
    add = _step(steps, "remove", _run_remove, "Removes scans from the store. The scans themselves stay where they are.")
    add("scans", nargs="+", metavar="SCAN", help="scan, or a folder: all scans below it")


def _run_add(options: argparse.Namespace) -> None:
    from ..cohort.store import Store

    for folder in options.folders:  # before a store is made
        if not folder.exists():
            raise AnatomicalEmbeddingError(f"{folder}: no such file or folder; check the path.")
    with Store(options.store, create=True) as store:
        refused: list[str] = []
        count = store.add(options.folders, refused.append)
        counts = store.manifest.counts()
    for line in refused:
        print(f"anatemb: {line}", file=sys.stderr)
    if options.json:
        print_json({"new": count["new"], "changed": count["changed"], "known": count["known"], "refused": refused})
        return
    say(f"{count['new']} scans added, {count['changed']} changed since they were added, {count['known']} known already")
    say(f"{options.store}: {_in_words(counts)}; embed with `anatemb cohort run {options.store}`")


def _run_run(options: argparse.Namespace) -> None:
    from ..cohort.engine import Plan, run
    from ..cohort.store import Store

    plan = Plan(
        options.model, options.device, options.workers, options.memory_mb, options.scheduler, not options.no_descriptors
    )
    with Store(options.store) as store:
        ended = run(store, plan, _Line(options.json).show)
        print(end="\n" if sys.stderr.isatty() and ended and not options.json else "", file=sys.stderr)
        counts = store.manifest.counts()
        if any(ended.values()):
            from ..cohort.index import refresh

            refresh(store)
    if options.json:
        print_json({"this_run": ended, "counts": counts})
    else:
        say(f"{options.store}: {_in_words(counts)}")
        if counts["unusable"] or counts["failed"]:
            say(f"reasons: `anatemb cohort status {options.store}`")


class _Line:
    """Progress on stderr: one line that changes on a terminal, else a line now and then."""

    def __init__(self, quiet: bool) -> None:
        self._quiet, self._last = quiet, 0.0

    def show(self, state: Progress) -> None:
        terminal, now = sys.stderr.isatty(), time.monotonic()
        if self._quiet or (not terminal and now - self._last < _EVERY_S and state.done < state.total):
            return
        self._last = now
        left = "" if not state.done or state.done >= state.total else f", {_duration(state.left_s)} left"
        bad = ", ".join(f"{count} {name}" for name, count in state.counts.items() if name != "embedded")
        text = f"{state.done} of {state.total} scans, {state.rate:.1f} a minute{left}{f' ({bad})' if bad else ''}"
        print(f"\r{text}\x1b[K" if terminal else text, end="" if terminal else "\n", file=sys.stderr, flush=True)


def _duration(seconds: float) -> str:
    minutes = seconds / 60
    if minutes < 1.5:
        return f"{seconds:.0f} s"
    return f"{minutes:.0f} min" if minutes < 90 else f"{minutes / 60:.1f} h"


def _run_status(options: argparse.Namespace) -> None:
    from ..cohort.manifest import EMBEDDED, WAITING
    from ..cohort.store import Store

    with Store(options.store) as store:
        about, counts, files = store.manifest.about, store.manifest.counts(), store.manifest.map_files()
        size = sum(each for _, each in files.values())
        if options.json:
            facts = {row.id: facts for row, facts in store.manifest.embedded()}
            scans = [_listed(row, facts.get(row.id)) for row in store.manifest.rows()]
            known = {"total": sum(counts.values()), "counts": counts, "bytes": size, "model": about.get("model")}
            print_json({"store": str(store.folder), **known, "scans": scans})
            return
        rows = [row for row in store.manifest.rows() if row.state not in (EMBEDDED, WAITING)]
    say(f"{options.store}: {_in_words(counts)}")
    if files:
        say(f"{len(files)} maps, {size / 2**20:.1f} MB ({size / len(files) / 2**20:.2f} MB each), {about['model']}")
    if rows:
        say()
        for row in rows[:_SHOWN]:
            say(f"{row.state}: {row.reason if row.scan in row.reason else f'{row.scan}: {row.reason}'}")
        if len(rows) > _SHOWN:
            say(f"... and {len(rows) - _SHOWN} more; --json lists all")


def _listed(row: Any, facts: dict[str, Any] | None) -> dict[str, Any]:
    known = {name: facts[name] for name in ("held", "low_mm", "high_mm", "misfit_mm")} if facts else {}
    return {"scan": row.scan, "state": row.state, "reason": row.reason or None, "scan_hash": row.scan_hash, **known}


def _run_verify(options: argparse.Namespace) -> None:
    from ..cohort.store import Store

    with Store(options.store) as store:
        faults = store.verify(options.repair)
        count = len(store.manifest.map_files())
    if options.json:
        print_json({"maps": count, "faults": [vars(fault) for fault in faults]})
    else:
        for fault in faults:
            say(f"{fault.problem}{f': {fault.repaired}' if fault.repaired else ''}")
        say(f"{options.store}: {count} maps, {len(faults)} faults")
    if faults and not options.repair:
        raise AnatomicalEmbeddingError(
            f"{options.store}: {len(faults)} faults; repair with `verify --repair`, then run."
        )


def _run_remove(options: argparse.Namespace) -> None:
    from ..cohort.store import Store

    with Store(options.store) as store:
        removed = store.remove(options.scans)
        counts = store.manifest.counts()
    if options.json:
        print_json({"removed": [row.scan for row in removed], "counts": counts})
        return
    say(f"{len(removed)} scans removed; {options.store}: {_in_words(counts)}")


def _in_words(counts: dict[str, int]) -> str:
    return ", ".join(f"{count} {state}" for state, count in counts.items() if count) or "no scans"
