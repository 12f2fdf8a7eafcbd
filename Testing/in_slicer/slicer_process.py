"""Start 3D Slicer with its own folders and settings, and end it after a time limit."""

import contextlib
import os
import signal
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
LIMIT_SECONDS = 900.0
_SCREEN = "-screen 0 1280x800x24"


@dataclass(frozen=True)
class Place:
    """Where scenarios run. slicer: the program. output: of all pictures and logs. package: the extension's zip, or
    None. limit: seconds a process may take.
    """

    slicer: Path
    output: Path
    package: Path | None = None
    limit: float = LIMIT_SECONDS


def slicer_command(slicer: Path, with_modules: bool, *words: object) -> list[str]:
    """The command line of a Slicer with temporary settings, under Xvfb where there is no screen."""
    command = [
        str(slicer),
        "--no-splash",
        "--ignore-slicerrc",
        "--disable-settings",
        "--keep-temporary-settings",
    ]
    if with_modules:
        command += ["--additional-module-paths", str(ROOT / "SlicerModules")]
    command += [str(word) for word in words]
    if not has_screen():
        return ["xvfb-run", "-a", "-s", _SCREEN, *command]
    return command


def has_screen() -> bool:
    """Is there a screen? Windows and macOS always have one for those who are logged in."""
    return sys.platform != "linux" or bool(os.environ.get("DISPLAY"))


def run_limited(
    command: list[str], environment: dict[str, str], log: Path, limit: float
) -> int | None:
    """Exit code of a command whose output goes to a file; None where it took longer and was ended, with all that it
    had started.
    """
    with log.open("w", encoding="utf-8") as file:
        process = subprocess.Popen(
            command,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=file,
            stderr=file,
            start_new_session=True,
        )
        try:
            return process.wait(limit)
        except subprocess.TimeoutExpired:
            _end(process)
            return None


def _end(process: subprocess.Popen) -> None:
    if sys.platform == "win32":
        subprocess.run(
            ["taskkill", "/F", "/T", "/PID", str(process.pid)], capture_output=True, check=False
        )
    else:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def forget_settings(slicer: Path) -> None:
    """Remove the temporary settings that an earlier scenario left; the user's own have other names."""
    homes = [slicer.parent, slicer.parent.parent]
    folders = [home / "slicer.org" for home in homes]
    if "APPDATA" in os.environ:
        folders.append(Path(os.environ["APPDATA"]) / "slicer.org")
    for folder in folders:
        for path in folder.glob("*-tmp.ini"):
            path.unlink()


def environment_of(folder: Path, place: Place) -> dict[str, str]:
    """The user's, but for the folders of settings, caches and temporary files."""
    own = {}
    for name, part in (
        ("TMPDIR", "tmp"),
        ("TMP", "tmp"),
        ("TEMP", "tmp"),
        ("XDG_CACHE_HOME", "cache"),
    ):
        own[name] = folder / part
    if sys.platform != "win32":  # Windows has its folders from the registry
        own |= {"HOME": folder / "home", "XDG_CONFIG_HOME": folder / "home" / ".config"}
    own["ANATEMB_CACHE"] = place.output / "maps"  # a scan is embedded once for all scenarios
    for path in own.values():
        path.mkdir(parents=True, exist_ok=True)
    if place.package is not None:
        own["ANATEMB_PACKAGE"] = place.package.resolve()
    return os.environ | {name: str(value) for name, value in own.items()}
