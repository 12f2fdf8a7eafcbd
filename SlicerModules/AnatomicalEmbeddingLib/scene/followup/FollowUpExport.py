"""Files of a follow-up: what the engine's export needs of the scene. No Qt."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from ..VolumeNodes import snapshot
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
    """Of the patient's files, without an ending."""
    patient = logic.patient.name if logic.patient is not None else ""
    return re.sub(r"[^\w.-]+", "-", f"follow-up {patient}".strip()).strip(".-")
