# ruff: noqa: N802, N803 - the names are those of Slicer and Qt
"""Double of the module SampleData: records the sources that modules register, so that tests can check them."""

from pathlib import Path
from types import SimpleNamespace

sources: list[SimpleNamespace] = []


class SampleDataLogic:
    """The part of the original that modules call."""

    @staticmethod
    def registerCustomSampleDataSource(
        category,
        sampleName,
        uris,
        fileNames,
        nodeNames,
        thumbnailFileName,
        loadFileTypes,
        checksums,
    ) -> None:
        """Write the source down; ValueError where lists differ in length or a thumbnail is missing."""
        sample = SimpleNamespace(**locals())
        if len({len(items) for items in (sample.uris, sample.fileNames, sample.nodeNames)}) > 1:
            raise ValueError(
                f"sample {sample.sampleName}: uris, fileNames and nodeNames differ in number"
            )
        if not Path(sample.thumbnailFileName).is_file():
            raise ValueError(f"sample {sample.sampleName}: no thumbnail {sample.thumbnailFileName}")
        sources.append(sample)
