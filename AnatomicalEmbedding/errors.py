"""Errors that a user may see. Every message names the file, the problem and the remedy in one sentence."""

import re
from collections.abc import Callable, Iterable
from difflib import get_close_matches
from importlib import import_module
from types import ModuleType

_LONGEST = 3000  # characters; the middle of a longer message is left out
# line breaks and control codes of a terminal
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]+")


class AnatomicalEmbeddingError(Exception):
    """Base class of all errors whose cause the user can remove. The message is one line without control characters."""

    def __init__(self, message: str = "") -> None:
        line = _CONTROL.sub(" ", message)
        super().__init__(
            line
            if len(line) <= _LONGEST
            else f"{line[: _LONGEST // 2]} ... {line[-_LONGEST // 2 :]}"
        )


class VolumeError(AnatomicalEmbeddingError):
    """A scan cannot be read, or is not a CT that can be embedded."""


class PointsError(AnatomicalEmbeddingError):
    """A list of points cannot be read, or a point lies outside its scan."""


class WeightsError(AnatomicalEmbeddingError):
    """Model weights are missing, damaged, or not the file that the model card (JSON) describes."""


class MapError(AnatomicalEmbeddingError):
    """An embedding map cannot be read, or was not made with the same weights as the map that it is compared with."""


class NotSamePatientError(AnatomicalEmbeddingError):
    """Two scans that were given as scans of one patient do not show the same body, or share too little of it."""


class MemoryLimitError(AnatomicalEmbeddingError):
    """The work needs more memory than allowed, even if the scan is embedded part by part (in slabs)."""


class CancelledError(AnatomicalEmbeddingError):
    """The user pressed Cancel; nothing was written."""


# Long work calls these between its steps. The first two get the share of the work that is done, 0 to 1 (and the name of
# the step), and may raise CancelledError to stop the work; the third returns True to stop it.
ProgressCallback = Callable[[float, str], None]
ShareCallback = Callable[[float], None]
CancelCallback = Callable[[], bool]


def stoppable(
    progress: ProgressCallback | None, cancelled: CancelCallback | None, message: str
) -> ProgressCallback:
    """Return a function that calls `progress`, or raises CancelledError with a message if `cancelled` returns True."""

    def step(share: float, text: str) -> None:
        if cancelled is not None and cancelled():
            raise CancelledError(message)
        if progress is not None:
            progress(share, text)

    return step


def did_you_mean(name: str, known_names: Iterable[str]) -> str:
    """Return " (did you mean ...?)" with the most similar known name, or "" if no name is similar."""
    matches = get_close_matches(name.lower(), known_names, 1, 0.75)
    return f" (did you mean {matches[0]}?)" if matches else ""


def no_body_frame(weights: str) -> str:
    """Return the message for weights whose coordinates are not those of a patient's body, such as weights of the kind
    "any"."""
    return (
        f"the weights {weights} give no body coordinates in mm, so with them only points can be matched (match, "
        "landmarks); use the weights auto for CTs of adults."
    )


def require(module: str, package: str, purpose: str, extra: str = "") -> ModuleType:
    """Import a module of a package that may be missing.

    Args:
        module: the module.
        package: the package, as pip names it.
        purpose: words of the error message, such as "pairing lesions needs".
        extra: the optional dependency group of AnatomicalEmbedding that installs the package; "" if no group does.

    Raises:
        AnatomicalEmbeddingError: "{package} is not installed, but {purpose} this package; run: pip install ...".
    """
    requirement = f'"AnatomicalEmbedding[{extra}]"' if extra else package
    try:
        return import_module(module)
    except ImportError as error:
        raise AnatomicalEmbeddingError(
            f"{package} is not installed, but {purpose} this package; run: pip install {requirement}."
        ) from error
