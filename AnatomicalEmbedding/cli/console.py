"""What the commands share: the model options, progress on stderr, results on stdout (text or JSON)."""

from __future__ import annotations

import argparse
import csv
import json
import math
import signal
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from ..errors import AnatomicalEmbeddingError, WeightsError
from ..files import atomic_path

if TYPE_CHECKING:
    from ..embedding.inference import Model, ProgressCallback
    from ..scan.volume import Volume


def add_model_options(parser: argparse.ArgumentParser) -> None:
    """--model, --device, --threads, --no-cache, --memory-mb."""
    group = parser.add_argument_group("model")
    group.add_argument("--model", default="auto", metavar="NAME|FILE", help="weights by name or file (default: auto)")
    group.add_argument("--device", default="auto", help="auto, cpu, cuda, cuda:1 or mps (default: auto)")
    group.add_argument("--threads", type=at_least(1), metavar="N", help="CPU threads (default: all cores)")
    group.add_argument(
        "--memory-mb", type=megabytes, metavar="MB", help="most memory for one embedding (default: 60 %% of free)"
    )
    group.add_argument("--no-cache", action="store_true", help="neither read nor keep embedding maps on disk")


def add_json_option(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="print the result as JSON on stdout, for other programs")


def add_series_option(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--series",
        action="append",
        default=[],
        metavar="UID",
        help="series to read of a DICOM folder that holds several CTs; may be repeated, one for each such folder",
    )


def read_scan(path: str | Path, series: Sequence[str]) -> Volume:
    """Read a scan; of a DICOM folder the one of `series` that it holds. What the reader had to do is said."""
    from ..scan.dicom import list_series
    from ..scan.volume import Volume

    path = Path(path)
    if series and path.is_dir():
        held = {found.uid for found in list_series(path)}
        volume = Volume.read(path, next((uid for uid in series if uid in held), None))
    else:
        volume = Volume.read(path)
    for note in volume.notes:
        print(f"anatemb: {path}: {note}.", file=sys.stderr)
    return volume


def ending_signals() -> list[signal.Signals]:
    """SIGTERM, and SIGHUP where there is one that nohup does not keep away."""
    hang_up = getattr(signal, "SIGHUP", None)
    kept_away = hang_up is None or signal.getsignal(hang_up) == signal.SIG_IGN
    return [signal.SIGTERM] if kept_away else [signal.SIGTERM, hang_up]


def check_folder(path: Path) -> None:
    """Raise AnatomicalEmbeddingError where there can be no folder for results. Makes none: the work may be refused."""
    if path.exists() and not path.is_dir():
        raise AnatomicalEmbeddingError(f"{path}: is a file; choose another output folder.")
    nearest = next(each for each in (path.absolute(), *path.absolute().parents) if each.exists())
    if not nearest.is_dir():
        raise AnatomicalEmbeddingError(f"{path}: cannot be made; choose another output folder.")


def make_folder(path: Path) -> None:
    """Make the folder for results before the work begins. Raises AnatomicalEmbeddingError where there can be none."""
    check_folder(path)
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise AnatomicalEmbeddingError(f"{path}: cannot be made; choose another output folder.") from error


def check_kept(given: Iterable[Path | None], results: Iterable[Path]) -> None:
    """Raise AnatomicalEmbeddingError where a result would replace a file that was given."""
    there = [path for path in results if path.exists()]
    for path in given:
        if path is not None and any(path.exists() and path.samefile(result) for result in there):
            raise AnatomicalEmbeddingError(f"{path}: would be overwritten by the results; give another output folder.")


def open_model(options: argparse.Namespace, name: str | None = None) -> Model:
    """The model that the options ask for."""
    import torch  # imported late: `anatemb --help` must not wait for it

    from ..embedding.cache import MapCache, default_folder
    from ..embedding.inference import load_model

    if options.threads is not None:
        torch.set_num_threads(options.threads)
    cache = None if options.no_cache else MapCache(default_folder())
    model = load_model(_published(name or options.model), options.device, cache)
    if options.memory_mb is not None:
        model.budget_bytes = options.memory_mb
    return model


def at_least(least: int) -> Callable[[str], int]:
    """The kind of an option that is a whole number, no less than this."""

    def whole(text: str) -> int:
        try:
            number = int(text)
        except ValueError:
            number = least - 1
        if number < least:
            raise argparse.ArgumentTypeError(f"{text!r} is not a whole number of {least} or more")
        return number

    return whole


def not_negative(text: str) -> float:
    """The kind of an option that is a number of 0 or more."""
    return _amount(text, "a number of 0 or more")


def megabytes(text: str) -> int:
    """Bytes of an option given in MB."""
    return int(_amount(text, "a number of megabytes") * 2**20)


def _amount(text: str, what: str) -> float:
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not 0 <= number < math.inf:
        raise argparse.ArgumentTypeError(f"{text!r} is not {what}")
    return number


def _published(name: str) -> str:
    """The file of the published APE where that name is asked for; other names as they are."""
    from ..embedding.cache import default_folder
    from ..embedding.models.registry import PUBLISHED_FILE, PUBLISHED_MODEL

    if name != PUBLISHED_MODEL:
        return name
    path = default_folder() / PUBLISHED_FILE
    if not path.exists():
        raise WeightsError(
            f"{name}: not here yet; fetch it once with `anatemb cache --download-published` (125 MB), or give its file."
        )
    return str(path)


@contextmanager
def progress_bar(label: str, quiet: bool = False) -> Iterator[ProgressCallback]:
    """A progress callback (share done, what) that draws a bar on stderr when a person is watching."""
    if quiet or not sys.stderr.isatty():
        yield lambda share, what: None
        return
    try:
        from tqdm import tqdm
    except ImportError:
        yield lambda share, what: None
        return
    with tqdm(total=100, desc=label, leave=False, bar_format="{desc}: {percentage:3.0f}% |{bar}| {postfix}") as bar:

        def show(share: float, what: str) -> None:
            bar.set_postfix_str(what, refresh=False)
            bar.update(100 * share - bar.n)

        yield show


def say(text: str = "", quiet: bool = False) -> None:
    """A line for the person at the terminal; silent with --json."""
    if not quiet:
        print(text, flush=True)


def print_json(values: object) -> None:
    print(json.dumps(values, indent=1, allow_nan=False))


def print_table(header: Sequence[str], rows: Sequence[Sequence[str]], quiet: bool = False) -> None:
    """Aligned columns: the first to the left, the others to the right."""
    table = [header, *rows]
    widths = [max(len(row[column]) for row in table) for column in range(len(header))]
    for row in table:
        cells = [
            cell.ljust(width) if n == 0 else cell.rjust(width)
            for n, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        say("  ".join(cells).rstrip(), quiet)


def write_table(path: Path, header: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    """Write a .csv file, complete or not at all."""
    with atomic_path(path) as temporary, temporary.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([header, *rows])


def scan_name(path: Path) -> str:
    """Short name of a scan file or DICOM folder: its name without the suffix of an image file."""
    from ..scan.image_files import display_name

    return display_name(path) if path.name not in ("", "..") else path.resolve().name


def unique_names(paths: Sequence[Path]) -> list[str]:
    """`scan_name` of each path, with _2, _3 ... where several would name one file, on whatever disk."""
    names: list[str] = []
    taken: set[str] = set()
    for path in paths:
        name, number = scan_name(path), 1
        while name.casefold() in taken:
            number += 1
            name = f"{scan_name(path)}_{number}"
        names.append(name)
        taken.add(name.casefold())
    return names
