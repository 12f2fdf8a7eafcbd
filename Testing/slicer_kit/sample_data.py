# ruff: noqa: N802, N803 - the names are those of Slicer and Qt
"""Double of the SampleData module: sources that modules register are written down and can be checked."""

from pathlib import Path


class SampleDataSource:
    """One registered sample, with the arguments of registerCustomSampleDataSource as attributes."""

    def __init__(self, **fields) -> None:
        self.__dict__.update(fields)


class SampleDataLogic:
    """The part of the original that modules call."""

    @staticmethod
    def registerCustomSampleDataSource(
        category="Custom",
        sampleName=None,
        uris=None,
        fileNames=None,
        nodeNames=None,
        customDownloader=None,
        thumbnailFileName=None,
        loadFileType="VolumeFile",
        loadFiles=None,
        loadFileProperties=None,
        checksums=None,
    ) -> None:
        """Write the source down; ValueError where lists differ in length or a thumbnail is missing."""
        as_list = lambda value: value if isinstance(value, list) or value is None else [value]  # noqa: E731
        lists = [as_list(value) for value in (uris, fileNames, nodeNames, checksums) if value is not None]
        if len({len(items) for items in lists}) > 1:
            raise ValueError(f"sample {sampleName}: uris, fileNames, nodeNames and checksums differ in number")
        if thumbnailFileName is not None and not Path(thumbnailFileName).is_file():
            raise ValueError(f"sample {sampleName}: no thumbnail {thumbnailFileName}")
        source = SampleDataSource(
            category=category,
            sampleName=sampleName,
            uris=as_list(uris),
            fileNames=as_list(fileNames),
            nodeNames=as_list(nodeNames),
            customDownloader=customDownloader,
            thumbnailFileName=thumbnailFileName,
            loadFileType=loadFileType,
            loadFiles=loadFiles,
            loadFileProperties=loadFileProperties or {},
            checksums=as_list(checksums),
        )
        sources.append(source)


sources: list[SampleDataSource] = []
