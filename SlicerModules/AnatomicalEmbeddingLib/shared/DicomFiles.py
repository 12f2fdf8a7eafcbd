"""The DICOM files of volume nodes, to which structured reports refer."""

from collections.abc import Iterable
from pathlib import Path

import slicer
from slicer.i18n import tr as _

_ATTRIBUTE = "DICOM.instanceUIDs"  # volume attribute, set by the DICOM module of Slicer


def instanceFiles(volumeNode) -> list[str]:
    """Return the paths of the DICOM files of all slices of a volume; [] if a file is unknown or missing."""
    if not _isFromDatabase(volumeNode):
        return []
    files = [
        slicer.dicomDatabase.fileForInstance(uid)
        for uid in volumeNode.GetAttribute(_ATTRIBUTE).split()
    ]
    return files if all(file and Path(file).is_file() for file in files) else []


def whyNoReports(volumeNodes: Iterable) -> str:
    """Return why no structured report can be written, as a sentence; "" if at least one volume is from DICOM."""
    if any(_isFromDatabase(node) for node in volumeNodes):
        return ""
    return _(
        "A structured report refers to DICOM images, and no scan here was loaded from the DICOM database: "
        "import the series in the DICOM module, and load the series in that module."
    )


def _isFromDatabase(volumeNode) -> bool:
    """Return True if the volume's DICOM files can be found in Slicer's database."""
    database = getattr(slicer, "dicomDatabase", None)
    return database is not None and database.isOpen and bool(volumeNode.GetAttribute(_ATTRIBUTE))
