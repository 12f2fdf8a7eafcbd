# ruff: noqa: N802, N803 - the names are those of Slicer and Qt
"""Double of the SampleData module: sources that modules register are written down and can be checked."""

from pathlib import Path
from types import SimpleNamespace


class SampleDataLogic:
    """The part of the original that modules call."""

    @staticmethod
    def registerCustomSampleDataSource(
        category: str, sampleName: str, uris: list, fileNames: list, nodeNames: list, thumbnailFileName: str, **more
    ) -> None:
        """Write the source down; ValueError where lists differ in length or a thumbnail is missing."""
        if len({len(items) for items in (uris, fileNames, nodeNames)}) > 1:
            raise ValueError(f"sample {sampleName}: uris, fileNames and nodeNames differ in number")
        if not Path(thumbnailFileName).is_file():
            raise ValueError(f"sample {sampleName}: no thumbnail {thumbnailFileName}")
        given = {"category": category, "sampleName": sampleName, "uris": uris, "fileNames": fileNames}
        more |= {"nodeNames": nodeNames, "thumbnailFileName": thumbnailFileName}
        sources.append(SimpleNamespace(**given, **more))


sources: list[SimpleNamespace] = []
