"""anatemb view: show scans next to each other in a browser. A click in one scan shows the same place in the others."""

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
from .console import SCANS_HELP, WEIGHTS_HELP, complete, number, say

_INSTALL = (
    "in a checkout, `make view` sets it up; else, in an environment of its own: "
    'pip install "AnatomicalEmbedding[viewer]"'
)
_VIEWER = "AnatomicalEmbeddingViewer"  # a separate Python package in the same distribution
_LOCAL_HOSTS = ("127.0.0.1", "localhost", "::1")
_port = number(int, lambda n: 0 <= n < 65536, "a port; give a number from 0 (a free one) to 65535")


def add_to(commands: argparse._SubParsersAction) -> None:
    parser = commands.add_parser(
        "view",
        help="scans next to each other in a browser: click in one scan, see the same place in all others",
        description="Opens a page with linked slice views of every SCAN: points, boxes, places by words. Outlines and "
        "lesion follow-up are in 3D Slicer, `anatemb segment` and `anatemb followup`. Nothing leaves this computer: "
        "the page is served to it alone, by an address with a secret token. Ctrl-C ends it.",
    )
    add = parser.add_argument
    add("scans", nargs="*", type=Path, metavar="SCAN", help=SCANS_HELP)
    add("--cohort", type=Path, metavar="STORE", help="open the gallery of a cohort: one place in each of its scans")
    add("--demo", action="store_true", help="show two synthetic patients; no data needed")
    add("--port", type=_port, default=0, metavar="N", help="port of the page (default: a free one)")
    host = "address to listen at (default: this computer alone); any other shows your scans to the network: set --token"
    add("--host", default="127.0.0.1", metavar="ADDRESS", help=host)
    token = "secret in the page's address, 16 characters or more (default: random)"
    add("--token", default="", metavar="TEXT", help=token)
    add("--no-browser", action="store_true", help="print the address only")
    add("--model", default="auto", metavar="NAME|FILE", help=WEIGHTS_HELP)
    add("--device", default="auto", help="auto, cpu, cuda, cuda:1 or mps (default: auto)")
    add("--no-cache", action="store_true", help="neither read nor write embedding maps on disk")
    complete(parser, run, series=True, json=False, model=False)


def run(options: argparse.Namespace) -> None:
    check(options)
    missing = [name for name in (_VIEWER, "trame_slicer", "vtkmodules") if find_spec(name) is None]
    if missing:
        raise AnatomicalEmbeddingError(f"the viewer needs {', '.join(missing)}, not installed here: {_INSTALL}")
    serve = import_module(f"{_VIEWER}.app").serve
    try:
        serve(options, say)
    except AnatomicalEmbeddingError as error:
        print(f"anatemb: {error}", file=sys.stderr)
        _end(2)
    _end(0)


def _end(status: int) -> NoReturn:
    """Run the exit handlers, which delete temporary files, and end the process without Python's finalization.

    Python's finalization would abort the process if a thread still runs C++ code of torch.
    """
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError):  # the program that reads this stream has ended
            stream.flush()
    os._exit(status)


def check(options: argparse.Namespace) -> None:
    """Raise AnatomicalEmbeddingError for unusable options. Called before weights and scans are loaded."""
    if options.host not in _LOCAL_HOSTS and not options.token:
        raise AnatomicalEmbeddingError(
            f"--host {options.host}: the page would be open to the network, unencrypted, with your scans in it; give a "
            "secret of your own with --token (16 characters or more), or leave --host out and use an SSH tunnel."
        )
    if options.token and (len(options.token) < 16 or not options.token.replace("-", "").replace("_", "").isalnum()):
        raise AnatomicalEmbeddingError("--token: use 16 or more letters, digits, - and _.")
    for path in (*options.scans, options.cohort):
        if path is not None and not path.exists():
            raise AnatomicalEmbeddingError(f"{path}: no such file or folder; check the path.")
    if not weights_file(options.model).is_file():
        raise AnatomicalEmbeddingError(
            f"{options.model}: no such weights; give a file, or one of: {', '.join(list_weights())}."
        )
