"""Memory of `anatemb view` over many clicks and uploads, by a real browser: it must stay flat, and the log clean.

.venv-views/bin/python Testing/benchmarks/viewer_soak.py --clicks 500 --uploads 50
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
from pathlib import Path

_TESTING = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(each) for each in (_TESTING / "viewer", _TESTING, _TESTING.parent / "tools", _TESTING.parent)]

from browsing import Page, Running, open_browser  # noqa: E402

from AnatomicalEmbedding.phantom import make_phantom  # noqa: E402

_SEEDS = (71, 72)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--clicks", type=int, default=500)
    parser.add_argument("--uploads", type=int, default=50)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name, open_browser() as browser:
        folder = Path(name)
        paths = [folder / "prior.nii.gz", folder / "current.nii.gz"]
        for seed, path in zip(_SEEDS, paths, strict=True):
            make_phantom(seed, spacing=(4.0, 4.0, 4.0), coverage_mm=(150.0, 480.0)).volume.write(path)
        copy = folder / "again.nii.gz"
        shutil.copy(paths[1], copy)
        with Running(folder, *map(str, paths)) as program:
            page = Page(browser, program)
            page.wait_ready(2)
            clicks = _measured("click", options.clicks, lambda n: _click(page, n), program)
            uploads = _measured("upload", options.uploads, lambda _n: _upload(page, copy), program)
            faults = [*page.faults, *program.errors()]
    print(f"growth of memory: {clicks:+.1%} over clicks, {uploads:+.1%} over uploads; errors: {faults or 'none'}")
    return 1 if faults or max(clicks, uploads) > 0.05 else 0


def _measured(what: str, count: int, act, program: Running) -> float:
    """Do something many times; growth of memory from a fifth of them, when all has been used once, to the end."""
    start = program.memory_mb()
    for n in range(count):
        if n == count // 5:
            start = program.memory_mb()
        act(n)
        if n % max(1, count // 10) == 0:
            print(f"{what} {n}: {program.memory_mb():.0f} MB", flush=True)
    return program.memory_mb() / start - 1


def _click(page: Page, n: int) -> None:
    page.add_point("scan0axial", 0.4 + 0.02 * (n % 10), 0.4 + 0.02 * (n // 10 % 10))
    page.page.click("[data-point] tr.point button")
    page.wait("document.querySelectorAll('[data-point]').length === 0")


def _upload(page: Page, path: Path) -> None:
    page.send(path)
    page.wait_ready(3)
    page.page.click("li[data-scan=again] > button")
    page.wait("document.querySelectorAll('li[data-scan]').length === 2")


if __name__ == "__main__":
    raise SystemExit(main())
