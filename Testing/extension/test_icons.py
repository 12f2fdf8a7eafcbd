"""Icons: one for the extension and one a module, drawn as .svg, rendered to .png."""

from __future__ import annotations

from pathlib import Path

import pytest
from render_icons import drawings, render
from stage_install import ROOT
from static_checks import Extension
from static_checks.modules import icon_problems

MODULE_ICONS = ROOT / "SlicerModules/Resources/Icons"


def test_the_extension_has_an_icon() -> None:
    assert icon_problems(ROOT / "Resources/Icons", "AnatomicalEmbedding") == []


def test_every_module_has_an_icon(extension: Extension) -> None:
    names = [module.module_name for module in extension.modules]
    assert names
    assert [problem for name in names for problem in icon_problems(MODULE_ICONS, name)] == []


@pytest.mark.usefixtures("drawing")
@pytest.mark.parametrize("icon", drawings(), ids=lambda path: path.stem)
def test_pictures_show_the_drawings(icon: Path) -> None:
    """Versions of Qt differ in how they smooth an edge, so pixels may differ a little, few of them much."""
    difference = _difference(icon, icon.with_suffix(".png"))
    assert difference < 0.01, "run: python tools/render_icons.py"


def _difference(icon: Path, picture: Path) -> float:
    """Mean absolute difference of an icon's drawing and a picture, 0 to 1."""
    import numpy as np
    from PySide6.QtGui import QImage

    shown = QImage(str(picture)).convertToFormat(QImage.Format.Format_ARGB32)
    images = [np.frombuffer(image.constBits(), np.uint8).astype(float) for image in (render(icon), shown)]
    return float(np.abs(images[0] - images[1]).mean() / 255)
