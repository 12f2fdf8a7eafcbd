"""Writes the lists of staged files into SlicerModules/CMakeLists.txt: python Testing/extension/list_files.py

A module's own resources are those whose name begins with the module's; all others are shared and go with
AnatomicalEmbeddingLib.
"""

from __future__ import annotations

import re
import sys
from collections import defaultdict
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SHARED = "AnatomicalEmbeddingLib"
_NOT_STAGED = {"AnatomicalEmbeddingViewer", "CMakeLists.txt"}
_BLOCK = re.compile(r"(?<=# <lists>\n).*(?=# </lists>\n)", re.DOTALL)


def files_to_stage(folder: Path) -> list[str]:
    """Files below SlicerModules that belong into the extension, sorted posix paths. Hidden files, byte code and the
    browser viewer do not.
    """
    paths = (path.relative_to(folder) for path in folder.rglob("*") if path.is_file())
    return sorted(
        path.as_posix()
        for path in paths
        if path.parts[0] not in _NOT_STAGED
        and "__pycache__" not in path.parts
        and not any(part.startswith(".") for part in path.parts)
    )


def owner_of(resource: str, modules: list[str]) -> str:
    """The module whose name the file's name begins with (the longest, where several do), else the shared target."""
    name = resource.rsplit("/", 1)[-1]
    return max((module for module in modules if name.startswith(module)), key=len, default=SHARED)


def listed(folder: Path) -> str:
    """Text of SlicerModules/CMakeLists.txt with the lists as they should be. Raises ValueError where a file has no
    place in the extension.
    """
    lists: dict[str, list[str]] = defaultdict(list)
    files = files_to_stage(folder)
    modules = [name.removesuffix(".py") for name in files if name.endswith(".py") and "/" not in name]
    for name in files:
        if name.endswith(".py") and "/" not in name:
            continue
        if name.startswith(f"{SHARED}/"):
            lists[f"{SHARED}_SCRIPTS"].append(name)
        elif name.startswith("Resources/") and not name.endswith(".py"):
            lists[f"{owner_of(name, modules)}_RESOURCES"].append(name)
        else:
            raise ValueError(f"{name} has no place in the extension: modules lie in SlicerModules, code in {SHARED}")
    lists = {"MODULES": modules} | dict(sorted(lists.items()))
    blocks = ("\n".join([f"set({key}", *(f"  {name}" for name in names), "  )\n"]) for key, names in lists.items())
    text, count = _BLOCK.subn(lambda _: "".join(blocks), (folder / "CMakeLists.txt").read_text())
    if count != 1:
        raise ValueError(f"{folder / 'CMakeLists.txt'} has lost its marks # <lists> and # </lists>")
    return text


def main() -> int:
    folder = ROOT / "SlicerModules"
    try:
        text = listed(folder)
    except ValueError as error:
        print(error, file=sys.stderr)
        return 2
    (folder / "CMakeLists.txt").write_text(text)
    print(f"{folder / 'CMakeLists.txt'}: {len(files_to_stage(folder))} files listed")
    return 0


if __name__ == "__main__":
    sys.exit(main())
