# ruff: noqa: N802, N803 - the names are those of Slicer and Qt
"""Double of slicer.packaging: what is installed is looked up, what would be installed is written down."""

import sys
import types
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from packaging.requirements import Requirement

installed: list[tuple[list[str], dict]] = []  # requirements and keyword arguments of every install, first to last
declined = False  # a test sets it to let the user refuse the installation


def reset() -> None:
    """As after a start of the application."""
    global declined
    installed.clear()
    declined = False
    sys.modules.pop("PyTorchUtils", None)


def load_requirements(path) -> list[Requirement]:
    """Requirements of a file, without comments and options."""
    lines = [line.split("#")[0].strip() for line in Path(path).read_text(encoding="utf-8").splitlines()]
    return [Requirement(line) for line in lines if line and not line.startswith("-")]


def _as_list(requirements) -> list[Requirement]:
    return [Requirement(item) if isinstance(item, str) else item for item in requirements]


def pip_check(requirements) -> bool:
    """Whether all requirements that apply to this platform are met."""
    for requirement in _as_list(requirements):
        if requirement.marker is not None and not requirement.marker.evaluate():
            continue
        try:
            if not requirement.specifier.contains(version(requirement.name), prereleases=True):
                return False
        except PackageNotFoundError:
            return False
    return True


def pip_ensure(requirements, requester: str = "", prompt: bool = True, **options) -> None:
    """Install what is missing; RuntimeError where the user declines."""
    if pip_check(requirements):
        return
    if declined:
        raise RuntimeError(f"{requester}: installation of the required packages was declined")
    installed.append(([str(item) for item in _as_list(requirements)], {"requester": requester, **options}))


def pip_install(requirements, **options) -> None:
    """Write the requirements down; nothing is installed."""
    installed.append(([str(requirements)] if isinstance(requirements, str) else list(map(str, requirements)), options))


class PyTorchUtilsLogic:
    """Double of the PyTorch extension's logic; installs nothing, counts what was asked for."""

    installs_torch = True  # a test sets it to False: the user declines
    torch_is_installed = True
    requested: list[dict] = []  # noqa: RUF012 - shared on purpose, read by tests

    def installTorch(self, askConfirmation=False, forceComputationBackend=None, torchVersionRequirement=None, **more):
        """The torch module, None where the user declines."""
        cls = type(self)
        cls.requested.append(
            {"askConfirmation": askConfirmation, "backend": forceComputationBackend, "version": torchVersionRequirement}
        )
        if not cls.installs_torch:
            return None
        cls.torch_is_installed = True
        import torch

        return torch


def install_pytorch_extension(torch_installed: bool = True, agrees: bool = True) -> type[PyTorchUtilsLogic]:
    """Put the PyTorch extension into this "application": `import PyTorchUtils` works until the test ends."""
    PyTorchUtilsLogic.torch_is_installed = torch_installed
    PyTorchUtilsLogic.installs_torch = agrees
    PyTorchUtilsLogic.requested.clear()
    module = types.ModuleType("PyTorchUtils")
    module.PyTorchUtilsLogic = PyTorchUtilsLogic
    sys.modules["PyTorchUtils"] = module
    return PyTorchUtilsLogic
