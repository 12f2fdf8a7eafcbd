"""Makes a folder from which pip installs the program on a computer without network."""

import shutil
import subprocess
import sys
import zipfile
from collections.abc import Sequence
from importlib.metadata import Distribution, distribution
from pathlib import Path

from ..errors import AnatomicalEmbeddingError
from ..files import atomic_path, file_sha256, write_text
from ..resources import FILM_WEIGHTS, list_weights, resource, weights_file
from .packages import DISTRIBUTION

HASHES = "SHA256SUMS"
WEIGHTS = "weights"
_STDERR = 2  # number of the file
# files that pip writes when it installs a wheel
_OF_PIP = ("INSTALLER", "REQUESTED", "direct_url.json")


def make_bundle(folder: Path, extras: Sequence[str], python: str = "") -> list[Path]:
    """Write the wheels of the program and of all packages that it needs, the other weights, and their hashes.

    The wheels fit the operating system and the processor of this computer. If files are there from a run before, pip
    does not download them again. The messages of pip go to stderr.

    Args:
        extras: groups of optional packages, such as "cohort".
        python: version of the Python that will use the wheels, such as "3.12"; "" for the version of this Python.

    Returns:
        the files. The last file is HASHES, with the SHA-256 of each other file, as `sha256sum --check` reads it.

    Raises:
        AnatomicalEmbeddingError: pip failed.
    """
    folder.mkdir(parents=True, exist_ok=True)
    wheel = _write_own_wheel(folder)
    other_python = ["--python-version", python] if python else []
    requirement = f"{wheel}[{','.join(extras)}]" if extras else str(wheel)
    _run_pip("download", "--only-binary=:all:", *other_python, "--dest", str(folder), requirement)
    with zipfile.ZipFile(wheel) as archive:
        in_wheel = {Path(name).name for name in archive.namelist()}
    for name in [*list_weights(), FILM_WEIGHTS]:
        if weights_file(name).is_file() and f"{name}.safetensors" not in in_wheel:
            for path in sorted(resource("Models").parent.glob(f"*/{name}.*")):
                (folder / WEIGHTS).mkdir(exist_ok=True)
                shutil.copyfile(path, folder / WEIGHTS / path.name)
    written = [*sorted(folder.glob("*.whl")), *sorted(folder.glob(f"{WEIGHTS}/*"))]
    lines = [f"{file_sha256(path)}  {path.relative_to(folder).as_posix()}\n" for path in written]
    write_text(folder / HASHES, "".join(lines))
    return [*written, folder / HASHES]


def _write_own_wheel(folder: Path) -> Path:
    """Write the wheel of this program: from its installed files, or from the repository if it runs from there."""
    repository = Path(__file__).parents[2]
    for old in folder.glob(f"{DISTRIBUTION.lower()}-*.whl"):
        old.unlink()
    if not (repository / "pyproject.toml").is_file():
        return pack_wheel(distribution(DISTRIBUTION), folder)
    _run_pip("wheel", "--no-deps", "--wheel-dir", str(folder), str(repository))
    return next(folder.glob(f"{DISTRIBUTION.lower()}-*.whl"))


def pack_wheel(installed: Distribution, folder: Path) -> Path:
    """Write the wheel file from which pip installed a distribution of pure Python. Returns its path."""
    files = installed.files or []
    record = next(file for file in files if file.name == "RECORD")
    path = folder / f"{record.parts[0].removesuffix('.dist-info')}-py3-none-any.whl"
    lines = [f"{record.as_posix()},,\n"]
    with (
        atomic_path(path) as temporary,
        zipfile.ZipFile(temporary, "w", zipfile.ZIP_DEFLATED) as archive,
    ):
        for file in files:
            # what pip compiled has no hash
            if file.hash and file.parts[0] != ".." and file.name not in _OF_PIP:
                lines.append(f"{file.as_posix()},{file.hash.mode}={file.hash.value},{file.size}\n")
                archive.writestr(file.as_posix(), file.read_binary())
        archive.writestr(record.as_posix(), "".join(lines))
    return path


def _run_pip(*arguments: str) -> None:
    """Run pip of this Python; its messages go to stderr. Raises AnatomicalEmbeddingError with its last error."""
    command = [sys.executable, "-m", "pip", "--disable-pip-version-check", *arguments]
    done = subprocess.run(command, stdout=_STDERR, stderr=subprocess.PIPE, text=True)
    if done.returncode:
        lines = [line for line in done.stderr.splitlines() if line.strip()] or ["no message"]
        reason = next((line for line in reversed(lines) if line.startswith("ERROR")), lines[-1])
        raise AnatomicalEmbeddingError(
            f"pip {arguments[0]} failed: {reason.removeprefix('ERROR: ')}; check the network and the free space on the "
            "disk, then run the same command again."
        )
