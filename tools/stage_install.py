"""Stages the extension as Slicer would install it, with CMake and the double of Slicer beside this file: no Slicer, no
compiler and no make are needed.
"""

import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
SLICER_VERSION = "5.12"
_DOUBLE = Path(__file__).parent / "cmake_double"


class StagingError(Exception):
    """CMake is missing, or refuses the extension; the message is CMake's own."""


@dataclass(frozen=True)
class Staged:
    """folder: below it lib/Slicer-X.Y/qt-scripted-modules. owners: staged file, relative to `flat`, to its target.
    metadata: name, homepage, contributors, description, iconurl, screenshoturls, depends.
    """

    folder: Path
    flat: Path
    owners: dict[str, str]
    metadata: dict[str, str]

    @property
    def modules(self) -> list[str]:
        """Names of the staged scripted modules."""
        return sorted(
            Path(name).stem for name in self.owners if name.endswith(".py") and "/" not in name
        )

    @property
    def files(self) -> set[str]:
        """What truly lies in the flat folder, as posix paths relative to it."""
        return {
            path.relative_to(self.flat).as_posix()
            for path in self.flat.rglob("*")
            if path.is_file()
        }


def find_cmake() -> str | None:
    """CMake of this Python environment (package `cmake`), else of the system."""
    try:
        import cmake
    except ImportError:
        return shutil.which("cmake")
    return str(Path(cmake.CMAKE_BIN_DIR) / "cmake")


def stage(folder: Path, source: Path = ROOT, slicer_version: str = SLICER_VERSION) -> Staged:
    """Configure the extension in `source` into `folder`, which is made. Raises StagingError with CMake's complaint."""
    cmake = find_cmake()
    if cmake is None:
        raise StagingError("CMake is not installed; install it with: pip install cmake")
    command = [
        *(cmake, "-S", source, "-B", folder, "-G", "Unix Makefiles"),
        f"-DSlicer_DIR={_DOUBLE / 'Slicer'}",
        f"-DSlicer_VERSION={slicer_version}",
        "-DBUILD_TESTING=ON",
        f"-DCMAKE_TOOLCHAIN_FILE={_DOUBLE / 'no_compiler.cmake'}",
        f"-DCMAKE_MAKE_PROGRAM={cmake}",
    ]
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True)
    if done.returncode:
        raise StagingError(f"CMake refuses the extension in {source}:\n{done.stderr.strip()}")
    owners = dict(
        reversed(line.split("\t")) for line in (folder / "staged.txt").read_text().splitlines()
    )
    metadata = dict(
        line.split(" ", 1) for line in (folder / "extension.txt").read_text().splitlines()
    )
    return Staged(
        folder, folder / f"lib/Slicer-{slicer_version}/qt-scripted-modules", owners, metadata
    )
