"""The settings of a training run, the command line made from them, and the check for wrong settings."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from pathlib import Path

# of scans, in the order of the panel: CTs of adults, or scans of any one other kind
KINDS = ("ct", "any")
# Batch normalisation keeps its statistics, because the statistics of a few crops differ from those of complete scans.
# The learning rate is small, because fine-tuning changes the weights only a little.
_FINE_TUNING = ("optimiser.frozen_statistics=true", "optimiser.learning_rate=0.001")
_WORDS = {  # display names of the settings that must stay the same when a run continues
    "kind": "kind of scans",
    "scanFolders": "folders of scans",
    "validationFolder": "validation folder",
    "recipe": "recipe",
    "fineTune": "starting weights",
    "steps": "number of steps",
    "validateEvery": "steps between validations",
    "furtherOptions": "further options",
}


@dataclass(frozen=True)
class TrainingSettings:
    """Settings of one run.

    kind: one of KINDS; "any" uses only the folders of scans and of the run. scanFolders: folders with CTs or with
    prepared scans, or with scans of the kind; subfolders are searched too. validationFolder: folder with
    labelled scans of other patients; "" for no validation. recipe: name or .toml file. fineTune: True to start from the
    shipped weights. minutes: longest training time, summed over all starts. validateEvery: number of steps
    between validations; 0 for no validation. threads: number of CPU threads; 0 for all. furtherOptions: more options of
    `anatemb train`, written as in a terminal.
    """

    kind: str = KINDS[0]
    scanFolders: tuple[str, ...] = ()
    validationFolder: str = ""
    recipe: str = "hybrid"
    fineTune: bool = True
    minutes: int = 60
    steps: int = 1000
    validateEvery: int = 100
    device: str = "auto"
    threads: int = 0
    furtherOptions: str = ""
    runFolder: str = ""

    @property
    def isOwnKind(self) -> bool:
        return self.kind == "any"

    def arguments(self) -> list[str]:
        """Return the arguments of `anatemb`. Raises ValueError if `furtherOptions` has an unclosed quotation mark."""
        words = ["train", *self.scanFolders, "-o", self.runFolder, "--json"]
        if self.isOwnKind:
            return [*words, "--kind", "any"]
        words += ["--recipe", self.recipe]
        words += ["--steps", str(self.steps), "--minutes", str(self.minutes)]
        words += ["--validate-every", str(self.validateEvery), "--device", self.device]
        words += ["--align-with", "auto"]
        if self.validationFolder:
            words += ["--validate", self.validationFolder]
        if self.fineTune:
            words += ["--start-from", "auto"]
            for entry in _FINE_TUNING:
                words += ["--set", entry]
        if self.threads:
            words += ["--threads", str(self.threads)]
        return words + shlex.split(self.furtherOptions)

    def toDict(self) -> dict[str, object]:
        """Return setting -> value, with types that JSON supports."""
        return asdict(self) | {"scanFolders": list(self.scanFolders)}

    @classmethod
    def fromDict(cls, values: Mapping[str, object]) -> TrainingSettings:
        """Make settings from the result of `toDict`. Unknown names and values of a wrong type are ignored."""
        usable = {}
        for setting in fields(cls):
            value = values.get(setting.name)
            if isinstance(value, list):
                value = tuple(map(str, value))
            if type(value) is type(setting.default):
                usable[setting.name] = value
        return cls(**usable)


def settingsProblem(settings: TrainingSettings) -> str | None:
    """Return the problem and its remedy for the first setting that prevents a start; None if there is no problem."""
    validation = "" if settings.isOwnKind else settings.validationFolder
    run = settings.runFolder
    scans = [Path(folder).resolve() for folder in settings.scanFolders]
    if not scans:
        return "Add a folder of scans to train on."
    for folder in settings.scanFolders:
        if not Path(folder).is_dir():
            return f"{folder}: no such folder; remove it from the list, or connect its disk."
    try:
        shlex.split(settings.furtherOptions)
    except ValueError:
        return f"Further options {settings.furtherOptions!r}: a quotation mark is not closed; close or remove it."
    if validation and not Path(validation).is_dir():
        return f"{validation}: no such folder; choose the folder of labelled scans, or leave the field empty."
    if validation and Path(validation).resolve() in scans:
        return f"{validation}: is also a folder of training scans; choose a folder with other patients."
    if not run:
        return "Choose a folder for the run."
    if not Path(run).is_absolute():
        return f"{run}: is a relative path; give the full path of the run's folder."
    if any(Path(run).resolve().is_relative_to(folder) for folder in scans):
        return f"{run}: lies in a folder of training scans; choose a folder outside of it."
    return None


def differences(settings: TrainingSettings, begun: TrainingSettings) -> list[str]:
    """Return the names of settings that must not change in a run, but differ from its first settings, `begun`."""
    old = begun.toDict()
    new = settings.toDict()
    return [word for name, word in _WORDS.items() if new[name] != old[name]]
