"""Packages that training needs, those of the engine among them, and installing what is missing when the user asks."""

from __future__ import annotations

from importlib import invalidate_caches
from importlib.util import find_spec

from slicer.i18n import tr as _

from ..Maps.Engine import Engine
from ..Panels import ModuleSettings
from ..Panels.PackageSetup import REQUESTER, InstallError, install, torchIsTooOld

_FABRIC = "lightning-fabric"
_FABRIC_REQUIREMENT = "lightning-fabric>=2.4"


def missingForTraining() -> list[str]:
    """Names of the packages without which nothing can be trained, as pip calls them. Loads none."""
    return _missingForEngine() + ([_FABRIC] if find_spec("lightning_fabric") is None else [])


def installForTraining() -> None:
    """Install what is missing; asks the user to confirm. Raises InstallError with a sentence."""
    folder = ModuleSettings.wheelFolder()
    if missing := _missingForEngine():
        install(missing, folder)
    if find_spec("lightning_fabric") is None:
        _installFabric(folder)
    invalidate_caches()


def _missingForEngine() -> list[str]:
    missing = Engine.missingPackages()
    return ["torch", *missing] if "torch" not in missing and torchIsTooOld() else missing


def _installFabric(wheelFolder: str) -> None:
    import slicer.util
    from slicer.packaging import pip_ensure

    try:
        if wheelFolder:
            slicer.util.pip_install(["--no-index", "--find-links", wheelFolder, _FABRIC_REQUIREMENT])
            return
        try:
            pip_ensure([_requirement()], requester=REQUESTER)
        except RuntimeError:  # what it raises when the user declines
            sentence = _("{name} was not installed, as you declined; press Install packages when you want it.")
            raise InstallError(sentence.format(name=_FABRIC)) from None
    except InstallError:
        raise
    except Exception as error:
        sentence = _("{name} could not be installed: {error}. See the error log for what pip said, and try again.")
        raise InstallError(sentence.format(name=_FABRIC, error=error)) from error


def _requirement() -> object:
    from packaging.requirements import Requirement

    return Requirement(_FABRIC_REQUIREMENT)
