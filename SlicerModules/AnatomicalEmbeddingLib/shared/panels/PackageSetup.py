"""Finds missing Python packages of the engine, and installs them when the user asks.

Slicer's PyTorch extension installs PyTorch, because it chooses the version that fits the GPU of this computer. numpy
and SimpleITK are part of Slicer. Only on macOS with Intel or Rosetta, numpy 2 is replaced by numpy 1, because the last
PyTorch for these computers, 2.2.2, needs numpy 1.
"""

import importlib
import logging
from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path

from slicer.i18n import tr as _

from AnatomicalEmbedding.installation.packages import NUMPY_1, OLDEST_TORCH, numpy_is_too_new

from ... import moduleResource
from . import ModuleSettings

TORCH_REQUIREMENT = ">=" + ".".join(map(str, OLDEST_TORCH))
REQUESTER = "AnatomicalEmbedding"
REQUIREMENTS_FILE = moduleResource("requirements.txt")
_FOR_REPORTS = {"html": {"jinja2": "jinja2", "pillow": "PIL"}, "sr": {"highdicom": "highdicom"}}
_RESTART = _("numpy 1 was installed, because this version of PyTorch needs it. Restart Slicer.")
_DECLINED = _("{names} was not installed, as you declined; press Install to install it later.")


class InstallError(Exception):
    """A package was not installed. The message states the reason and the remedy."""


def installedVersion(name: str) -> str:
    """Return the version of a package; "" if it is not installed. Does not import the package."""
    try:
        return version(name)
    except PackageNotFoundError:
        return ""


def missingForReport(kind: str) -> list[str]:
    """Return the missing packages for reports of this kind. Only reports of the kinds "html" and "sr" need packages."""
    return [
        name for name, module in _FOR_REPORTS.get(kind, {}).items() if find_spec(module) is None
    ]


def install(missing: Sequence[str]) -> str:
    """Install packages from the folder of wheel files that the user chose. Without such a folder, use the network.

    missing: pip's names of the packages; may include "torch". The user must confirm network use. Returns a sentence if
    the user must restart Slicer, otherwise "". Raises InstallError.
    """
    try:
        from slicer.packaging import load_requirements
    except ImportError:
        raise InstallError(
            _("This version of Slicer cannot install packages; install Slicer 5.12 or newer.")
        ) from None
    requirements = [
        str(requirement)
        for requirement in load_requirements(REQUIREMENTS_FILE)
        if requirement.name in missing
    ]
    try:
        if "torch" in missing:
            if _wheelFolder():
                requirements.insert(0, f"torch{TORCH_REQUIREMENT}")
            else:
                _installTorch()
        _install(requirements)
        importlib.invalidate_caches()
        if not numpy_is_too_new():
            return ""
        _install([NUMPY_1])
        return _RESTART
    except InstallError:
        raise
    # errors of pip, network, disk or extension: each must reach the user
    except Exception as error:
        if "declined" in str(error):  # `pip_ensure` uses this word if the user does not confirm
            raise InstallError(_DECLINED.format(names=", ".join(missing))) from None
        logging.exception("AnatomicalEmbedding: installing %s failed", ", ".join(missing))
        raise InstallError(
            _(
                "{names}: could not be installed ({error}); see the messages of pip in the error log, and try again."
            ).format(names=", ".join(missing), error=error)
        ) from error


def _wheelFolder() -> str:
    """Return the folder of wheel files that the user chose; "" for the network."""
    return ModuleSettings.value(ModuleSettings.WHEEL_FOLDER, "")


def _install(requirements: list[str]) -> None:
    """Install packages from the folder of wheel files or from the network. requirements: as for pip; may be empty."""
    from packaging.requirements import Requirement
    from slicer.packaging import pip_ensure

    if requirements and _wheelFolder():
        _installFromFolder(requirements, Path(_wheelFolder()))
    elif requirements:
        pip_ensure(list(map(Requirement, requirements)), requester=REQUESTER)


def _installTorch() -> None:
    """Install PyTorch with Slicer's extension PyTorch, which asks the user. Raises InstallError."""
    try:
        import PyTorchUtils
    except ModuleNotFoundError:
        raise InstallError(
            _(
                "Slicer's extension PyTorch, which installs PyTorch, is missing. Install the extension in the "
                "Extensions Manager, restart Slicer and press Install again. Or choose a folder of wheel files."
            )
        ) from None
    torch = PyTorchUtils.PyTorchUtilsLogic().installTorch(
        askConfirmation=True, torchVersionRequirement=TORCH_REQUIREMENT
    )
    if torch is None:
        raise InstallError(_DECLINED.format(names="PyTorch"))


def _installFromFolder(requirements: list[str], folder: Path) -> None:
    """Install packages from a folder of wheel files, without network. requirements: as for pip."""
    import slicer.util

    if not any(folder.glob("*.whl")):
        text = _(
            "{folder}: holds no wheel files (*.whl); choose another folder, or clear the field to use the network."
        )
        raise InstallError(text.format(folder=folder))
    slicer.util.pip_install(["--no-index", "--find-links", str(folder), *requirements])
