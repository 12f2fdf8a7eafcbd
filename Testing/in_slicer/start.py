"""Run one scenario inside 3D Slicer. `run.py` calls: Slicer --python-script start.py FUNCTION FILE FOLDER. The file is
not the first argument, because Slicer would run a first argument that ends in .py instead of this script.

The script writes FOLDER/FUNCTION.json: outcome ("passed", "failed" or "skipped"), reason and figures. Pictures are
written into the same folder.
"""

from __future__ import annotations

import importlib.util
import json
import sys
import threading
import traceback
from pathlib import Path

import qt
import slicer

_HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(_HERE)]

from driver import leaks  # noqa: E402
from driver.log import complaints  # noqa: E402
from driver.user import MODULES, User, use_qt_dialogs  # noqa: E402
from driver.waiting import pause, wait  # noqa: E402

_AFTER_START_MS = 1500  # modules have made known their layout and sample data by then
_WINDOW = (1280, 800)
_IDLE_SECONDS = 60.0


class CannotRunError(Exception):
    """The scenario cannot run here; the message says why."""


class Run:
    """One function of a scenario, in this process."""

    def __init__(self, path: Path, function: str, folder: Path) -> None:
        self.folder = folder
        self.function = function
        spec = importlib.util.spec_from_file_location(f"in_slicer_{path.stem}", path)
        self.scenario = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(self.scenario)
        self.user = User(folder, folder)
        self.user.figures = {}

    def go(self) -> None:
        """Run it, write down what came of it, and end Slicer."""
        outcome = "passed"
        reason = ""
        try:
            self._run()
        except CannotRunError as error:
            outcome = "skipped"
            reason = str(error)
        except BaseException:  # whatever it was, it belongs into the result
            outcome = "failed"
            reason = traceback.format_exc()
        self.user.dialogs.stop()
        self.user.picture(f"{self.function}-{outcome}")
        found = self._complaints()
        if outcome == "passed" and found:
            outcome = "failed"
            reason = "\n\n".join(found)
        result = {"outcome": outcome, "reason": reason, "figures": self.user.figures}
        (self.folder / f"{self.function}.json").write_text(
            json.dumps(result, indent=1), encoding="utf-8"
        )
        slicer.util.exit(0)

    def _run(self) -> None:
        use_qt_dialogs()
        slicer.util.mainWindow().resize(*_WINDOW)
        modules = [name for name in MODULES if hasattr(slicer.modules, name.lower())]
        if modules:
            self._check_packages()
        for name in modules:
            self.user.open(name)
        before = self._at_rest(modules)
        getattr(self.scenario, self.function)(self.user)
        self.user.picture(f"{self.function}-end")
        if not getattr(self.scenario, "ENDS_AT_WORK", False):
            reloaded = getattr(self.scenario, "RELOADS", False)
            grown = leaks.growth(before, self._at_rest(modules), reloaded)
            assert not grown, "left behind: " + "; ".join(grown)

    def _check_packages(self) -> None:
        from AnatomicalEmbeddingLib.shared.maps.Engine import Engine

        missing = Engine.missingPackages()
        if missing and getattr(self.scenario, "NEEDS_PACKAGES", True):
            raise CannotRunError(
                f"this Slicer lacks {', '.join(missing)}; run.py --install adds it."
            )

    def _at_rest(self, modules: list[str]):
        """Counts in an empty scene, with another module open, once nothing is under way."""
        slicer.util.selectModule("Data")
        slicer.mrmlScene.Clear()
        if modules:
            from AnatomicalEmbeddingLib.shared.panels.EnginePanel import sharedSession

            wait(
                lambda: not sharedSession().store.busy,
                _IDLE_SECONDS,
                "the work that was under way ends",
            )
            wait(
                lambda: not _helpers(),
                _IDLE_SECONDS,
                "a cancelled job ends the threads that helped it",
            )
        pause(1.5)  # a panel that nobody looks at is asked once a second
        return leaks.measure()

    def _complaints(self) -> list[str]:
        path = Path(slicer.app.errorLogModel().filePath)
        text = path.read_text(encoding="utf-8", errors="replace") if path.is_file() else ""
        dialogs = [
            f"a dialog that nobody expected: {each}" for each in self.user.dialogs.unexpected
        ]
        return dialogs + complaints(text)


def _helpers() -> list[str]:
    """Names of the threads among which a job of the engine divides its work."""
    return [
        each.name for each in threading.enumerate() if each.name.startswith("ThreadPoolExecutor")
    ]


def main(words: list[str]) -> None:
    function, path, folder = words
    qt.QTimer.singleShot(_AFTER_START_MS, Run(Path(path), function, Path(folder)).go)


if __name__ == "__main__":
    main(sys.argv[1:4])
