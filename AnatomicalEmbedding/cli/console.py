"""Functions for all commands: checks of inputs, progress on stderr, results on stdout as text or JSON."""

from __future__ import annotations

import argparse
import json
import signal
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from ..errors import AnatomicalEmbeddingError, CancelCallback, PointsError, ProgressCallback
from ..files import aligned

if TYPE_CHECKING:
    import numpy as np

    from ..embedding.inference import Model
    from ..embedding.map import EmbeddingMap
    from ..scan.label_map import LabelMap
    from ..scan.volume import Volume

_LINE_SECONDS = 2.0  # shortest time between two printed lines of progress


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
