"""Sample data of the extension, in the category "AnatomicalEmbedding" of the Sample Data module.

A pair of synthetic patients is part of the extension and needs neither network nor PyTorch. The public CTs are the same
files as in Slicer's own sample data, with the same checksums. A file is downloaded only when the user clicks on it.
"""

import json

from .. import moduleResource

CATEGORY = "AnatomicalEmbedding"


def registerSampleData() -> None:
    """Register our samples with the Sample Data module. A second call changes nothing."""
    import SampleData

    for source in sampleSources():
        SampleData.SampleDataLogic.registerCustomSampleDataSource(**source)


def sampleSources() -> list[dict]:
    """Return the arguments of `registerCustomSampleDataSource` for each sample. Files on disk have `file:` URIs."""
    from AnatomicalEmbedding.resources import resource

    folder = resource("SampleData")
    sources = []
    for sample in json.loads((folder / "samples.json").read_text(encoding="utf-8")):
        source = {
            "category": CATEGORY,
            "sampleName": sample["name"],
            "uris": [],
            "fileNames": [],
            "nodeNames": [file["node"] for file in sample["files"]],
            "loadFileTypes": [file["type"] for file in sample["files"]],
            "checksums": [file["checksum"] for file in sample["files"]],
            "thumbnailFileName": str(moduleResource("Icons") / sample["thumbnail"]),
        }
        for file in sample["files"]:
            source["uris"].append(file.get("uri") or (folder / file["path"]).resolve().as_uri())
            source["fileNames"].append(file.get("fileName") or f"{CATEGORY}-{file['path']}")
        sources.append(source)
    return sources
