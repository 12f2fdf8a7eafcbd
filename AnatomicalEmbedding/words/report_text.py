"""Read the text of a radiology report from a plain text file or a DICOM structured report."""

from pathlib import Path

from ..errors import AnatomicalEmbeddingError

_DICOM_AT = 128  # bytes before the letters DICM: DICOM PS3.10, 7.1
_BYTES_LIMIT = 4_000_000  # by hand: far more than a report has


def read_report(path: str | Path) -> str:
    """Read the text of a report. Raises AnatomicalEmbeddingError for a missing, too large or damaged file."""
    path = Path(path)
    try:
        if path.stat().st_size > _BYTES_LIMIT:
            raise AnatomicalEmbeddingError(
                f"{path}: the file is larger than 4 MB; give a file with one report."
            )
        content = path.read_bytes()
    except FileNotFoundError:
        raise AnatomicalEmbeddingError(f"{path}: no such file; check the path.") from None
    except OSError as error:
        raise AnatomicalEmbeddingError(
            f"{path}: cannot be read ({error.strerror}); check its permissions."
        ) from error
    if content[_DICOM_AT : _DICOM_AT + 4] == b"DICM":
        return _sr_text(path)
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError:
        return content.decode("cp1252", "replace")


def _sr_text(path: Path) -> str:
    """Return all texts of a DICOM structured report, one a line. Raises AnatomicalEmbeddingError without any."""
    import pydicom

    try:
        document = pydicom.dcmread(path, stop_before_pixels=True)
        texts = [str(item.value) for item in document.iterall() if item.keyword == "TextValue"]
    except Exception:  # pydicom raises errors of many types for damaged files
        raise AnatomicalEmbeddingError(
            f"{path}: the DICOM file is damaged; export the report again."
        ) from None
    if not texts:
        raise AnatomicalEmbeddingError(
            f"{path}: the DICOM file contains no text; give a structured report."
        )
    return "\n".join(texts)
