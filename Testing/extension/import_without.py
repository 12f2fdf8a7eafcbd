"""Import modules in a separate process; print each module that imports a forbidden package, and the package.

python import_without.py FOLDER FORBIDDEN,... MODULE...
"""

from __future__ import annotations

import importlib
import sys
from importlib.abc import MetaPathFinder


class Refuser(MetaPathFinder):
    """Notes which forbidden packages are asked for, and refuses them."""

    def __init__(self, forbidden: set[str]) -> None:
        self.forbidden = forbidden
        self.asked = []

    def find_spec(self, fullname: str, path=None, target=None):
        name = fullname.split(".")[0]
        if name in self.forbidden:
            self.asked.append(name)
            raise ImportError(f"{name} is forbidden here", name=name)


def main(folder: str, forbidden: str, *names: str) -> None:
    sys.path.insert(0, folder)
    refuser = Refuser(set(forbidden.split(",")))
    sys.meta_path.insert(0, refuser)
    for name in names:
        refuser.asked.clear()
        try:
            importlib.import_module(name)
        except ImportError:
            if not refuser.asked:
                raise
        if refuser.asked:
            print(name, refuser.asked[0])


if __name__ == "__main__":
    main(*sys.argv[1:])
