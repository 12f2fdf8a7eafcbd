"""Python packages that the engine needs: which are there, and installing the others when the user asks for it.

Nothing here runs at import. PyTorch comes by the PyTorch extension, which picks the build for this computer's GPU;
numpy and SimpleITK are Slicer's own and never touched.
"""

from __future__ import annotations

import importlib
import logging
from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from slicer.i18n import tr as _

TORCH_REQUIREMENT = ">=2.4"
REQUESTER = "AnatomicalEmbedding"
REQUIREMENTS_FILE = Path(__file__).resolve().parents[2] / "Resources" / "requirements.txt"
_FROM_SLICER = ("numpy", "SimpleITK")


class InstallError(Exception):
    """Something was not installed; the message is a sentence with the remedy."""


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


def install(missing: Sequence[str], wheelFolder: str = "") -> None:
    """Install packages, PyTorch among them. wheelFolder: take them from there, without network.

    Asks the user to confirm where it uses the network. Raises InstallError with a sentence.
    """
    _refuseSlicersOwn(missing)
    if wheelFolder:
        _installFromFolder(missing, Path(wheelFolder))
    else:
        if "torch" in missing:
            _installTorch()
        if any(name != "torch" for name in missing):
            _installOthers(missing)
    importlib.invalidate_caches()


def _refuseSlicersOwn(missing: Sequence[str]) -> None:
    lost = [name for name in missing if name in _FROM_SLICER]
    if lost:
        raise InstallError(
            _("{names}: comes with Slicer but is not there; install Slicer again.").format(names=", ".join(lost))
        )


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
    except Exception as error:  # pip, the network or the extension: whatever it was, the user must hear of it
        raise _failed("PyTorch", error) from error
    if torch is None:
        raise InstallError(_("PyTorch was not installed, as you declined; press Install when you want it."))


def _installOthers(missing: Sequence[str]) -> None:
    from slicer.packaging import load_requirements, pip_ensure

    names = ", ".join(name for name in missing if name != "torch")
    try:
        pip_ensure(load_requirements(REQUIREMENTS_FILE), requester=REQUESTER)
    except RuntimeError:  # what pip_ensure raises when the user declines
        logging.info("AnatomicalEmbedding: installation of %s was declined", names)
        raise InstallError(
            _("{names} was not installed, as you declined; press Install when you want it.").format(names=names)
        ) from None
    except Exception as error:
        raise _failed(names, error) from error


def _installFromFolder(missing: Sequence[str], folder: Path) -> None:
    if not folder.is_dir() or not any(folder.glob("*.whl")):
        raise InstallError(
            _("{folder}: holds no wheel files (*.whl); choose another folder, or none to use the network.").format(
                folder=folder
            )
        )
    import slicer.util
    from slicer.packaging import load_requirements

    # the PyTorch extension cannot be used here: its installer looks for PyTorch on download.pytorch.org only
    wanted = [f"torch{TORCH_REQUIREMENT}"] if "torch" in missing else []
    wanted += [str(each) for each in load_requirements(REQUIREMENTS_FILE) if each.name in missing]
    try:
        slicer.util.pip_install(["--no-index", "--find-links", str(folder), *wanted])
    except Exception as error:
        raise _failed(", ".join(missing), error) from error


def _failed(names: str, error: Exception) -> InstallError:
    logging.error("AnatomicalEmbedding: installing %s failed: %s", names, error)
    return InstallError(
        _("{names} could not be installed: {error}. See the error log for what pip said, and try again.").format(
            names=names, error=error
        )
    )
