"""Arguments of the commands: those that several commands share, and how their texts are read."""

from __future__ import annotations

import argparse
import math
import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeVar

from ..matching import EFFORTS

_N = TypeVar("_N", int, float)
SCANS_HELP = "CT files, DICOM folders, folders that contain scans (also in subfolders), or dicomweb:URL/studies/UID"
SERIES_HELP = "UID of the series to read from a DICOM folder with several CTs; repeat the option for several folders"
EFFORT_HELP = "more effort: slightly more exact answers, but slower (default: standard)"
WEIGHTS_HELP = "name or file of the weights (default: auto, the best shipped weights)"
DICOM_HELP = "also write the result of each scan as a DICOM object, for scans that are DICOM series"
STORE_HELP = "also send the DICOM objects to this DICOMweb server, such as https://server/dicom-web"
# name of an option, as for `complete` -> its flags, and the arguments of `add_argument`; in the order of the help
_SHARED: dict[str, tuple[tuple[str, ...], dict[str, Any]]] = {
    "scans": (("scans",), {"nargs": "+", "metavar": "SCAN", "help": SCANS_HELP}),
    "output": (
        ("-o", "--output"),
        {"type": Path, "required": True, "metavar": "DIR", "help": "folder for results"},
    ),
    "report": (
        ("--no-report",),
        {"action": "store_true", "help": "do not write pages with pictures"},
    ),
    "dicom": (("--dicom",), {"action": "store_true", "help": DICOM_HELP}),
    "effort": (("--effort",), {"choices": EFFORTS, "default": "standard", "help": EFFORT_HELP}),
    "store": (("--store",), {"metavar": "URL", "dest": "store_url", "help": STORE_HELP}),
    "series": (
        ("--series",),
        {"action": "append", "default": [], "metavar": "UID", "help": SERIES_HELP},
    ),
    "json": (
        ("--json",),
        {"action": "store_true", "help": "print the result as JSON, for other programs"},
    ),
}


def complete(
    parser: argparse.ArgumentParser,
    run: Callable[[argparse.Namespace], int | None],
    *shared: str,
    json: bool = True,
    model: bool = True,
) -> None:
    """Add shared arguments to the parser of a command, and set the function that runs the command.

    Args:
        parser: the parser.
        run: gets the parsed options; may return an exit code.
        shared: which of "scans", "output", "report", "dicom" (with --store), "effort" and "series" to add.
        json: whether to add --json.
        model: whether to add --model and the options of `add_computing`.
    """
    parser.set_defaults(run=run)
    names = {*shared}
    if json:
        names.add("json")
    if "dicom" in shared:
        names.add("store")
    for name, (flags, settings) in _SHARED.items():
        if name in names:
            parser.add_argument(*flags, **settings)
    if model:
        group = parser.add_argument_group("model")
        group.add_argument("--model", default="auto", metavar="NAME|FILE", help=WEIGHTS_HELP)
        add_computing(group)


def add_computing(parser: argparse._ActionsContainer) -> None:
    """Add the options for embedding: device, threads, memory, and use of the disk cache."""
    add = parser.add_argument
    add("--device", default="auto", help="auto, cpu, cuda, cuda:1 or mps (default: auto)")
    add("--threads", type=at_least(1), metavar="N", help="CPU threads (default: all cores)")
    help_text = "memory for one scan (default: 60 %% of the free memory)"
    add("--memory-mb", dest="memory_bytes", type=megabytes, metavar="MB", help=help_text)
    add("--no-cache", action="store_true", help="do not read or write maps in the cache on disk")


def add_path(
    parser: argparse._ActionsContainer, names: str, metavar: str, help_text: str, **settings: Any
) -> None:
    """Add an argument or an option for a path.

    Args:
        parser: the parser.
        names: such as "scan"; of an option also its short name, such as "-o --output".
        metavar, help_text: as for `add_argument`.
        settings: more settings, as for `add_argument`.
    """
    parser.add_argument(*names.split(), type=Path, metavar=metavar, help=help_text, **settings)


def add_count(
    parser: argparse._ActionsContainer, name: str, default: int, help_text: str, least: int = 1
) -> None:
    """Add an option for a whole number.

    Args:
        parser: the parser.
        name: the option, such as "--steps".
        default: the default, which the help states.
        help_text: the help, without the default.
        least: smallest number that is allowed.
    """
    help_text = f"{help_text} (default: {default})"
    parser.add_argument(name, type=at_least(least), default=default, metavar="N", help=help_text)


def add_training(parser: argparse._ActionsContainer) -> None:
    """Add the options of training runs: seed, device, threads, and processes that prepare batches."""
    add = parser.add_argument
    add("--seed", type=at_least(0), default=0, help="random seed (default: 0)")
    add("--device", default="auto", help="auto, cpu, cuda or mps (default: auto)")
    help_text = "CPU threads of the network (default: all cores)"
    add("--threads", type=at_least(1), metavar="N", help=help_text)
    add_count(parser, "--workers", 1, "processes that prepare batches", least=0)


def add_jobs(parser: argparse._ActionsContainer) -> None:
    """Add the option for the number of scans that are prepared at a time."""
    add_count(parser, "--jobs", min(os.cpu_count() or 1, 8), "scans prepared at a time")


def add_workers(parser: argparse._ActionsContainer, default: int) -> None:
    """Add the options of runs on many scans: weights, device, workers. default: of --workers."""
    add = parser.add_argument
    add_count(parser, "--workers", default, "worker processes; 0: by cores and memory", least=0)
    help_text = "worker's memory (default: free memory / workers)"
    add("--memory-mb", dest="memory_bytes", type=megabytes, default=0, metavar="MB", help=help_text)
    add("--model", default="auto", metavar="NAME|FILE", help=WEIGHTS_HELP)
    add("--device", default="auto", help="auto, cpu or cuda (default: auto)")


def add_film_width(parser: argparse._ActionsContainer) -> None:
    """Add the option for the width of films whose file does not state it."""
    help_text = "width of the films at the detector (default: as the file states, else 350)"
    parser.add_argument("--film-width-mm", type=not_negative, metavar="MM", help=help_text)


def names_in(text: str | None) -> list[str]:
    """Split a text at commas into names. Returns an empty list for None."""
    return [name.strip() for name in (text or "").split(",") if name.strip()]


def number(
    convert: Callable[[str], _N], fits: Callable[[_N], bool], kind: str
) -> Callable[[str], _N]:
    """Return an argparse type that converts a text to a number.

    Args:
        convert: converts the text; may raise ValueError.
        fits: tests if a number is allowed.
        kind: the allowed numbers in words, for the error message "TEXT is not {kind}".
    """

    def read(text: str) -> _N:
        with suppress(ValueError, OverflowError):
            value = convert(text)
            if fits(value):
                return value
        raise argparse.ArgumentTypeError(f"{text!r} is not {kind}")

    return read


def at_least(least: int) -> Callable[[str], int]:
    """Return an argparse type for a whole number from `least` to 2^63 - 1, the largest seed that torch accepts."""
    return number(
        int, lambda n: least <= n < 2**63, f"a whole number of {least} or more, or is too large"
    )


not_negative = number(float, lambda value: 0 <= value < math.inf, "a number of 0 or more")
# -> bytes
megabytes = number(lambda text: int(float(text) * 2**20), lambda n: n >= 0, "a number of megabytes")
