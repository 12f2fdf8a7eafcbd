"""Films: radiographs read as scans with one slice. Reads PNG, TIFF and DICOM (CR, DX and other projections).

A film lies in the plane of R and S, in mm of the detector, which lies behind the patient: structures appear 5 to 20 %
larger than they are. The centre of the film is at (0, 0, 0) RAS mm. Grey values increase with the attenuation.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from ..errors import VolumeError
from .checks import MIN_EXTENT_MM, check_claimed, check_spacing, parse_numbers
from .dicom_lengths import lengths_fit

if TYPE_CHECKING:
    import SimpleITK as sitk

PICTURE_SUFFIXES = (".png", ".tif", ".tiff")
MODALITIES = ("CR", "DX", "RG", "RF")
FILM_MM = 350.0  # width of a film of unknown pixel size
# a picture whose header states another width states the pixels of a screen or a printer
_WIDTHS_MM = (100.0, 600.0)
_LONGEST_MM = 1500.0  # longest side; by hand, not tuned
_FEWEST_PIXELS = 64  # along a side; by hand, not tuned
# View Position, DICOM PS3.3 C.8.11.5.1.1
_SIDEWAYS = ("LL", "RL", "LLD", "RLD", "LATERAL", "LLO", "RLO")
_TAGS = {
    "patient": "0010|0020",
    "view": "0018|5101",
    "imager": "0018|1164",
    "pixel": "0028|0030",
    "orientation": "0020|0020",
}
FilmParts = tuple[np.ndarray, np.ndarray, tuple[str, ...], str]
"""Grey values (1, j, i), which increase with the attenuation; ijk_to_ras (4, 4); notes; and the Patient ID or ""."""


def is_picture(path: Path) -> bool:
    """Return True if the suffix of a file is .png, .tif or .tiff."""
    return path.suffix.lower() in PICTURE_SUFFIXES


def film_matrix(shape: tuple[int, int], pixel_mm: tuple[float, float]) -> np.ndarray:
    """Make the matrix (4, 4) from pixels (x, y, 0) to RAS mm of a film of which a viewer sees the front of the patient.

    Args:
        shape: number of rows and columns.
        pixel_mm: mm from column to column, and from row to row.
    """
    rows, columns = shape
    x_mm, y_mm = pixel_mm
    return np.array(
        [
            [-x_mm, 0, 0, x_mm * (columns - 1) / 2],
            [0, 0, -1, 0],
            [0, -y_mm, 0, y_mm * (rows - 1) / 2],
            [0, 0, 0, 1.0],
        ]
    )


def read_film(path: Path) -> FilmParts:
    """Read a film: a picture (PNG, TIFF) or a DICOM radiograph. Raises VolumeError if it cannot be used."""
    import SimpleITK as sitk  # takes long to load, and Slicer's modules need the other functions of this file at once

    kind = "GDCM"
    if is_picture(path):
        kind = "PNG" if path.suffix.lower() == ".png" else "TIFF"
    reader = sitk.ImageFileReader()
    reader.SetImageIO(f"{kind}ImageIO")
    reader.SetFileName(str(path))
    try:
        if kind == "GDCM" and not lengths_fit(path):
            raise ValueError("states lengths beyond its end")
        reader.ReadImageInformation()
        check_claimed(reader.GetSize(), 1, path.stat().st_size, str(path))
        image = reader.Execute()
    except (RuntimeError, ValueError) as error:
        raise VolumeError(
            f"{path}: is damaged, or is not a {kind} file; export the film again."
        ) from error
    values = sitk.GetArrayFromImage(image)
    if image.GetNumberOfComponentsPerPixel() > 1:
        values = without_colours(values, str(path))
    if values.ndim == 3 and len(values) == 1:
        values = values[0]
    if values.ndim != 2:
        raise VolumeError(f"{path}: has {len(values)} pictures; give one film.")
    patient = ""
    if kind == "GDCM":
        tags = read_tags(reader, _TAGS)
        patient = tags["patient"]
        values, spacing, notes = _with_dicom_size(values, tags, path)
    else:
        spacing, notes = pixel_size(image.GetSpacing()[:2], values.shape[1])
    check_film_size((1, *values.shape), spacing, str(path))
    return values[None].astype(np.float32), film_matrix(values.shape, spacing), notes, patient


def read_tags(reader: sitk.ImageFileReader, tags: dict[str, str]) -> dict[str, str]:
    """Return the texts of DICOM elements in the header that a reader has read; "" if one is missing.

    tags: name -> tag of an element, such as "0010|0020".
    """
    return {
        name: reader.GetMetaData(tag).strip() if reader.HasMetaDataKey(tag) else ""
        for name, tag in tags.items()
    }


def _with_dicom_size(
    values: np.ndarray, tags: dict[str, str], path: Path
) -> tuple[np.ndarray, tuple[float, float], tuple[str, ...]]:
    """Return the pixels (j, i) of a DICOM film with the patient's right on the left, the size of a pixel along x and y,
    mm, and notes.

    SimpleITK has inverted `values` if the film is MONOCHROME1. tags: name in _TAGS -> text, "" if it is missing.
    """
    notes: tuple[str, ...] = ()
    if tags["view"].upper() in _SIDEWAYS:
        raise VolumeError(
            f"{path}: is a film from the side (view position {tags['view']}); give a film from the front."
        )
    if tags["orientation"].upper().startswith("R"):
        values = values[:, ::-1]
        notes = ("the film was stored mirrored; it is shown with the patient's right on the left",)
    text = tags["imager"] or tags["pixel"]
    if not text:
        spacing, unknown = pixel_size((1.0, 1.0), values.shape[1])
        return values, spacing, notes + unknown
    sizes = parse_numbers(text, 2, "\\")
    if sizes is None:
        raise VolumeError(
            f"{path}: the pixel size {text!r} is no pair of numbers; export the film again."
        )
    down, across = sizes.tolist()
    return values, (across, down), notes


def without_colours(values: np.ndarray, where: str) -> np.ndarray:
    """Return the first component of values (..., c). Raises VolumeError unless red, green and blue are equal."""
    if np.ptp(values[..., : min(3, values.shape[-1])], axis=-1).any():
        raise VolumeError(f"{where}: is a picture in colour; give the film in grey.")
    return values[..., 0]


def pixel_size(
    spacing: tuple[float, float], columns: int
) -> tuple[tuple[float, float], tuple[str, ...]]:
    """Return the size of a film's pixels along x and y, mm, and notes.

    spacing: as the file of a picture states it. Without a size, or with an impossible width, FILM_MM is the width.
    """
    if abs(spacing[0] - 1) > 1e-3 and _WIDTHS_MM[0] <= spacing[0] * columns <= _WIDTHS_MM[1]:
        return spacing, ()
    size = FILM_MM / columns
    note = f"the file states no pixel size; the film is taken as {FILM_MM:g} mm wide"
    return (size, size), (note,)


def check_film_size(shape: tuple[int, int, int], pixel_mm: tuple[float, ...], where: str) -> None:
    """Raise VolumeError unless a film has at least 64 x 64 pixels and a possible size in mm.

    Args:
        shape: (1, j, i).
        pixel_mm: size of a pixel along i and j.
        where: the file, for the message.
    """
    if min(shape[1:]) < _FEWEST_PIXELS:
        raise VolumeError(
            f"{where}: has {shape[2]} x {shape[1]} pixels; give a film of at least {_FEWEST_PIXELS} x {_FEWEST_PIXELS}."
        )
    check_spacing(np.array(pixel_mm), where)
    across = shape[2] * pixel_mm[0]
    down = shape[1] * pixel_mm[1]
    if min(across, down) < MIN_EXTENT_MM or max(across, down) > _LONGEST_MM:
        raise VolumeError(
            f"{where}: a film of {across:.0f} x {down:.0f} mm is impossible; state --film-width-mm."
        )
