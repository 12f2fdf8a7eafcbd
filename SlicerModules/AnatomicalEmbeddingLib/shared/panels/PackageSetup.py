"""Python packages that the engine needs: which are missing, and their installation when the user asks.

The PyTorch extension installs PyTorch: it chooses the build for this computer's GPU. numpy and SimpleITK are Slicer's
own and are never installed.
"""

from __future__ import annotations

import importlib
import logging
from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path

from slicer.i18n import tr as _

from ... import moduleResource
from ..maps.Engine import Engine

TORCH_REQUIREMENT = ">=2.4"
REQUESTER = "AnatomicalEmbedding"
REQUIREMENTS_FILE = moduleResource("requirements.txt")
_FOR_REPORTS = {"html": {"jinja2": "jinja2", "pillow": "PIL"}, "sr": {"highdicom": "highdicom"}}
_FROM_SLICER = ("numpy", "SimpleITK")


class InstallError(Exception):
    """A package was not installed; the message is a sentence with the remedy."""


def installedVersion(name: str) -> str:
    """Version of a package without importing it; "" where it is not installed."""
    try:
        return version(name)
    except PackageNotFoundError:
        return ""


def torchIsTooOld() -> bool:
    """Is an older PyTorch installed than the engine needs?"""
    found = installedVersion("torch")
    if not found:
        return False
    from packaging.requirements import Requirement

    return not Requirement(f"torch{TORCH_REQUIREMENT}").specifier.contains(found, prereleases=True)


def missingForEngine(engine=Engine) -> list[str]:
    """Packages without which nothing can be embedded, by pip's names; PyTorch also where it is too old. Loads none."""
    missing = list(engine.missingPackages())
    return ["torch", *missing] if "torch" not in missing and torchIsTooOld() else missing


def missingForReport(kind: str) -> list[str]:
    """Packages without which a kind of report ("html" or "sr") cannot be written; other kinds need none."""
    return [name for name, module in _FOR_REPORTS.get(kind, {}).items() if find_spec(module) is None]


def install(missing: Sequence[str], wheelFolder: str = "") -> None:
    """Install packages, PyTorch among them. wheelFolder: with wheel files to install from; "": use the network.

    Asks the user to confirm where it uses the network. Raises InstallError with a sentence.
    """
    own = [name for name in missing if name in _FROM_SLICER]
    if own:
        names = ", ".join(own)
        raise InstallError(_("{names}: comes with Slicer but is missing; install Slicer again.").format(names=names))
    wanted = [str(each) for each in _slicerPackaging().load_requirements(REQUIREMENTS_FILE) if each.name in missing]
    if "torch" in missing and wheelFolder:
        # the PyTorch extension cannot be used here: its installer looks for PyTorch on download.pytorch.org only
        wanted.insert(0, f"torch{TORCH_REQUIREMENT}")
    elif "torch" in missing:
        _installTorch()
    if wanted:
        _installRequirements(wanted, wheelFolder)
    importlib.invalidate_caches()


def _installRequirements(wanted: Sequence[str], wheelFolder: str) -> None:
    from packaging.requirements import Requirement

    requirements = [Requirement(each) for each in wanted]
    names = ", ".join(each.name for each in requirements)
    try:
        if wheelFolder:
            _installFromFolder(wanted, Path(wheelFolder))
        else:
            _installFromNetwork(requirements, names)
    except InstallError:
        raise
    except Exception as error:  # pip, the network or the disk: the user must be told in any case
        raise _failed(names, error) from error


def _slicerPackaging():
    """Slicer's module that installs packages."""
    try:
        return importlib.import_module("slicer.packaging")
    except ImportError:
        raise InstallError(_("This Slicer cannot install the packages; install Slicer 5.12 or newer.")) from None


def _installTorch() -> None:
    try:
        import PyTorchUtils
    except ModuleNotFoundError:
        raise InstallError(
            _(
                "PyTorch needs the PyTorch extension: install it in the Extensions Manager, restart Slicer and press "
                "Install again; or choose a folder of wheel files."
            )
        ) from None
    try:
        torch = PyTorchUtils.PyTorchUtilsLogic().installTorch(
            askConfirmation=True, torchVersionRequirement=TORCH_REQUIREMENT
        )
    except Exception as error:  # pip, the network or the extension: the user must be told in any case
        raise _failed("PyTorch", error) from error
    if torch is None:
        raise InstallError(_("PyTorch was not installed, as you declined; press Install when you want it."))


def _installFromNetwork(requirements: Sequence, names: str) -> None:
    packaging = _slicerPackaging()
    try:
        packaging.pip_ensure(requirements, requester=REQUESTER)
    except RuntimeError as error:
        if "declined" not in str(error):  # the word that it uses where the user has said no
            raise
        logging.info("AnatomicalEmbedding: installation of %s was declined", names)
        raise InstallError(
            _("{names} was not installed, as you declined; press Install when you want it.").format(names=names)
        ) from None


def _installFromFolder(wanted: Sequence[str], folder: Path) -> None:
    import slicer.util

    if not folder.is_dir() or not any(folder.glob("*.whl")):
        raise InstallError(
            _("{folder}: holds no wheel files (*.whl); choose another folder, or none to use the network.").format(
                folder=folder
            )
        )
    slicer.util.pip_install(["--no-index", "--find-links", str(folder), *wanted])


def _failed(names: str, error: Exception) -> InstallError:
    logging.error("AnatomicalEmbedding: installing %s failed: %s", names, error)
    return InstallError(
        _("{names} could not be installed: {error}. See the error log for pip's messages, and try again.").format(
            names=names, error=error
        )
    )
