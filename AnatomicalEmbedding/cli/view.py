"""anatemb view: scans side by side in the browser; click in one, see the place in all others."""

import argparse
import atexit
import os
import sys
from contextlib import suppress
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import NoReturn

from ..errors import AnatomicalEmbeddingError
from ..resources import list_weights, weights_file
from .console import SCANS_HELP, at_least, complete, say

_INSTALL = (
    "in a checkout, `make view` sets it up; else, in an environment of its own: "
    'pip install "AnatomicalEmbedding[viewer]"'
)
_VIEWER = "AnatomicalEmbeddingViewer"  # a package of its own, next to the engine
_LOCAL_HOSTS = ("127.0.0.1", "localhost", "::1")


def add_to(commands: argparse._SubParsersAction) -> None:
    parser = commands.add_parser(
        "view",
        help="scans side by side in the browser: click in one, see the place in all",
        description="Opens a page with linked slice views of every SCAN. Nothing leaves this computer: the page is "
        "served to it alone, by an address with a secret token. Ctrl-C ends it.",
    )
    add = parser.add_argument
    add("scans", nargs="*", type=Path, metavar="SCAN", help=SCANS_HELP)
    add("--cohort", type=Path, metavar="STORE", help="a gallery of a cohort: one place in each of its scans")
    add("--demo", action="store_true", help="show two synthetic patients; no data needed")
    add(
        "--demo-follow-up",
        action="store_true",
        help="show three studies of a synthetic patient, whose lesions in the first are marked and measured",
    )
    add("--port", type=_port, default=0, metavar="N", help="port of the page (default: a free one)")
    add(
        "--host",
        default="127.0.0.1",
        metavar="ADDRESS",
        help="address to listen at (default: this computer alone); any other shows your scans to the network and "
        "needs --token",
    )
    add(
        "--token",
        default="",
        metavar="TEXT",
        help="secret in the page's address, 16 characters or more (default: random)",
    )
    add("--no-browser", action="store_true", help="print the address only")
    add(
        "--model",
        default="auto",
        metavar="NAME|FILE|RUN",
        help="weights by name or file (default: auto), or the folder that `anatemb segment train` wrote: the page then "
        "outlines its structures in the scans",
    )
    add("--device", default="auto", help="auto, cpu, cuda or mps (default: auto)")
    add("--threads", type=at_least(1), metavar="N", help="CPU threads to embed with (default: all cores but one)")
    add("--no-cache", action="store_true", help="neither read nor keep embedding maps on disk")
    complete(parser, run, series=True, json=False, model=False)


def run(options: argparse.Namespace) -> None:
    check(options)
    missing = [name for name in (_VIEWER, "trame_slicer", "vtkmodules") if find_spec(name) is None]
    if missing:
        raise AnatomicalEmbeddingError(f"the viewer needs {', '.join(missing)}, not installed here: {_INSTALL}")
    serve = import_module(f"{_VIEWER}.command").serve
    try:
        serve(options, say)
    except AnatomicalEmbeddingError as error:
        print(f"anatemb: {error}", file=sys.stderr)
        _end(2)
    _end(0)


def _end(status: int) -> NoReturn:
    """End the process without Python's finalization, which aborts where a thread is still in torch's C++.

    Exit handlers, such as the removal of libraries' temporary files, run.
    """
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError):  # its reader has ended
            stream.flush()
    os._exit(status)


def check(options: argparse.Namespace) -> None:
    """Raise AnatomicalEmbeddingError for unusable options, before anything is loaded."""
    if options.host not in _LOCAL_HOSTS and not options.token:
        raise AnatomicalEmbeddingError(
            f"--host {options.host}: the page would be open to the network, unencrypted, with your scans in it; give a "
            "secret of your own with --token (16 characters or more), or leave --host out and use an SSH tunnel."
        )
    if options.token and (len(options.token) < 16 or not options.token.replace("-", "").replace("_", "").isalnum()):
        raise AnatomicalEmbeddingError("--token: use 16 or more letters, digits, - and _.")
    for path in [*options.scans, *([options.cohort] if options.cohort else [])]:
        if not path.exists():
            raise AnatomicalEmbeddingError(f"{path}: no such file or folder; check the path.")
    if not Path(options.model).is_dir() and not weights_file(options.model).is_file():
        raise AnatomicalEmbeddingError(
            f"{options.model}: no such weights, and no folder of `anatemb segment train`; give a file, such a folder, "
            f"or one of: {', '.join(list_weights())}."
        )


def _port(text: str) -> int:
    try:
        port = int(text)
    except ValueError:
        port = -1
    if not 0 <= port < 65536:
        raise argparse.ArgumentTypeError(f"{text!r} is not a port; give a number from 0 (a free one) to 65535")
    return port
