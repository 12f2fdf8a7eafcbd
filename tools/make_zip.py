"""Makes the package that Slicer's Extensions Manager installs from a file, without a build of Slicer:

    python tools/make_zip.py -o dist

The files are those that CMake stages (see stage_install.py), so nothing can differ from a built package. All of it is
Python and data: one archive serves every Linux and Windows of a Slicer version, macOS wants another layout. The same
commit gives the same bytes. Extensions it depends on (PyTorch) are not installed along with a file.
"""

from __future__ import annotations

import argparse
import json
import platform
import re
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from stage_install import ROOT, SLICER_VERSION, Staged, StagingError, stage

SLICER_REVISION = "34627"  # of Slicer 5.12.3
_SYSTEMS = {"Linux": "linux", "Windows": "win", "Darwin": "macosx"}
_MACHINES = {"x86_64": "amd64", "AMD64": "amd64", "aarch64": "arm64", "arm64": "arm64"}
_EARLIEST = datetime(1980, 1, 1, tzinfo=UTC)  # no zip file knows an earlier day


@dataclass(frozen=True)
class Target:
    """The Slicer that a package is for. os: linux, win or macosx; arch: amd64 or arm64, as Slicer spells them."""

    revision: str
    version: str
    os: str
    arch: str


@dataclass(frozen=True)
class Commit:
    """What is packaged: `hash` is "NA" outside of a git checkout."""

    hash: str = "NA"
    time: datetime = _EARLIEST
    changed: bool = False

    @classmethod
    def of(cls, source: Path) -> Commit:
        """Return the commit that is checked out in a folder."""
        try:
            show, status = (
                subprocess.run(
                    ["git", "-C", source, *words], capture_output=True, text=True, check=True
                ).stdout
                for words in (["show", "-s", "--format=%H %ct"], ["status", "--porcelain"])
            )
        except (OSError, subprocess.CalledProcessError):
            return cls()
        name, seconds = show.split()
        return cls(name, datetime.fromtimestamp(int(seconds), UTC), bool(status.strip()))


def package_name(name: str, target: Target, commit: Commit) -> str:
    """File name of the package without its suffix, as Slicer's own builds are named."""
    revision = "local" if commit.hash == "NA" else f"git{commit.hash[:7]}"
    return f"{target.revision}-{target.os}-{target.arch}-{name}-{revision}-{commit.time:%Y-%m-%d}"


def description(metadata: Mapping[str, str], entry: Mapping[str, object], commit: Commit) -> str:
    """Text of the .s4ext file, which Slicer reads at installation: a key and its value a line."""
    lines = {
        "scm": "git",
        "scmurl": entry["scm_url"],
        "scmrevision": commit.hash,
        "depends": metadata["depends"],
        "build_subdirectory": entry["build_subdirectory"],
        "homepage": metadata["homepage"],
        "contributors": metadata["contributors"],
        "category": entry["category"],
        "iconurl": metadata["iconurl"],
        "status": "",
        "tier": entry["tier"],
        "description": metadata["description"],
        "screenshoturls": metadata["screenshoturls"],
        "enabled": 1,
    }
    return "".join(f"{key} {value}".rstrip() + "\n" for key, value in lines.items())


def write_zip(
    staged: Staged, entry: Mapping[str, object], target: Target, commit: Commit, folder: Path
) -> Path:
    """Write the package into `folder` and return its path; an older one of the same name is replaced."""
    name = staged.metadata["name"]
    top = name
    if target.os == "macosx":  # there extensions are installed inside of the application
        top = f"{name}/Slicer.app/Contents/Extensions-{target.revision}/{name}"
    flat = staged.flat.relative_to(staged.folder).as_posix()
    contents = {f"{top}/{flat}/{file}": (staged.flat / file).read_bytes() for file in staged.owners}
    contents[f"{top}/share/Slicer-{target.version}/{name}.s4ext"] = description(
        staged.metadata, entry, commit
    ).encode()
    when = max(commit.time, _EARLIEST).timetuple()[:6]
    path = folder / f"{package_name(name, target, commit)}.zip"
    unfinished = path.with_suffix(".part")
    try:
        with zipfile.ZipFile(unfinished, "w", zipfile.ZIP_DEFLATED, compresslevel=6) as archive:
            for file in sorted(contents):
                info = zipfile.ZipInfo(file, when)
                info.compress_type = zipfile.ZIP_DEFLATED
                info.create_system, info.external_attr = 3, 0o644 << 16  # the same on every system
                archive.writestr(info, contents[file])
        unfinished.replace(path)
    finally:
        unfinished.unlink(missing_ok=True)
    return path


def make_zip(folder: Path, target: Target) -> Path:
    """Stage the extension and pack it into `folder`, which is made. Raises StagingError, OSError."""
    entry = json.loads((ROOT / "Resources/Packaging/AnatomicalEmbedding.json").read_text())
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as place:
        staged = stage(Path(place) / "build", slicer_version=target.version)
        return write_zip(staged, entry, target, Commit.of(ROOT), folder)


def _of_form(pattern: str, form: str):
    """Type of an argument that must match a pattern."""

    def check(word: str) -> str:
        if not re.fullmatch(pattern, word):
            raise argparse.ArgumentTypeError(f"{word} is not {form}")
        return word

    return check


def main(words: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        description="Make the package that Slicer installs from a file."
    )
    parser.add_argument(
        "-o", "--output", type=Path, default=Path("dist"), help="folder to write to (default: dist)"
    )
    parser.add_argument(
        "--slicer-version",
        type=_of_form(r"\d+\.\d+", "of the form MAJOR.MINOR"),
        default=SLICER_VERSION,
        help="(default: %(default)s)",
    )
    parser.add_argument(
        "--slicer-revision",
        type=_of_form(r"\d+", "a whole number"),
        default=SLICER_REVISION,
        help="number of the Slicer build, shown by its About dialog (default: %(default)s, of 5.12.3); "
        "only on macOS does it have to fit",
    )
    parser.add_argument(
        "--os", choices=_SYSTEMS.values(), default=_SYSTEMS.get(platform.system(), "linux")
    )
    parser.add_argument(
        "--arch",
        choices=sorted(set(_MACHINES.values())),
        default=_MACHINES.get(platform.machine(), "amd64"),
    )
    asked = parser.parse_args(words)
    target = Target(asked.slicer_revision, asked.slicer_version, asked.os, asked.arch)
    try:
        path = make_zip(asked.output, target)
    except (StagingError, OSError) as error:
        print(f"No package was made: {error}", file=sys.stderr)
        return 2
    print(f"{path} ({path.stat().st_size / 1e6:.1f} MB)")
    if Commit.of(ROOT).changed:
        print(
            "The checkout has changes that are not committed; they are in the package.",
            file=sys.stderr,
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
