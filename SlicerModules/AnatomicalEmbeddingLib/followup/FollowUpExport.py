"""Export of a follow-up from the scene: volumes, DICOM files and the file name that the engine needs."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

import slicer
from slicer.i18n import tr as _

from ..shared.VolumeNodes import snapshot
from .FollowUpLogic import FollowUpLogic

_ATTRIBUTE = "DICOM.instanceUIDs"  # of the volume node, by the DICOM module


def exportFollowUp(logic: FollowUpLogic, folder: str | Path, kinds: Iterable[str]) -> tuple[list[Path], list[str]]:
    """Write files of some kinds, named after the patient: see `AnatomicalEmbedding.followup.export.export`."""
    from AnatomicalEmbedding.followup.export import HTML, export

    pictured = logic.volumes.items() if HTML in kinds else ()
    volumes = {study: snapshot(node).volume() for study, node in pictured}
    sources = {study: _instanceFiles(node) for study, node in logic.volumes.items()}
    name = re.sub(r"[^\w.-]+", "-", f"follow-up {logic.patient.name}".strip()).strip(".-")
    return export(logic.record, folder, volumes, sources, name, kinds)


def _instanceFiles(volumeNode) -> list[str]:
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
