"""Sample data of the extension, in the category "AnatomicalEmbedding" of the Sample Data module.

A pair of synthetic patients ships with the extension and needs neither network nor PyTorch. Public CTs are those of
Slicer's own sample data, with its checksums; they are downloaded when the user clicks on them, not before.
"""

from __future__ import annotations

import json
from pathlib import Path

from .. import moduleResource

CATEGORY = "AnatomicalEmbedding"


def registerSampleData() -> None:
    """Register our samples with the Sample Data module. Each of our modules does so; a second time changes nothing."""
    import SampleData

    for source in sampleSources():
        SampleData.SampleDataLogic.registerCustomSampleDataSource(**source)


def sampleSources() -> list[dict]:
    """The arguments of `registerCustomSampleDataSource` for each sample. Files that ship have `file:` addresses."""
    from AnatomicalEmbedding.resources import resource

    folder = resource("SampleData")
    samples = json.loads((folder / "samples.json").read_text(encoding="utf-8"))
    return [_source(sample, folder) for sample in samples]


def _source(sample: dict, folder: Path) -> dict:
    files = sample["files"]
    return {
        "category": CATEGORY,
        "sampleName": sample["name"],
        "uris": [file.get("uri") or (folder / file["path"]).resolve().as_uri() for file in files],
        "fileNames": [file.get("fileName") or f"{CATEGORY}-{file['path']}" for file in files],
        "nodeNames": [file["node"] for file in files],
        "loadFileTypes": [file["type"] for file in files],
        "checksums": [file["checksum"] for file in files],
        "thumbnailFileName": str(moduleResource("Icons") / sample["thumbnail"]),
    }
