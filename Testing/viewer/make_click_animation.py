"""Make Resources/Screenshots/click.webp: after clicks in one scan, three other scans show the same places.

.venv-views/bin/python Testing/viewer/make_click_animation.py
"""

from __future__ import annotations

import io
import sys
import tempfile
from pathlib import Path

from PIL import Image, ImageDraw

_TESTING = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(each) for each in (_TESTING / "viewer", _TESTING, _TESTING.parent / "tools", _TESTING.parent)]

from browsing import Page, Running, open_browser  # noqa: E402

OUTPUT = _TESTING.parent / "Resources" / "Screenshots" / "click.webp"
_SIZE, _WIDTH = (1500, 1000), 1000  # of the page, and of the picture, in pixels
_PATIENTS = ((20_001, (120.0, 600.0)), (20_002, (190.0, 600.0)), (20_007, (90.0, 520.0)), (20_011, (150.0, 640.0)))
_CLICKS = (
    ("scan0coronal", 0.60, 0.735, "Left kidney"),
    ("scan0coronal", 0.50, 0.41, "Heart"),
    ("scan0coronal", 0.37, 0.66, "Liver"),
)
_SHORT_MS, _LONG_MS = 90, 1600
_ARROW = ((0, 0), (0, 19), (5, 14), (9, 22), (12, 21), (8, 13), (14, 13))


def _write_scans(folder: Path) -> list[str]:
    from AnatomicalEmbedding.phantom import make_phantom

    paths = []
    for number, (seed, coverage) in enumerate(_PATIENTS):
        paths.append(folder / f"Patient {'ABCD'[number]}.nii.gz")
        make_phantom(seed, spacing=(2.0, 2.0, 2.5), coverage_mm=coverage).volume.write(paths[-1])
    return [str(path) for path in paths]


class _Film:
    """Pictures of the page, with the mouse drawn in."""

    def __init__(self, page: Page) -> None:
        self.page, self.frames, self.times = page, [], []
        self.mouse = (_SIZE[0] * 0.8, _SIZE[1] * 0.9)

    def take(self, milliseconds: int) -> None:
        picture = Image.open(io.BytesIO(self.page.page.screenshot())).convert("RGB")
        arrow = [(self.mouse[0] + x, self.mouse[1] + y) for x, y in _ARROW]
        ImageDraw.Draw(picture).polygon(arrow, fill="white", outline="black")
        self.frames.append(picture.resize((_WIDTH, _WIDTH * _SIZE[1] // _SIZE[0]), Image.Resampling.LANCZOS))
        self.times.append(milliseconds)

    def move_to(self, x: float, y: float, steps: int = 6) -> None:
        start = self.mouse
        for step in range(1, steps + 1):
            self.mouse = (start[0] + (x - start[0]) * step / steps, start[1] + (y - start[1]) * step / steps)
            self.page.page.mouse.move(*self.mouse)
            self.page.page.wait_for_timeout(120)
            self.take(_SHORT_MS)

    def write(self, path: Path) -> None:
        first, *rest = self.frames
        first.save(path, save_all=True, append_images=rest, duration=self.times, loop=0, quality=55, method=6)


def main() -> None:
    with tempfile.TemporaryDirectory() as name, open_browser() as browser:
        folder = Path(name)
        with Running(folder, *_write_scans(folder)) as program:
            page = Page(browser, program, _SIZE)
            page.wait_ready(len(_PATIENTS))
            page.press("fit")
            page.page.wait_for_timeout(1500)
            film = _Film(page)
            film.take(_LONG_MS)
            for view, across, down, label in _CLICKS:
                page.press("fit")
                page.place_mode()
                page.page.wait_for_timeout(800)
                film.move_to(*page.at(view, across, down))
                page.add_point(view, across, down)
                page.page.locator("[data-point] input").first.fill(label)
                page.page.keyboard.press("Enter")
                page.page.wait_for_timeout(1500)  # the pictures of all scans have come
                film.take(_LONG_MS)
            film.write(OUTPUT)
            page.close()


if __name__ == "__main__":
    main()
