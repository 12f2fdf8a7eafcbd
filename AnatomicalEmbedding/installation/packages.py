"""Compares the installed Python packages with the packages that the program needs. Imports none of them."""

import re
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, requires, version

from ..errors import AnatomicalEmbeddingError

DISTRIBUTION = "AnatomicalEmbedding"  # the name that pip uses
EXTRAS = ("cohort", "dicom", "followup", "train", "viewer")  # groups of optional packages for users
OLDEST_TORCH = (2, 2)  # as pyproject.toml requires
OLDEST_TORCH_FOR_NUMPY_2 = (2, 3)  # older builds need numpy 1
NUMPY_1 = "numpy<2"
_REQUIREMENT = re.compile(
    r"""([\w.-]+)(?:\[[\w,-]+\])?((?:>=|==)([\d.]+))?(?:\s*;\s*extra\s*==\s*["'](\w+)["'])?"""
)


@dataclass(frozen=True)
class Requirement:
    """A package that the program needs.

    text: as pip reads it, such as "torch>=2.2". least: the oldest version. extra: the group; "" for needed packages.
    """

    name: str
    text: str
    least: tuple[int, ...]
    extra: str

    @property
    def is_met(self) -> bool:
        return (release := release_of(self.name)) is not None and release >= self.least


def release_of(name: str) -> tuple[int, ...] | None:
    """Return the version of an installed package as numbers, such as (2, 2, 2); None if it is not installed."""
    try:
        return _numbers(version(name))
    except PackageNotFoundError:
        return None


def list_requirements() -> list[Requirement]:
    """List the packages that pip installs with the program, and the packages of EXTRAS.

    A requirement for one operating system only is left out. If pip did not install the program,
    AnatomicalEmbeddingError is raised.
    """
    try:
        texts = requires(DISTRIBUTION) or []
    except PackageNotFoundError:
        raise AnatomicalEmbeddingError(
            f"{DISTRIBUTION}: pip has not installed this package; run: pip install . (in the folder of the repository)."
        ) from None
    matches = [
        match
        for text in texts
        if (match := _REQUIREMENT.fullmatch(text)) and match[4] in (None, *EXTRAS)
    ]
    return [
        Requirement(m[1], m[0].split(";")[0].strip(), _numbers(m[3] or "0"), m[4] or "")
        for m in matches
    ]


def numpy_is_too_new() -> bool:
    """Whether the installed PyTorch was compiled for numpy 1, but numpy 2 is installed."""
    torch = release_of("torch")
    numpy = release_of("numpy")
    return bool(torch and numpy) and torch < OLDEST_TORCH_FOR_NUMPY_2 and numpy >= (2,)


def _numbers(text: str) -> tuple[int, ...]:
    """Return the numbers of a version up to the first part that is not a number: "2.13.0+cpu" -> (2, 13, 0)."""
    return tuple(map(int, re.match(r"\d+(?:\.\d+)*", text)[0].split(".")))
