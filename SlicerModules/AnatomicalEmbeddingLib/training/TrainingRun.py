"""The folder of a run: reads the run's settings and progress, and checks if a run can start or continue in it."""

import json
from dataclasses import dataclass, replace
from pathlib import Path

from .TrainingLog import LossCurve
from .TrainingSettings import TrainingSettings, differences

NEW = "new"
FOREIGN = "foreign"
UNFINISHED = "unfinished"
FINISHED = "finished"
_SETTINGS = "run.json"
# files of the trainer
_CHECKPOINT = "checkpoint.pt"
_WEIGHTS = "weights.safetensors"
_PREPARED = "prepared"


@dataclass(frozen=True)
class RunState:
    """State of a run's folder. stage: NEW, FOREIGN (not a folder of this module), UNFINISHED or FINISHED. settings:
    settings of the run's first start; None if the folder has no run. steps: number of finished steps. minutes:
    training time. weights: path of the weights file; None before the run is finished.
    """

    folder: Path
    stage: str = NEW
    settings: TrainingSettings | None = None
    steps: int = 0
    minutes: float = 0.0
    weights: Path | None = None


def inspectRun(folder: str | Path) -> RunState:
    """Return a folder's state. A missing or empty folder, or "", is NEW. A folder with files but no run is FOREIGN."""
    path = Path(folder)
    if not str(folder) or not path.is_dir():
        return RunState(path)
    settings = _read(path / _SETTINGS)
    if settings is None:
        hasFiles = any(not entry.name.startswith(".") for entry in path.iterdir())
        return RunState(path, FOREIGN if hasFiles else NEW)
    checkpoint = path / _CHECKPOINT
    weights = path / _WEIGHTS
    if settings.isOwnKind:
        if weights.is_file():  # written when the run ends; such a run cannot be continued
            return RunState(path, FINISHED, settings, weights=weights)
        return RunState(path, NEW, settings)
    if not checkpoint.is_file():
        # scans are prepared for one recipe only, so a run with prepared scans cannot get other settings
        return RunState(path, UNFINISHED if (path / _PREPARED).is_dir() else NEW, settings)
    curve = LossCurve.read(path)
    # at its end, a run writes the checkpoint, then the weights; if the run continues later, the checkpoint is newer
    if weights.is_file() and weights.stat().st_mtime_ns >= checkpoint.stat().st_mtime_ns:
        return RunState(path, FINISHED, settings, curve.last, curve.minutes, weights)
    return RunState(path, UNFINISHED, settings, curve.last, curve.minutes)


def rememberRun(settings: TrainingSettings) -> None:
    """Write the settings to the run's folder. The folder is created if needed. Raises OSError if writing fails."""
    from AnatomicalEmbedding.files import atomic_path

    with atomic_path(Path(settings.runFolder) / _SETTINGS) as temporary:
        temporary.write_text(
            json.dumps({"version": 1, "settings": settings.toDict()}, indent=1), "utf-8"
        )


def runProblem(settings: TrainingSettings, state: RunState) -> str | None:
    """Return the problem and its remedy if a run with `settings` cannot start or continue; else None."""
    if state.stage == FOREIGN:
        return f"{state.folder}: holds other files; choose a new or empty folder for the run."
    if state.stage == NEW or state.settings is None:
        return None
    if state.settings.isOwnKind:
        return f"{state.folder}: holds a finished run; choose another folder for a new run."
    changed = differences(settings, state.settings)
    if changed:
        return f"{state.folder}: holds a run with other settings ({', '.join(changed)}); choose another folder."
    if state.stage == FINISHED and state.steps >= settings.steps:
        return (
            f"{state.folder}: this run has done all its steps; choose another folder for a new run."
        )
    if state.stage == FINISHED and state.minutes >= settings.minutes:
        return f"{state.folder}: this run has used up its training time; enter more minutes, or choose another folder."
    return None


def _read(path: Path) -> TrainingSettings | None:
    """Return the settings in a run's file; None if the file is missing or damaged."""
    try:
        values = json.loads(path.read_text("utf-8"))["settings"]
        return replace(TrainingSettings.fromDict(values), runFolder=str(path.parent))
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None
