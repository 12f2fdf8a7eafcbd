"""anatemb bundle: make a folder that installs the program on a computer without network."""

import argparse
import re
from pathlib import Path

from ..installation.packages import DISTRIBUTION, EXTRAS
from . import console

_EXTRAS = [name for name in EXTRAS if name != "viewer"]  # the viewer needs a whole 3D Slicer


def add_to(commands: argparse._SubParsersAction) -> None:
    parser = commands.add_parser(
        "bundle",
        help="make a folder that installs the program on a computer without network",
        description="Downloads the program's packages with pip into the folder DIR, and adds the program itself, the "
        "weights that its wheel does not contain, and the SHA-256 of all files. Copy DIR to a computer with the same "
        "operating system and processor. pip installs the program there without network. 3D Slicer's section Set-up "
        "accepts the same folder. This command uses the network.",
    )
    add = parser.add_argument
    add("folder", type=Path, metavar="DIR", help="folder to write")
    python = "version of the Python on the other computer, such as 3.12 (default: the version of this Python)"
    add("--python", type=_version, metavar="VERSION", help=python)
    console.complete(parser, run, model=False)


def _version(text: str) -> str:
    if not re.fullmatch(r"\d+\.\d+(\.\d+)?", text):
        raise argparse.ArgumentTypeError(f"{text!r} is not a version of Python, such as 3.12")
    return text


def run(options: argparse.Namespace) -> None:
    from ..installation.bundle import HASHES, make_bundle

    console.make_folder(options.folder)
    written = make_bundle(options.folder, _EXTRAS, options.python or "")
    size_mb = round(sum(path.stat().st_size for path in written) / 10**6)
    package = f"{DISTRIBUTION}[{','.join(_EXTRAS)}]"
    lines = [f"sha256sum --check {HASHES}", f'pip install --no-index --find-links . "{package}"']
    if options.json:
        console.print_json(console.as_files(written) | {"size_mb": size_mb, "lines": lines})
        return
    console.say(
        f"{options.folder}: {len(written)} files, {size_mb} MB. On the other computer, type in this folder:"
    )
    for line in lines:
        console.say(f"  {line}")
