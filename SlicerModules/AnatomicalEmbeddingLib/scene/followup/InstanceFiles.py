"""The DICOM files that a volume was read from, which structured reports refer to."""

from __future__ import annotations

from pathlib import Path

import slicer
from slicer.i18n import tr as _

_ATTRIBUTE = "DICOM.instanceUIDs"  # of the volume node: what the DICOM module has read it from


def instanceFiles(volumeNode) -> list[str]:
    """Paths of the slices; none where they are not known, or not there any more."""
    if not _isFromDatabase(volumeNode):
        return []
    files = [slicer.dicomDatabase.fileForInstance(uid) for uid in volumeNode.GetAttribute(_ATTRIBUTE).split()]
    return files if all(file and Path(file).is_file() for file in files) else []


def whyNoReports(volumeNodes) -> str:
    """Why there can be no structured report of any of these volumes; "" where there may be. Asks for no files, which
    takes long for many slices.
    """
    if any(_isFromDatabase(node) for node in volumeNodes):
        return ""
    return _(
        "A structured report refers to DICOM images, and none of these scans was loaded from the DICOM database: "
        "import the series in the DICOM module and load them from there."
    )


def _isFromDatabase(volumeNode) -> bool:
    database = getattr(slicer, "dicomDatabase", None)
    return database is not None and database.isOpen and bool(volumeNode.GetAttribute(_ATTRIBUTE))
