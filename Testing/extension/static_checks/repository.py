"""Checks of the checkout as a whole."""

from __future__ import annotations

import subprocess
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

INDEX_LIMIT_BYTES = 100 * 1000**2  # the extensions index refuses larger checkouts


def checkout_files(root: Path) -> list[Path]:
    """Files that are, or would be, in the repository. Raises OSError, CalledProcessError outside of a git checkout."""
    command = ["git", "-C", root, "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    names = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split("\0")
    return [root / name for name in names if name and (root / name).is_file()]


def too_large(files: Iterable[Path], limit: int = INDEX_LIMIT_BYTES) -> list[str]:
    sizes = {path: path.stat().st_size for path in files}
    total = sum(sizes.values())
    if total <= limit:
        return []
    largest = max(sizes, key=sizes.__getitem__)
    return [f"the checkout holds {total / 1e6:.0f} MB, {limit / 1e6:.0f} are allowed; the largest is {largest}"]


def shared_test_names(files: Iterable[Path]) -> list[str]:
    """Python files of the tests that have one name: pytest imports them by name alone, but for those of packages."""
    names = Counter(path.name for path in files if path.suffix == ".py" and not (path.parent / "__init__.py").is_file())
    return [
        f"{count} test files are called {name}" for name, count in names.items() if count > 1 and name != "conftest.py"
    ]
