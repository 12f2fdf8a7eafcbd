# ruff: noqa: N802, N803 - the names are those of Slicer and Qt
"""Double of slicer.packaging: finds installed packages, and records installations instead of running them."""

import sys
import types
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from packaging.requirements import Requirement

installed: list[
    tuple[list[str], dict]
] = []  # requirements and keyword arguments of every install, first to last
declined = False  # a test sets it to let the user refuse the installation


def reset() -> None:
    """As after a start of the application."""
    global declined
    installed.clear()
    declined = False
    sys.modules.pop("PyTorchUtils", None)


def load_requirements(path) -> list[Requirement]:
    """Requirements of a file; like the original it knows comments on lines of their own only."""
    lines = [line.strip() for line in Path(path).read_text(encoding="utf-8").splitlines()]
    return [Requirement(line) for line in lines if line and not line.startswith(("#", "-"))]


def pip_check(requirements: list[Requirement]) -> bool:
    """Whether all requirements are met."""
    try:
        return all(
            each.specifier.contains(version(each.name), prereleases=True) for each in requirements
        )
    except PackageNotFoundError:
        return False


def pip_ensure(requirements: list[Requirement], requester: str | None = None) -> None:
    """Install what is missing; RuntimeError where the user declines."""
    missing = [each for each in requirements if not pip_check([each])]
    if missing and declined:
        raise RuntimeError("User declined package installation")
    if missing:
        installed.append(([str(each) for each in missing], {"requester": requester}))


def pip_install(requirements: list[str]) -> None:
    """Write the requirements down; nothing is installed."""
    if type(requirements) is not list:
        raise ValueError("pip_install requirement input must be string or list")
    installed.append((requirements, {}))


class PyTorchUtilsLogic:
    """Double of the PyTorch extension's logic; installs nothing, writes down what was asked for."""

    agrees = True
    requested: list[dict] = []  # noqa: RUF012 - shared on purpose, read by tests

    def installTorch(
        self, askConfirmation=False, forceComputationBackend=None, torchVersionRequirement=None
    ):
        """The torch module, None where the user declines."""
        self.requested.append(
            {
                "askConfirmation": askConfirmation,
                "backend": forceComputationBackend,
                "version": torchVersionRequirement,
            }
        )
        return types.ModuleType("torch") if self.agrees else None


def install_pytorch_extension(agrees: bool = True) -> type[PyTorchUtilsLogic]:
    """Put the PyTorch extension into this "application": `import PyTorchUtils` works until the test ends."""
    PyTorchUtilsLogic.agrees = agrees
    PyTorchUtilsLogic.requested.clear()
    sys.modules["PyTorchUtils"] = module = types.ModuleType("PyTorchUtils")
    module.PyTorchUtilsLogic = PyTorchUtilsLogic
    return PyTorchUtilsLogic
