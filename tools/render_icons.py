"""Renders the icons' drawings (.svg) to the .png files beside them: python tools/render_icons.py

Qt renders, as in Slicer, which takes the .svg of a module's icon where there is one.
"""

import os
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PIXELS = 128


def drawings() -> list[Path]:
    """The .svg files of all icons, the extension's and the modules'."""
    return sorted(
        path
        for folder in ("Resources", "SlicerModules/Resources")
        for path in ROOT.glob(f"{folder}/Icons/*.svg")
    )


def render(drawing: Path):
    """The drawing as a QImage of PIXELS x PIXELS, transparent around it. Raises ValueError where Qt cannot read it."""
    os.environ.setdefault("QT_QPA_PLATFORM", "offscreen")
    from PySide6.QtGui import QImage, QPainter
    from PySide6.QtSvg import QSvgRenderer

    renderer = QSvgRenderer(str(drawing))
    if not renderer.isValid():
        raise ValueError(f"{drawing} is not an SVG file that Qt can render")
    image = QImage(PIXELS, PIXELS, QImage.Format.Format_ARGB32)
    image.fill(0)
    painter = QPainter(image)
    renderer.render(painter)
    painter.end()
    return image


def main() -> int:
    for drawing in drawings():
        render(drawing).save(str(drawing.with_suffix(".png")))
        print(drawing.with_suffix(".png"))
    return 0


if __name__ == "__main__":
    sys.exit(main())
