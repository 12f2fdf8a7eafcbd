"""Measure how much the modules add to the start time of 3D Slicer, and write the table of all figures."""

import platform
import statistics
import time
from datetime import UTC, datetime

from slicer_process import Place, environment_of, run_limited, slicer_command

_STARTS = 5


def startup_figures(place: Place) -> dict[str, str]:
    """Seconds from the start of Slicer to its end right after, with and without the modules, turn by turn."""
    folder = place.output / "startup"
    folder.mkdir(parents=True, exist_ok=True)
    taken: dict[bool, list[float]] = {False: [], True: []}
    for _ in range(_STARTS):
        for with_modules, times in taken.items():
            started = time.monotonic()
            words = slicer_command(place.slicer, with_modules, "--exit-after-startup")
            code = run_limited(
                words, environment_of(folder, place), folder / "start.log", place.limit
            )
            if code != 0:
                return {"start of Slicer": f"not measured: it ended with code {code}"}
            times.append(time.monotonic() - started)
    without, with_modules = (statistics.median(times) for times in taken.values())
    return {
        "start of Slicer without the modules": f"{without:.2f} s",
        "time that the modules add": f"{1000 * (with_modules - without):.0f} ms (median of {_STARTS} starts each)",
    }


def as_markdown(figures: dict[str, str]) -> str:
    """The figures as a table, with machine and date."""
    rows = [f"| {what} | {value} |" for what, value in figures.items()]
    machine = f"{platform.system()} {platform.machine()}, Python {platform.python_version()}"
    source = f"make bench-slicer, {machine}, {datetime.now(UTC):%Y-%m-%d}"
    return "\n".join(["| what | measured |", "|---|---|", *rows, "", source, ""])
