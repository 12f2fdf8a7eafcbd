"""Test the entry for Slicer's extensions index (Resources/Packaging): its fields agree with CMakeLists.txt."""

import json
import re

from stage_install import ROOT

PATH = ROOT / "Resources/Packaging/AnatomicalEmbedding.json"
CATEGORIES = {
    "Analysis",
    "Informatics",
    "Quantification",
    "Radiotherapy",
    "Registration",
    "Segmentation",
    "Utilities",
}


def _setting(name: str) -> str:
    return re.search(
        rf'^set\({name} "(.*)"\)$', (ROOT / "CMakeLists.txt").read_text(), re.MULTILINE
    )[1]


def test_the_entry_is_one_the_index_takes() -> None:
    entry = json.loads(PATH.read_text())
    assert {"$schema", "category", "scm_url"} <= entry.keys()
    assert entry["category"] in CATEGORIES
    assert entry.get("tier", 1) in (1, 3, 5)
    assert entry["scm_url"] == f"{_setting('EXTENSION_HOMEPAGE')}.git"
    assert entry["scm_url"].rsplit("/", 1)[-1].startswith("Slicer")
    assert entry["build_dependencies"] == _setting("EXTENSION_DEPENDS").split()
    assert any((ROOT / name).is_file() for name in ("LICENSE", "LICENSE.txt")), (
        "the index looks for these names"
    )
