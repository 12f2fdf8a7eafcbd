"""Run the scenarios in a real 3D Slicer. Each scenario has its own process, settings and folders:

    python Testing/in_slicer/run.py path/to/Slicer                # all
    python Testing/in_slicer/run.py path/to/Slicer tutorial align # some
    python Testing/in_slicer/run.py path/to/Slicer --pictures     # make the pictures of README and docs

The script needs only Python 3.11. Without a path to 3D Slicer, all scenarios are skipped with a message. On Linux
without a screen, 3D Slicer runs on a virtual screen of xvfb-run.
"""

from __future__ import annotations

import argparse
import ast
import json
import shutil
import subprocess
import sys
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from slicer_process import (
    LIMIT_SECONDS,
    ROOT,
    Place,
    environment_of,
    forget_settings,
    has_screen,
    run_limited,
    slicer_command,
)

HERE = Path(__file__).resolve().parent
SCENARIOS = HERE / "scenarios"
_PICTURES_LIMIT_SECONDS = 3600.0
_NO_SLICER = (
    "The scenarios were skipped: name a Slicer, as in make test-slicer SLICER=path/to/Slicer."
)
PASSED, FAILED, SKIPPED = "passed", "failed", "skipped"


@dataclass(frozen=True)
class Scenario:
    """A file of scenarios/. runs: its functions, each for a Slicer of its own. from_package: the extension is that of
    the package, not this checkout's modules.
    """

    path: Path
    runs: tuple[str, ...]
    from_package: bool = False

    @property
    def name(self) -> str:
        return self.path.stem

    @classmethod
    def read(cls, path: Path) -> Scenario:
        """Of a file, which is not imported: it needs Slicer."""
        body = ast.parse(path.read_text(encoding="utf-8")).body
        runs = tuple(
            n.name for n in body if isinstance(n, ast.FunctionDef) and n.name.startswith("run")
        )
        set_true = [
            n.targets[0].id
            for n in body
            if isinstance(n, ast.Assign) and ast.unparse(n.value) == "True"
        ]
        return cls(path, runs, "FROM_PACKAGE" in set_true)


@dataclass(frozen=True)
class Result:
    """What came of a scenario: PASSED, FAILED or SKIPPED, and why."""

    name: str
    outcome: str
    reason: str
    seconds: float
    figures: dict


def run_scenario(scenario: Scenario, place: Place) -> Result:
    """All runs of a scenario, up to the first that does not pass."""
    folder = place.output / scenario.name
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    started = time.monotonic()
    outcome = PASSED
    reason = ""
    figures = {}
    if scenario.from_package and place.package is None:
        return Result(
            scenario.name, SKIPPED, "there is no package; make test-slicer makes one.", 0.0, {}
        )
    forget_settings(place.slicer)
    for function in scenario.runs:
        outcome, reason, found = _run_once(scenario, function, folder, place)
        figures |= found
        if outcome != PASSED:
            break
    return Result(scenario.name, outcome, reason, time.monotonic() - started, figures)


def _run_once(
    scenario: Scenario, function: str, folder: Path, place: Place
) -> tuple[str, str, dict]:
    words = ["--python-script", HERE / "start.py", function, scenario.path, folder]
    command = slicer_command(place.slicer, not scenario.from_package, *words)
    code = run_limited(
        command, environment_of(folder, place), folder / f"{function}.log", place.limit
    )
    path = folder / f"{function}.json"
    if code is None:
        return FAILED, f"{function}: ran past {place.limit:g} s and was ended.", {}
    if not path.is_file():
        return (
            FAILED,
            f"{function}: Slicer ended with code {code} before the scenario did; see {function}.log.",
            {},
        )
    found = json.loads(path.read_text(encoding="utf-8"))
    if found["outcome"] == PASSED and code != 0:
        return (
            FAILED,
            f"{function}: Slicer ended with code {code} after the scenario had passed.",
            found["figures"],
        )
    return found["outcome"], found["reason"], found["figures"]


def install_packages(slicer: Path) -> int:
    """Install what the engine and training need into Slicer's Python; returns pip's exit code."""
    found = [
        *slicer.parent.glob("bin/PythonSlicer*"),
        *slicer.parent.parent.glob("bin/PythonSlicer*"),
    ]
    if not found:
        print(f"{slicer}: has no PythonSlicer next to it.", file=sys.stderr)
        return 2
    index = ["--extra-index-url", "https://download.pytorch.org/whl/cpu"]
    wanted = ["torch>=2.2", "safetensors>=0.4"]
    return subprocess.run(
        [str(found[0]), "-m", "pip", "install", *index, *wanted], check=False
    ).returncode


def summary(results: list[Result]) -> str:
    """A line for each scenario, reasons, and how many passed."""
    lines = [f"{each.outcome:8}{each.name} ({each.seconds:.0f} s)" for each in results]
    for each in results:
        if each.outcome != PASSED:
            lines += ["", f"{each.name} {each.outcome}: {each.reason.strip()}"]
    counted = Counter(each.outcome for each in results)
    shown = [PASSED, FAILED] + ([SKIPPED] if counted[SKIPPED] else [])
    return "\n".join([*lines, "", ", ".join(f"{counted[outcome]} {outcome}" for outcome in shown)])


def main(words: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Run the scenarios in a real Slicer.")
    parser.add_argument("slicer", nargs="?", default="", help="the Slicer program")
    parser.add_argument("names", nargs="*", help="scenarios (default: all)")
    parser.add_argument(
        "-o",
        "--output",
        type=Path,
        default=ROOT / "build" / "in_slicer",
        help="(default: %(default)s)",
    )
    parser.add_argument(
        "--package", type=Path, help="the extension's zip, or the folder of make package"
    )
    parser.add_argument(
        "--limit", type=float, default=LIMIT_SECONDS, help="seconds a Slicer may take"
    )
    parser.add_argument(
        "--install", action="store_true", help="first install PyTorch into this Slicer"
    )
    parser.add_argument(
        "--pictures", action="store_true", help="take the pictures of README and docs instead"
    )
    asked = parser.parse_args(words)
    if not asked.slicer:
        print(_NO_SLICER)
        return 0
    slicer = Path(asked.slicer).expanduser().resolve()
    if not slicer.is_file():
        print(f"{slicer}: there is no such program.", file=sys.stderr)
        return 2
    if not has_screen() and shutil.which("xvfb-run") is None:
        print("There is no screen, and no xvfb-run to make one: install xvfb.", file=sys.stderr)
        return 2
    if asked.install and install_packages(slicer):
        return 2
    place = Place(slicer, asked.output.resolve(), _newest(asked.package), asked.limit)
    if asked.pictures:
        return pictures(place)
    return test(place, asked.names)


def test(place: Place, names: list[str]) -> int:
    """Run scenarios; 0 where none failed."""
    there = {path.stem: path for path in sorted(SCENARIOS.glob("*.py"))}
    unknown = [name for name in names if name not in there]
    if unknown:
        print(f"No scenario is called {unknown[0]}; there are {', '.join(there)}.", file=sys.stderr)
        return 2
    results = []
    for name in names or there:
        print(f"{name}...", flush=True)
        results.append(run_scenario(Scenario.read(there[name]), place))
    print(summary(results))
    print(f"Pictures and logs: {place.output}")
    return int(any(each.outcome == FAILED for each in results))


def pictures(place: Place) -> int:
    """Take the pictures of README and docs; 0 where all could be taken."""
    place = Place(
        place.slicer, place.output, place.package, max(place.limit, _PICTURES_LIMIT_SECONDS)
    )
    result = run_scenario(Scenario.read(HERE / "pictures.py"), place)
    for path in (place.output / "pictures").glob("[A-Z]*.png"):
        shutil.copy(path, ROOT / "Resources" / "Screenshots")
    print(summary([result]))
    return int(result.outcome == FAILED)


def _newest(package: Path | None) -> Path | None:
    """A zip file, or the newest of a folder."""
    if package is None or package.is_file():
        return package
    return max(package.glob("*.zip"), key=lambda path: path.stat().st_mtime, default=None)


if __name__ == "__main__":
    sys.exit(main())
