"""Points as a DICOM structured report: Comprehensive 3D SR, template TID 1500, one measurement group for each point."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

import numpy as np

from ..anatomy.codes import STRUCTURE, Code, site_codes
from ..errors import PointsError
from ..scan.dicom import is_dicom_file
from ..scan.geometry import LPS_FROM_RAS, transform_points
from ..scan.points import Measurement, PointList, read_points
from . import sr_items as tree
from .source import PRODUCT, SourceSeries, load_highdicom, result_attributes

if TYPE_CHECKING:
    from pydicom import Dataset

_DEVICE_UID = "2.25.61474311286713206218837262349214873021"  # identifies this program; the same on every machine
_ERROR = ("expected-error", tree.SCHEME, "Expected error of the place")
_MARGIN = ("margin-90", tree.SCHEME, "Half width of the 90 % interval")
_QUANTITIES: dict[str, Code] = {
    "length": ("410668003", "SCT", "Length"),
    "angle": ("1483009", "SCT", "Angle"),
    "area": ("42798000", "SCT", "Area"),
}
_COMMENT = ("121106", "DCM", "Comment")


def write_points_report(
    points: PointList,
    source: SourceSeries,
    path: str | Path,
    error_mm: Sequence[float | None] = (),
    tracking_uids: Sequence[str] = (),
    measurements: Sequence[Measurement] = (),
) -> None:
    """Write points as a structured report that refers to the images of a scan.

    Each point is a measurement group with its label as tracking identifier, its place (SCOORD3D), the slice nearest to
    the place, its description as comment, and the SNOMED CT code of the structure that the label names, if there is
    such a code.

    Args:
        points: points of the scan; at least one point.
        error_mm: expected error of each point, mm, or None; () if no error is known.
        tracking_uids: UID of each point. Points in several scans that show the same anatomical point have the same UID.
            (): each point gets a new UID.
        measurements: measurements between points; each is a measurement group without a place, with its status as
            comment. Those without a value are left out.

    Raises:
        AnatomicalEmbeddingError: highdicom is not installed, there is no point, or the file cannot be written.
    """
    hd = load_highdicom()
    if not len(points):
        raise PointsError(
            f"{source.label}: no point lies in this scan, so no DICOM report can be written."
        )
    errors = list(error_mm) or [None] * len(points)
    uids = tracking_uids or new_uids(len(points))
    comments = points.descriptions or ("",) * len(points)
    images = {}
    groups = []
    with source.writing(path) as temporary:
        for label, uid, place, comment, error in zip(
            points.labels, uids, points.points_ras, comments, errors, strict=True
        ):
            image = source.nearest(place)
            images[image.SOPInstanceUID] = image
            stated = _stated(hd, {_ERROR: error}, tree.MM)
            group = make_group(
                hd, label, uid, STRUCTURE, site_codes(label), place, image, measurements=stated
            )
            groups.append(_commented(hd, group, comment))
        for measured in measurements:
            if measured.value is not None:
                values = {_QUANTITIES[measured.quantity]: measured.value, _MARGIN: measured.margin}
                stated = _stated(hd, values, (measured.unit, "UCUM", measured.unit))
                group = make_group(hd, measured.name, str(hd.UID()), STRUCTURE, measurements=stated)
                groups.append(_commented(hd, group, measured.status))
        make_report(hd, list(images.values()), groups, "Anatomical points").save_as(temporary)


def _stated(hd: ModuleType, values: Mapping[Code, float | None], unit: Code) -> list[Any]:
    """Make the measurements of a group, in one unit. Those without a value are left out."""
    code = hd.sr.CodedConcept
    return [
        hd.sr.Measurement(code(*name), round(float(value), 2), code(*unit))
        for name, value in values.items()
        if value is not None
    ]


def new_uids(count: int) -> list[str]:
    """Make UIDs for the points of a report."""
    return [str(load_highdicom().UID()) for _ in range(count)]


def _commented(hd: ModuleType, group: Any, text: str) -> Any:
    """Add a text to a measurement group as a comment; "": no comment. Returns the group."""
    sr = hd.sr
    if text:
        below = sr.RelationshipTypeValues.CONTAINS
        group[0].ContentSequence.append(
            sr.TextContentItem(sr.CodedConcept(*_COMMENT), text, relationship_type=below)
        )
    return group


def make_group(
    hd: ModuleType,
    label: str,
    uid: str,
    finding: Code,
    site: tuple[Code, Code | None] | None = None,
    place_ras: np.ndarray | None = None,
    image: Dataset | None = None,
    **findings: Any,
) -> Any:
    """Make a measurement group.

    Args:
        hd: the module highdicom.
        label, uid: tracking identifier, and its UID.
        finding: code of the kind of finding.
        site: codes of the organ and of its side, or None.
        place_ras: (3,) RAS mm, or None if no place is known.
        image: header of the slice nearest to the place, or None if no place is known.
        findings: measurements and qualitative_evaluations, as highdicom takes them.
    """
    sr = hd.sr
    code = sr.CodedConcept
    sites = None
    if site is not None:
        organ, side = site
        sites = [sr.FindingSite(code(*organ), side and code(*side))]
    source_images = None
    if image is not None:
        source_images = [sr.SourceImageForMeasurementGroup(image.SOPClassUID, image.SOPInstanceUID)]
    group = sr.MeasurementsAndQualitativeEvaluations(
        tracking_identifier=sr.TrackingIdentifier(uid=uid, identifier=label),
        finding_type=code(*finding),
        finding_sites=sites,
        source_images=source_images,
        **findings,
    )
    if image is not None:
        group[0].ContentSequence.extend(_place_items(hd, place_ras, image))
    return group


def _place_items(hd: ModuleType, place_ras: np.ndarray, image: Dataset) -> list[Any]:
    """Make the items of a place: its pixel in the nearest slice, and its 3-D coordinates.

    The viewer OHIF uses the first of these items, and draws the pixel, but not the 3-D coordinates. A place beside the
    image has no pixel.
    """
    sr, name = hd.sr, hd.sr.CodedConcept(*tree.CENTER)
    below = {"relationship_type": sr.RelationshipTypeValues.CONTAINS}
    place_lps = transform_points(LPS_FROM_RAS, np.array([place_ras]))
    items = [sr.Scoord3DContentItem(name, "POINT", place_lps, image.FrameOfReferenceUID, **below)]
    # directions in which the numbers of columns and of rows grow
    axes = np.array(image.ImageOrientationPatient, np.float64).reshape(2, 3)
    away_mm = axes @ (place_lps[0] - np.array(image.ImagePositionPatient, np.float64))
    # PixelSpacing is that of rows, then of columns; 0 is the corner of the first pixel
    pixel = away_mm / np.array(image.PixelSpacing[::-1], np.float64) + 0.5
    if (pixel >= 0).all() and (pixel <= (image.Columns, image.Rows)).all():
        pixel_item = sr.ScoordContentItem(name, "POINT", pixel[None], **below)
        source = sr.SourceImageForRegion(image.SOPClassUID, image.SOPInstanceUID)
        pixel_item.ContentSequence = sr.ContentSequence([source], is_root=False)
        items.insert(0, pixel_item)
    return items


def make_report(
    hd: ModuleType, images: list[Dataset], groups: Iterable, title: str, is_complete: bool = True
) -> Any:
    """Make a report (TID 1500) from its measurement groups.

    Args:
        hd: the module highdicom.
        images: headers of the images to which the groups refer.
        title: description of the series.
        is_complete: whether the report contains all that it should; otherwise it is marked as partial.
    """
    sr, code = hd.sr, hd.sr.CodedConcept
    device = sr.DeviceObserverIdentifyingAttributes(_DEVICE_UID, PRODUCT, PRODUCT, PRODUCT)
    observer = sr.ObserverContext(code("121007", "DCM", "Device"), device)
    report = sr.MeasurementReport(
        observation_context=sr.ObservationContext(observer_device_context=observer),
        procedure_reported=code("25045-6", "LN", "CT unspecified body region"),
        imaging_measurements=list(groups),
        title=code("126000", "DCM", "Imaging Measurement Report"),
    )
    product = {"name": PRODUCT, "responsible_organization": PRODUCT}
    scheme = hd.coding_schemes.CodingSchemeIdentificationItem(tree.SCHEME, **product)
    document = sr.Comprehensive3DSR(
        evidence=images,
        content=report[0],
        coding_schemes=[scheme],
        is_complete=is_complete,
        **result_attributes(hd, "SR", title),
    )
    document.SpecificCharacterSet = "ISO_IR 192"  # UTF-8: names may be in any language
    return document


def read_any_points(path: str | Path, film_to_ras: np.ndarray | None = None) -> PointList:
    """Read points of a structured report (.dcm), a Slicer markups file or a .csv. film_to_ras: as in `read_points`.

    In a report, each measurement group with 3-D coordinates is a point; its label is the tracking identifier, or else
    the finding site.

    Raises:
        AnatomicalEmbeddingError: the file is missing, damaged, or contains no point.
    """
    path = Path(path)
    if path.suffix.lower() in (".json", ".csv") or not path.is_file() or not is_dicom_file(path):
        return read_points(path, film_to_ras)
    rows = []
    try:
        for number, group in enumerate(tree.measurement_groups(tree.open_report(path)), start=1):
            items = list(tree.children(group))
            place = tree.center_in(items)
            if place is not None:
                label = _text_in(items, tree.IDENTIFIER).strip() or tree.site_in(items)
                rows.append((label or str(number), place, _text_in(items, _COMMENT)))
    except (AttributeError, IndexError, TypeError, ValueError) as error:
        raise PointsError(
            f"{path}: is a damaged structured report ({error}); export the report again."
        ) from error
    if not rows:
        raise PointsError(
            f"{path}: contains no point with 3-D coordinates; give a report with SCOORD3D (TID 1500)."
        )
    return PointList.of_rows(rows)


def _text_in(items: list[Dataset], name: Code) -> str:
    """Return the text of the first item with this concept name; "" without one."""
    return next((str(item.TextValue) for item in tree.named(items, name)), "")
