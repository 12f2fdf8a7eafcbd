"""anatemb view: show scans side by side in a browser. After a click in one scan, all scans show the same place."""

import argparse
import atexit
import os
import sys
from contextlib import suppress
from importlib import import_module
from importlib.util import find_spec
from typing import NoReturn

from ..errors import AnatomicalEmbeddingError
from ..resources import missing_weights, weights_file
from .arguments import SCANS_HELP, WEIGHTS_HELP, add_film_width, add_path, complete, number
from .console import say

_INSTALL = (
    "in a checkout of the repository, run `make view`; otherwise, make a new Python environment and run there: "
    'pip install "AnatomicalEmbedding[viewer]"'
)
_VIEWER = "AnatomicalEmbeddingViewer"  # a separate Python package in the same distribution
_LOCAL_HOSTS = ("127.0.0.1", "localhost", "::1")
_port = number(
    int, lambda n: 0 <= n < 65536, "a port; give a number from 1 to 65535, or 0 for a free port"
)


def add_to(commands: argparse._SubParsersAction) -> None:
    parser = commands.add_parser(
        "view",
        help="show scans next to each other in a browser; after a click in one scan, all scans show the same place",
        description="Opens a page in the browser with slice views of every SCAN. A SCAN is a CT or a chest film. You "
        "can place points on the page, and find boxes of structures and places by words. Outlines and lesion follow-up "
        "are not on the page; use 3D Slicer, `anatemb segment` or `anatemb followup`. Only this computer can open the "
        "page, with an address that contains a secret token. Press Ctrl-C to end the viewer.",
    )
    add = parser.add_argument
    add_path(parser, "scans", "SCAN", SCANS_HELP, nargs="*")
    add_film_width(parser)
    add_path(
        parser,
        "--cohort",
        "STORE",
        "open the gallery of this cohort: the same place in all its scans",
    )
    add_path(
        parser,
        "--landmarks",
        "SET",
        "also offer this landmark set, a file NAME.landmarks.json (`anatemb landmarks make`)",
    )
    add(
        "--demo",
        action="store_true",
        help="show two synthetic patients; you need no scans of your own",
    )
    add(
        "--port", type=_port, default=0, metavar="N", help="port of the page (default: a free port)"
    )
    host = (
        "network address of the page (default: only this computer can open the page); with another address, other "
        "computers can see your scans, and you must give a --token"
    )
    add("--host", default="127.0.0.1", metavar="ADDRESS", help=host)
    token = "secret text in the page's address, at least 16 characters (default: a random text)"
    add("--token", default="", metavar="TEXT", help=token)
    add(
        "--no-browser",
        action="store_true",
        help="print the address of the page, but do not open a browser",
    )
    add("--model", default="auto", metavar="NAME|FILE", help=WEIGHTS_HELP)
    add("--device", default="auto", help="auto, cpu, cuda, cuda:1 or mps (default: auto)")
    add("--no-cache", action="store_true", help="neither read nor write embedding maps on disk")
    complete(parser, run, "series", json=False, model=False)


def run(options: argparse.Namespace) -> None:
    check(options)
    missing = [name for name in (_VIEWER, "trame_slicer", "vtkmodules") if find_spec(name) is None]
    if missing:
        raise AnatomicalEmbeddingError(
            f"the viewer needs {', '.join(missing)}, which is not installed; {_INSTALL}"
        )
    serve = import_module(f"{_VIEWER}.app").serve
    try:
        serve(options, say)
    except AnatomicalEmbeddingError as error:
        # not raised, because the process must end with `_end` in any case
        print(f"anatemb: {error}", file=sys.stderr)
        _end(2)
    _end(0)


def _end(status: int) -> NoReturn:
    """Run the exit handlers, which delete temporary files. Then end the process with the exit status `status`.

    If the process ended in the usual way while a thread still runs C++ code of torch, Python would abort the process.
    """
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError):  # the program that reads this stream has ended
            stream.flush()
    os._exit(status)


def check(options: argparse.Namespace) -> None:
    """Raise AnatomicalEmbeddingError if an option cannot be used. Call it before weights and scans are loaded."""
    if options.host not in _LOCAL_HOSTS and not options.token:
        raise AnatomicalEmbeddingError(
            f"--host {options.host}: other computers could open the page and see your scans, and the connection is not "
            "encrypted; add --token with a secret text of at least 16 characters, or use an SSH tunnel without --host."
        )
    letters = options.token.replace("-", "").replace("_", "")
    if options.token and (len(options.token) < 16 or not letters.isalnum()):
        raise AnatomicalEmbeddingError(
            "--token: the text is too short or contains a forbidden character; use at least 16 letters, digits, - or _."
        )
    for path in (*options.scans, options.cohort, options.landmarks):
        if path is not None and not path.exists():
            raise AnatomicalEmbeddingError(f"{path}: no such file or folder; check the path.")
    if not weights_file(options.model).is_file():
        raise AnatomicalEmbeddingError(missing_weights(options.model))
