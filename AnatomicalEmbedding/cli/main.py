"""Parser and exit codes.

0: success. 1: an audit found errors. 2: error that the user can solve (one line on stderr). 128 + n: signal n.
"""

import argparse
import errno
import os
import re
import signal
import sys
import threading
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import NoReturn

from .. import __version__
from ..errors import AnatomicalEmbeddingError, WeightsError, did_you_mean, no_body_frame
from .console import check_server, download_folder, ending_signals, warn

EXIT_USER_ERROR = 2
EXIT_INTERRUPTED = 130
_DISK_FULL = (errno.ENOSPC, getattr(errno, "EDQUOT", errno.ENOSPC))
_COMMANDS = (
    "demo doctor info match landmarks followup register view locate find levels audit crop segment cohort "
    "structures prepare train weights evaluate calibrate dicomweb"
)
_OF_ANY_KIND = "match landmarks info view"  # commands that take weights of the kind "any"


class _Parser(argparse.ArgumentParser):
    """Names the nearest option or command for a misspelt one, in place of a list of all."""

    def parse_known_args(self, args=None, namespace=None):  # type: ignore[no-untyped-def,override]
        """Parse as argparse does, but refuse an option that no option of this parser begins with."""
        words = args or ()
        if self._subparsers is not None:  # some of the words are options of a command
            words = ()
        options = self._option_string_actions
        for word in words:
            option = word.partition("=")[0]
            is_known = any(name.startswith(option) for name in options)
            if option.startswith("--") and not is_known:
                self._suggest(option, "option", options)
        return super().parse_known_args(args, namespace)

    def error(self, message: str) -> NoReturn:
        """End the program with the message of argparse or, for an unknown command or step, with a suggestion."""
        wrong = re.match(
            r"argument (COMMAND|STEP): invalid choice: '(.*)' \(choose from (.*)\)",
            message,
            re.DOTALL,
        )
        if wrong is not None:
            self._suggest(wrong[2], wrong[1].lower(), re.findall(r"[\w-]+", wrong[3]))
        super().error(message)

    def _suggest(self, wrong: str, kind: str, names: Iterable[str]) -> NoReturn:
        text = f"anatemb: {wrong}: no such {kind}{did_you_mean(wrong, names)}; '{self.prog} --help' lists all.\n"
        self.exit(EXIT_USER_ERROR, text)


def build_parser() -> argparse.ArgumentParser:
    """Make the parser of the whole command line. The module of each command adds its own parser."""
    parser = _Parser(
        prog="anatemb",
        description="Find the same anatomical points in other CT scans. All coordinates are RAS mm.",
        epilog="'anatemb COMMAND --help' shows the options of a command.",
    )
    parser.add_argument("--version", action="version", version=f"anatemb {__version__}")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    for command in _COMMANDS.split():
        import_module(f".{command}", __package__).add_to(commands)
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command. Returns the exit code."""
    parser = build_parser()
    words = _with_points_joined(sys.argv[1:] if arguments is None else arguments)
    options = parser.parse_args(words)
    run = options.run

    def prepare_and_run(_: argparse.Namespace) -> int | None:
        """Download and check inputs, then run the command: inside of `run_command`, which reports their errors."""
        prepared = options
        if any(word.startswith("dicomweb:") for word in words):
            from ..dicom.dicomweb import download_input

            folder = download_folder()
            prepared = parser.parse_args([download_input(word, folder, warn) for word in words])
        check_server(prepared)
        _check_kind(run.__module__.rpartition(".")[2], prepared)
        return run(prepared)

    options.run = prepare_and_run
    return run_command(options)


def _check_kind(command: str, options: argparse.Namespace) -> None:
    """Raise WeightsError if the user gave weights of the kind "any" to a command that needs the body of a patient."""
    model = getattr(options, "model", None) or ""
    if command in _OF_ANY_KIND.split() or not Path(model).is_file():
        return
    from ..embedding.frames.frame import Frame
    from ..embedding.models.registry import find_weights

    weights = find_weights(model)
    if isinstance(weights.network, Frame):
        raise WeightsError(no_body_frame(weights.name))


def run_command(options: argparse.Namespace) -> int:
    """Run a parsed command line. Prints an AnatomicalEmbeddingError as one line on stderr. Returns the exit code."""
    code: int | None = 0
    try:
        with _cleaning_up_when_terminated():
            code = options.run(options)
    except AnatomicalEmbeddingError as error:
        warn(str(error))
        return EXIT_USER_ERROR
    except BrokenPipeError:  # the program that reads stdout, such as `head`, has ended
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except OSError as error:
        if error.errno in _DISK_FULL:
            where = f"{error.filename}: " if error.filename else ""
            warn(f"{where}the disk is full; delete files, then run the same command again.")
            return EXIT_USER_ERROR
        if error.filename is None:
            raise
        reason = (error.strerror or "cannot be used").lower()
        warn(f"{error.filename}: {reason}; check the path, its permissions and the disk.")
        return EXIT_USER_ERROR
    except KeyboardInterrupt:
        warn("interrupted; no file was left incomplete.")
        return EXIT_INTERRUPTED
    return code or 0


def terminated(number: int, _frame: object) -> None:
    """Raise SystemExit after a signal, so that unfinished files are deleted and child processes end."""
    raise SystemExit(128 + number)


@contextmanager
def _cleaning_up_when_terminated() -> Iterator[None]:
    """Let `terminated` handle SIGTERM (sent by batch systems) and SIGHUP (a terminal was closed) in the `with` block.

    At the end, restore all old handlers. This includes the handler of SIGINT, because training replaces it.
    """
    # only the main thread may set handlers
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.signal(number, terminated) for number in ending_signals()}
    before[signal.SIGINT] = signal.getsignal(signal.SIGINT)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _with_points_joined(arguments: Sequence[str]) -> list[str]:
    """Return the arguments with each `--point X,Y,Z` right after the command, joined to one word: `--point=X,Y,Z`. The
    option `--box` is moved and joined in the same way.

    Without this change, argparse would read a negative X as an option, and a --point between files would end the list
    of files. The command may be two words, such as `cohort find`.
    """
    joined: list[str] = []
    command = 2 if list(arguments[:1]) == ["cohort"] else 1
    for argument in arguments:
        if joined and joined[-1] in ("--point", "--box"):
            joined[-1] += f"={argument}"
        else:
            joined.append(argument)
    points = [word for word in joined[command:] if word.startswith(("--point=", "--box="))]
    rest_of_line = [word for word in joined[command:] if word not in points]
    return [*joined[:command], *points, *rest_of_line]
