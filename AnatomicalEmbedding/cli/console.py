"""Functions for all commands: options, checks of inputs, progress on stderr, results on stdout as text or JSON."""

from __future__ import annotations

import argparse
import json
import math
import os
import signal
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, TypeVar

from ..errors import AnatomicalEmbeddingError, CancelCallback, PointsError, ProgressCallback
from ..files import aligned
from ..matching import EFFORTS

if TYPE_CHECKING:
    import numpy as np

    from ..embedding.inference import Model
    from ..embedding.map import EmbeddingMap
    from ..scan.label_map import LabelMap
    from ..scan.volume import Volume

_N = TypeVar("_N", int, float)
_LINE_SECONDS = 2.0  # shortest time between two printed lines of progress
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


def read_scan(
    path: str | Path, series: Sequence[str], check: Callable[[Volume], Volume] | None = None
) -> Volume:
    """Read a scan and print its notes on stderr. From a DICOM folder, read the series whose UID is in `series`.

    check: which scans the weights accept, as in `Volume.read`.
    """
    from ..scan.volume import Volume

    return noted(Volume.read(path, chosen_series(path, series), check=check), str(path))


def chosen_series(path: str | Path, series: Sequence[str]) -> str | None:
    """Return the first UID of `series` that the DICOM folder `path` contains. None if it contains none of the UIDs."""
    if not series:
        return None
    stored = series_in(path)
    return next((uid for uid in series if uid in stored), None)


def series_in(path: str | Path) -> set[str]:
    """Return the UIDs of all series in a DICOM folder; an empty set if `path` is a file."""
    from ..scan.dicom import list_series

    return {series.uid for series in list_series(path)} if Path(path).is_dir() else set()


def noted(volume: Volume, path: str) -> Volume:
    """Print the notes of a scan (changes made during reading) on stderr. Returns the scan."""
    for note in volume.notes:
        warn(f"{path}: {note}.")
    return volume


def warn(sentence: str) -> None:
    """Print a line on stderr."""
    print(f"anatemb: {sentence}", file=sys.stderr, flush=True)


def ending_signals() -> list[signal.Signals]:
    """Return the signals that end a program: SIGTERM, and SIGHUP if it exists and nohup does not block it."""
    hang_up = getattr(signal, "SIGHUP", None)
    blocked = hang_up is None or signal.getsignal(hang_up) == signal.SIG_IGN
    return [signal.SIGTERM] if blocked else [signal.SIGTERM, hang_up]


def stop_on_signals() -> CancelCallback:
    """Keep signals from ending the program, to save the run. Returns a function that returns True after a signal."""
    received = []
    try:
        for number in (signal.SIGINT, *ending_signals()):
            signal.signal(number, lambda *_: received.append(True))
    except ValueError:
        # only the main thread may set handlers; elsewhere the application handles signals
        pass
    return lambda: bool(received)


def check_folder(path: Path) -> None:
    """Raise AnatomicalEmbeddingError if results cannot be written into a folder. Does not create the folder."""
    nearest = next(
        folder for folder in (path.absolute(), *path.absolute().parents) if folder.exists()
    )
    if not nearest.is_dir():
        problem = "is a file" if path.exists() else f"{nearest} is a file"
        raise AnatomicalEmbeddingError(f"{path}: {problem}; choose another output folder.")
    try:
        TemporaryDirectory(dir=nearest).cleanup()
    except OSError:
        raise AnatomicalEmbeddingError(
            f"{path}: {nearest} cannot be written; choose another output folder."
        ) from None


def make_folder(path: Path) -> None:
    """Create the folder for results. Raises AnatomicalEmbeddingError if this is not possible."""
    check_folder(path)
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise AnatomicalEmbeddingError(
            f"{path}: cannot be created; choose another output folder."
        ) from error


def refuse_overwriting(inputs: Iterable[Path | None], results: Iterable[Path]) -> None:
    """Raise AnatomicalEmbeddingError if a result would overwrite an input file."""
    overwritten = [path for path in results if path.exists()]
    for path in inputs:
        if path is None or not path.exists():
            continue
        if any(path.samefile(result) for result in overwritten):
            raise AnatomicalEmbeddingError(
                f"{path}: would be overwritten by results; choose another output folder."
            )


def check_report(options: argparse.Namespace) -> None:
    """Raise AnatomicalEmbeddingError if packages for the report are missing. Call this before long work."""
    if not options.no_report:
        from ..reports.page import check_packages

        check_packages()


def check_output(options: argparse.Namespace) -> None:
    """Raise AnatomicalEmbeddingError if the report cannot be made, or results not be written. Call before long work."""
    check_report(options)
    check_folder(options.output)


def check_inside(volume: Volume, path: Path, labels: Sequence[str], points_ras: np.ndarray) -> None:
    """Raise PointsError if a point lies outside a scan; the message names the point.

    Args:
        volume: the scan.
        path: its file or folder, for the message.
        labels: names of the points.
        points_ras: (N, 3) RAS mm.
    """
    inside = volume.contains(points_ras)
    if not inside.all():
        n = inside.tolist().index(False)
        place = ", ".join(f"{x:.1f}" for x in points_ras[n])
        raise PointsError(
            f"{path}: the point {labels[n]!r} at ({place}) RAS mm lies outside this scan; "
            "check that the points belong to this scan and are in RAS, not in LPS."
        )


def use_threads(options: argparse.Namespace) -> None:
    """Compute with the number of CPU threads that the option --threads states."""
    import torch  # imported late: `anatemb --help` must not wait for it

    if options.threads is not None:
        torch.set_num_threads(options.threads)


def open_model(options: argparse.Namespace, name: str | None = None, films: bool = False) -> Model:
    """Load the weights with this name. If `name` is None, load the weights that the user gave with --model.

    Args:
        options: options of the command, with those of `add_computing`.
        name: name or file of the weights.
        films: True if the weights are for films, which decides what "auto" means.
    """
    from ..embedding.cache import MapCache, default_folder
    from ..embedding.inference import load_model
    from ..resources import weights_for

    use_threads(options)
    cache = None if options.no_cache else MapCache(default_folder())
    model = load_model(weights_for(name or options.model, films), options.device, cache)
    if options.memory_bytes is not None:
        model.budget_bytes = options.memory_bytes
    return model


def embed(model: Model, volume: Volume, quiet: bool) -> EmbeddingMap:
    """Embed a scan with a progress bar. If the scan seems to be flipped, print a warning on stderr.

    Args:
        model: the weights.
        volume: the scan.
        quiet: whether no bar is drawn, as with --json.
    """
    with progress_bar(volume.name or "scan", quiet) as progress:
        embedding = model.embed(volume, progress)
    report_faults(volume, embedding)
    return embedding


def report_faults(volume: Volume, embedding: EmbeddingMap) -> None:
    """Print on stderr each fault of a scan's header that is visible in the scan's map, for example a flipped axis."""
    for fault in embedding.faults:
        warn(f"{volume.path or volume.name}: according to the anatomy, {fault}; check the scan.")


def report_overlaps(labels: LabelMap, flat: Path, whole: Path) -> None:
    """Print on stderr which structures are not whole in a label map.

    Args:
        labels: the structures.
        flat: file of the label map.
        whole: the file in which all structures are whole.
    """
    pairs = ", ".join(f"{first} and {second}" for first, second, _ml in labels.overlaps())
    if pairs:
        warn(
            f"{flat}: where structures overlap, it has the smaller one ({pairs}); in {whole} all are whole."
        )


def coordinates(values: np.ndarray | None, count: int = 3) -> list[Any]:
    """Return coordinates, mm, as cells of a table, with two decimals. None gives `count` empty cells."""
    if values is None:
        return [""] * count
    return [round(float(value), 2) for value in values.ravel()]


def cell(value: Any, digits: int) -> Any:
    """Return a value as a cell of a table: a float with `digits` decimals; None as an empty cell."""
    if value is None:
        return ""
    return round(value, digits) if isinstance(value, float) else value


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


@contextmanager
def progress_bar(label: str, quiet: bool = False) -> Iterator[ProgressCallback]:
    """Yield a progress callback (fraction done, name of the step). The callback draws a bar if stderr is a terminal."""
    if quiet or not sys.stderr.isatty() or find_spec("tqdm") is None:
        yield lambda share, step: None
        return
    from tqdm import tqdm

    with tqdm(
        total=100,
        desc=label,
        leave=False,
        bar_format="{desc}: {percentage:3.0f}% |{bar}| {postfix}",
    ) as bar:

        def show(share: float, step: str) -> None:
            bar.set_postfix_str(step, refresh=False)
            bar.update(100 * share - bar.n)

        yield show


@contextmanager
def progress_lines(
    name: str, quiet: bool, finished: int = 0, total: int = 1
) -> Iterator[ProgressCallback]:
    """Yield a progress callback for one scan.

    On a terminal, the callback draws a bar. Otherwise, even with --json, it prints a line every few seconds:
    `anatemb: PERCENT % NAME: STEP`. PERCENT refers to all scans together.

    Args:
        name: name of the scan.
        quiet: whether no bar is drawn.
        finished: number of scans that are done already.
        total: number of all scans.
    """
    last = float("-inf")
    with progress_bar(name, quiet) as bar:

        def show(share: float, step: str) -> None:
            nonlocal last
            bar(share, step)
            if not sys.stderr.isatty() and time.monotonic() >= last + _LINE_SECONDS:
                last = time.monotonic()
                warn(f"{100 * (finished + share) / total:.0f} % {name}: {step}")

        yield show


def say(text: str = "", quiet: bool = False) -> None:
    """Print a line unless `quiet`. Commands are quiet with --json."""
    if not quiet:
        print(text, flush=True)


def download_folder() -> Path:
    """Return the folder for files of DICOMweb servers, in the cache folder. Files stay there until the user deletes
    them, so that an interrupted download continues."""
    from ..embedding.cache import default_folder

    return default_folder() / "dicomweb"


def check_server(options: argparse.Namespace) -> None:
    """With --store, turn on the DICOM results, and raise AnatomicalEmbeddingError if the server does not answer."""
    if getattr(options, "store_url", None):
        from ..dicom.dicomweb import Server

        options.dicom = True
        Server(options.store_url).check()


def store(options: argparse.Namespace, written: Iterable[Path]) -> None:
    """With --store, send the DICOM files of a command's results to the server."""
    files = [path for path in written if path.suffix == ".dcm"]
    if getattr(options, "store_url", None) and files:
        from ..dicom.dicomweb import Server

        Server(options.store_url).store(files)
        say(f"stored {len(files)} files", options.json)


def say_written(paths: Iterable[Path], quiet: bool = False) -> None:
    """Print a line for each file that was written."""
    for path in paths:
        say(f"wrote {path}", quiet)


def print_json(values: object) -> None:
    """Print values as JSON on stdout."""
    print(json.dumps(values, indent=1, allow_nan=False))


def as_files(written: Iterable[Path]) -> dict[str, Any]:
    """Return the paths of the files that were written, as an entry of the results with --json."""
    return {"files": list(map(str, written))}


def print_table(header: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """Print a table. The first column is aligned left, the other columns right."""
    for line in aligned([list(map(str, row)) for row in (header, *rows)]):
        say(line)


def as_records(columns: Sequence[str], rows: Iterable[Sequence[object]]) -> list[dict[str, object]]:
    """Return the rows of a table as dictionaries for JSON; empty cells become None."""
    return [
        {name: None if cell == "" else cell for name, cell in zip(columns, row, strict=True)}
        for row in rows
    ]
