"""What the tests need of the system besides Python, and its installation: python tools/system_packages.py

As root, as in containers and CI, what is missing is installed with apt-get; otherwise the line to type is printed. The
tests skip what still cannot run (fixtures `drawing` and `browser`). Runs on any Python 3 without packages.
"""

import ctypes
import os
import shutil
import subprocess
import sys
from importlib.util import find_spec

# What Qt and VTK load to draw without a screen: file, Debian's package
_LIBRARIES = {
    "libGL.so.1": "libgl1",
    "libEGL.so.1": "libegl1",
    "libxkbcommon.so.0": "libxkbcommon0",
    "libfontconfig.so.1": "libfontconfig1",
    "libdbus-1.so.3": "libdbus-1-3",
    "libglib-2.0.so.0": "libglib2.0-0",
}
# What Playwright loads to drive the browser
_DRIVER = {"libatomic.so.1": "libatomic1"}
# The viewer's tests run in a browser, dciodvfy checks DICOM files, Orthanc is a DICOMweb server: Debian's package,
# names of the program
_PROGRAMS = {
    "chromium": ("chromium", "chromium-browser", "google-chrome"),
    "dicom3tools": ("dciodvfy",),
    "orthanc": ("Orthanc", "/usr/sbin/Orthanc"),
}
DICOMWEB_PLUGIN = "/usr/share/orthanc/plugins/libOrthancDicomWeb.so"


def missing_libraries() -> list[str]:
    """Files of the libraries for drawing that cannot be loaded; only Linux leaves them to the system."""
    return _unloadable(_LIBRARIES)


def has_browser() -> bool:
    """A Chromium, and what Playwright drives it with."""
    return find_program("chromium") is not None and not _unloadable(_DRIVER)


def _unloadable(libraries: dict[str, str]) -> list[str]:
    return [name for name in libraries if sys.platform == "linux" and not _loads(name)]


def find_program(package: str) -> str | None:
    """Path of the program that a package brings, under any of its names."""
    return next(filter(None, map(shutil.which, _PROGRAMS[package])), None)


def missing_packages() -> list[str]:
    """Debian's names of what is missing."""
    packages = [] if find_spec("ensurepip") else [f"python3.{sys.version_info.minor}-venv"]
    libraries = _LIBRARIES | _DRIVER
    packages += [libraries[name] for name in _unloadable(libraries)]
    packages += [package for package in _PROGRAMS if find_program(package) is None]
    return packages + ["orthanc-dicomweb"] * (not os.path.exists(DICOMWEB_PLUGIN))  # noqa: PTH110


def _loads(library: str) -> bool:
    try:
        ctypes.CDLL(library)
    except OSError:
        return False
    return True


def _install(packages: list[str]) -> None:
    """By apt-get, as far as it has the packages; what it complains of is shown."""
    environment = {
        **os.environ,
        "DEBIAN_FRONTEND": "noninteractive",
        "RUNLEVEL": "1",
    }  # 1: no service is started

    def apt(*words: str, **options: object) -> bool:
        return (
            subprocess.run(["apt-get", "-qq", *words], env=environment, **options).returncode == 0
        )

    def install(*names: str) -> bool:
        return apt("install", "-y", "--no-install-recommends", *names, stdout=subprocess.DEVNULL)

    apt("update")
    if not install(
        *packages
    ):  # as where Ubuntu has no chromium: one by one, so that the others are installed
        for name in packages:
            install(name)


def main() -> int:
    packages = missing_packages()
    if packages and shutil.which("apt-get") and os.geteuid() == 0:
        print(f"Installing for the tests, with apt-get: {' '.join(packages)}", flush=True)
        _install(packages)
        packages = missing_packages()
    if packages:
        print(
            "Tests that need these packages are skipped. To run them as well, type this line and make test again:"
        )
        print(f"  sudo apt-get install --no-install-recommends {' '.join(packages)}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
