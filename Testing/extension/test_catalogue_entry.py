"""The entry for the extensions index (Resources/Packaging), against the index's own checks."""

from __future__ import annotations

import json
import re
from urllib.parse import urlsplit

import pytest
from stage_install import ROOT

PATH = ROOT / "Resources/Packaging/AnatomicalEmbedding.json"
SCHEMA = re.compile(
    r"https://raw\.githubusercontent\.com/Slicer/Slicer/main/Schemas/slicer-extension-catalog-entry-schema-v1\.0\.(\d)\.json#"
)
REQUIRED = {"$schema": str, "category": str, "scm_url": str}
OPTIONAL = {
    "scm_revision": str,
    "scm_type": str,
    "build_dependencies": list,
    "build_subdirectory": str,
    "enabled": bool,
    "tier": int,
    "dicom_support_rule": str,  # since version 1.0.2
}
CATEGORIES = {"Analysis", "Informatics", "Quantification", "Radiotherapy", "Registration", "Segmentation", "Utilities"}


def entry_problems(name: str, text: str) -> list[str]:
    """What the index would say of the entry `name`.json."""
    entry = json.loads(text)
    problems = ["not of LF line ends alone"] if "\r" in text else []
    problems += [f"{key} is missing" for key in REQUIRED if key not in entry]
    known = REQUIRED | OPTIONAL
    problems += [f"{key} is unknown" for key in entry if key not in known]
    problems += [
        f"{key} is not a {known[key].__name__}" for key in entry if key in known and type(entry[key]) is not known[key]
    ]
    schema = SCHEMA.fullmatch(entry.get("$schema", ""))
    if not schema:
        problems.append("$schema is none of the catalogue's")
    elif int(schema[1]) < 2 and "dicom_support_rule" in entry:
        problems.append("dicom_support_rule needs schema 1.0.2")
    if entry.get("category") not in CATEGORIES:
        problems.append("category is not a known one")
    if entry.get("tier", 1) not in (1, 3, 5):
        problems.append("tier is none of 1, 3, 5")
    address = urlsplit(entry.get("scm_url", ""))
    if address.scheme not in ("https", "git") or not address.path.rsplit("/", 1)[-1].startswith("Slicer"):
        problems.append("scm_url is not the address of a repository called Slicer...")
    if name.lower().startswith("slicer"):
        problems.append("the extension's name starts with Slicer")
    return problems


def test_the_entry_is_one_the_index_takes() -> None:
    assert entry_problems(PATH.stem, PATH.read_text()) == []


@pytest.mark.parametrize(
    ("key", "value", "problem"),
    [
        ("category", None, "category is missing"),
        ("category", "Anatomy", "category is not a known one"),
        ("homepage", "https://example.org", "homepage is unknown"),
        ("build_dependencies", "PyTorch", "build_dependencies is not a list"),
        ("tier", 2, "tier is none of 1, 3, 5"),
        ("scm_url", "https://example.org/Embedding", "scm_url is not the address of a repository called Slicer..."),
        ("$schema", "https://example.org/schema.json", "$schema is none of the catalogue's"),
    ],
)  # fmt: skip
def test_it_can_fail(key: str, value: object, problem: str) -> None:
    entry = json.loads(PATH.read_text()) | {key: value}
    if value is None:
        del entry[key]
    assert problem in entry_problems(PATH.stem, json.dumps(entry))


def test_an_older_schema_has_no_dicom_rule() -> None:
    text = PATH.read_text().replace("v1.0.2", "v1.0.1")
    assert entry_problems(PATH.stem, text) == ["dicom_support_rule needs schema 1.0.2"]


def test_names_and_line_ends_count() -> None:
    assert entry_problems("SlicerSample", PATH.read_text()) == ["the extension's name starts with Slicer"]
    assert entry_problems(PATH.stem, PATH.read_text().replace("\n", "\r\n")) == ["not of LF line ends alone"]


def test_the_entry_agrees_with_cmake() -> None:
    text = (ROOT / "CMakeLists.txt").read_text()
    entry = json.loads(PATH.read_text())
    assert re.search(r"^project\((\w+)\)$", text, re.MULTILINE)[1] == PATH.stem
    assert re.search(r'^set\(EXTENSION_DEPENDS "(.*)"\)$', text, re.MULTILINE)[1].split() == entry["build_dependencies"]
    homepage = re.search(r'^set\(EXTENSION_HOMEPAGE "(.*)"\)$', text, re.MULTILINE)[1]
    assert entry["scm_url"] == f"{homepage}.git"


def test_pictures_lie_where_cmake_says() -> None:
    """The addresses are those of the repository's main branch; their paths must exist in this checkout."""
    text = (ROOT / "CMakeLists.txt").read_text()
    homepage = re.search(r'^set\(EXTENSION_HOMEPAGE "https://github\.com/(.*)"\)$', text, re.MULTILINE)[1]
    addresses = " ".join(
        re.findall(r'^set\(EXTENSION_(?:ICONURL|SCREENSHOTURLS) "(.*)"\)$', text, re.MULTILINE)
    ).split()
    assert len(addresses) >= 2
    for address in addresses:
        front, path = address.split("/main/")
        assert front == f"https://raw.githubusercontent.com/{homepage}"
        assert (ROOT / path).is_file(), address


def test_a_licence_lies_where_the_index_looks() -> None:
    """Its check_license_file takes these names, in the repository's root."""
    assert any((ROOT / name).is_file() for name in ("LICENSE", "LICENSE.txt"))
