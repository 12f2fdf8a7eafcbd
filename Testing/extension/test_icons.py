"""Test icons: the extension and each module have one, drawn as .svg and rendered as .png."""

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
