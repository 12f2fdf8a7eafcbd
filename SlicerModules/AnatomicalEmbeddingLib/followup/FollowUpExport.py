"""Export of a follow-up from the scene: volumes, DICOM files and the file name that the engine needs."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import slicer
from slicer.i18n import tr as _

from ..shared.VolumeNodes import snapshot
from .FollowUpLogic import FollowUpLogic

if TYPE_CHECKING:
    from AnatomicalEmbedding.followup.export import Exported


def exportFollowUp(
    logic: FollowUpLogic, folder: str | Path, kinds: Iterable[str], instanceFiles: Mapping[str, list[str]]
) -> Exported:
    """Write files of some kinds (see `AnatomicalEmbedding.followup.export`), named after the patient.

    instanceFiles: by study key, the DICOM files that structured reports refer to. Raises AnatomicalEmbeddingError where
    nothing could be written.
    """
    from AnatomicalEmbedding.followup.export import HTML, export

    pictured = logic.volumes.items() if HTML in kinds else ()
    volumes = {study: snapshot(node).volume() for study, node in pictured}
    return export(logic.record, folder, volumes, instanceFiles, fileName(logic), kinds)


def fileName(logic: FollowUpLogic) -> str:
    """The name of the files of the patient, without an ending."""
    patient = logic.patient.name if logic.patient is not None else ""
    return re.sub(r"[^\w.-]+", "-", f"follow-up {patient}".strip()).strip(".-")


_ATTRIBUTE = "DICOM.instanceUIDs"  # of the volume node, by the DICOM module


def instanceFiles(volumeNode) -> list[str]:
    """Paths of the slices of a volume; [] where any of them is unknown or missing."""
    if not _isFromDatabase(volumeNode):
        return []
    files = [slicer.dicomDatabase.fileForInstance(uid) for uid in volumeNode.GetAttribute(_ATTRIBUTE).split()]
    return files if all(file and Path(file).is_file() for file in files) else []


def whyNoReports(volumeNodes) -> str:
    """Why no volume can have a structured report, as a sentence; "" where one may have it. Looks up no file."""
    if any(_isFromDatabase(node) for node in volumeNodes):
        return ""
    return _(
        "A structured report refers to DICOM images, and no scan here was loaded from the DICOM database: "
        "import the series in the DICOM module and load them from there."
    )


def _isFromDatabase(volumeNode) -> bool:
    database = getattr(slicer, "dicomDatabase", None)
    return database is not None and database.isOpen and bool(volumeNode.GetAttribute(_ATTRIBUTE))
