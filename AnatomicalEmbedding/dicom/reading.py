"""Read a whole DICOM file, and refuse a file that is truncated or damaged."""

from __future__ import annotations

import io
from pathlib import Path
from typing import TYPE_CHECKING

from ..errors import AnatomicalEmbeddingError, require

if TYPE_CHECKING:
    from pydicom import Dataset


def read_whole(path: Path, remedy: str) -> Dataset:
    """Read a DICOM file with all its values.

    remedy: end of the error message, such as "give a structured report".

    Raises AnatomicalEmbeddingError if the file is missing, truncated or not DICOM, or if pydicom is not installed.
    """
    pydicom = require("pydicom", "pydicom", "DICOM files need", "dicom")
    try:
        document = pydicom.dcmread(_WholeFile(path.read_bytes()))
        # read every value now: pydicom reads a value only at its first use
        for _ in document.iterall():
            pass
    except FileNotFoundError as error:
        raise AnatomicalEmbeddingError(f"{path}: no such file; check the path.") from error
    except Exception as error:  # pydicom raises exceptions of many classes for damaged files
        raise AnatomicalEmbeddingError(
            f"{path}: is not DICOM or is truncated; {remedy}."
        ) from error
    return document


class _WholeFile(io.BytesIO):
    """A file in memory that raises OSError if a read ends early; pydicom alone would ignore the missing bytes."""

    def read(self, size: int | None = -1) -> bytes:
        data = super().read(size)
        if size is not None and 0 < len(data) < size:
            raise OSError("the file ends early")
        return data
