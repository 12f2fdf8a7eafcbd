"""Files of a follow-up: all that leaves it in one zip, and the record that comes back."""

from __future__ import annotations

import shutil
import tempfile
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from AnatomicalEmbeddingLib.shared.VolumeNodes import snapshot

from .origins import UNKNOWN

if TYPE_CHECKING:
    from AnatomicalEmbedding.followup.record import FollowUp

    from .follow_up import FollowUps
    from .session import Session

_NAME = "follow-up"


def begin_export(session: Session, follow: FollowUps) -> Callable[[], BinaryIO]:
    """What writes the zip, and may run in another thread; it gives a file that goes when it is closed.

    Table, page and record, and a structured report of each study whose DICOM headers are at hand. Raises
    AnatomicalEmbeddingError where there is no lesion.
    """
    from AnatomicalEmbedding.errors import AnatomicalEmbeddingError
    from AnatomicalEmbedding.followup.export import CSV, HTML, RECORD, SR, export

    record, volumes = follow.logic.record, follow.logic.volumes
    if not record.lesions:
        raise AnatomicalEmbeddingError("There is no lesion to export yet; mark one first.")
    sources = {key: session.origins.get(node.GetID(), UNKNOWN).files for key, node in volumes.items()}
    snapshots = {key: snapshot(node) for key, node in volumes.items()}
    kinds = (CSV, HTML, RECORD, SR) if any(sources.values()) else (CSV, HTML, RECORD)

    def write() -> BinaryIO:
        folder = Path(tempfile.mkdtemp(prefix="export-", dir=session.folder))
        try:
            pictured = {key: each.volume() for key, each in snapshots.items()}
            done = export(record, folder, pictured, sources, _NAME, kinds)
            for note in done.notes:
                session.say(note)
            packed = tempfile.TemporaryFile(dir=session.folder)  # noqa: SIM115, the caller closes it
            with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
                for path in done.written:
                    archive.write(path, path.name)
            packed.seek(0)
            return packed
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    return write


def read(path: Path, shown: str) -> FollowUp:
    """A record that was sent. shown: what to call the file in sentences. Raises AnatomicalEmbeddingError."""
    from AnatomicalEmbedding.errors import AnatomicalEmbeddingError
    from AnatomicalEmbedding.followup.record_file import read_record

    try:
        return read_record(path)
    except AnatomicalEmbeddingError as error:
        raise AnatomicalEmbeddingError(str(error).replace(str(path), shown)) from error
