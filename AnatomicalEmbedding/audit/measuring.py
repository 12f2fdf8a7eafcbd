"""Measures the labels of one label map: place, volume, pieces, and whether the border of the map cuts a label."""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import SimpleITK as sitk

from ..anatomy.names import canonical_name
from ..scan.geometry import image_affine, slice_axis, to_image
from ..scan.label_map import LabelMap

_PIECE_ML = 0.3  # smaller pieces of a label are not reported
_FEWEST_VOXELS = 10  # smaller labels are left out
_FEWEST_SLICES = 12  # the ends of a label with fewer slices are not measured
_BORDER_MM = 4.0  # a label that ends closer to the border of the label map than this may be cut


class LabelPiece(NamedTuple):
    """A part of a label that is not connected to the label's largest part. point_ras: (3,) RAS mm, centre of mass.
    away_mm: distance between the nearest voxels of both parts."""

    point_ras: np.ndarray
    volume_ml: float
    away_mm: float


@dataclass(frozen=True, eq=False)
class MeasuredLabel:
    """One label of a label map.

    Args:
        value: value of the label's voxels. text: the label's name as the data set writes it.
        name: canonical name of the structure, or `text` if the structure is unknown.
        centre_ras: (3,) RAS mm, centre of mass of the label's largest piece.
        volume_ml: volume of the whole label.
        is_cut: whether the label reaches the border of the label map, or ends less than 4 mm away from it.
        pieces: all other pieces of at least 0.3 ml, largest first.
        flat: area of the label's first or last slice, divided by the area of its largest slice; the larger of both.
            Slices at the border of the map are not counted; 0 if the label has too few slices.
    """

    value: int
    text: str
    name: str
    centre_ras: np.ndarray
    volume_ml: float
    is_cut: bool
    pieces: tuple[LabelPiece, ...]
    flat: float


def measure_labels(labels: LabelMap) -> list[MeasuredLabel]:
    """Measure all labels of a label map. Labels with fewer than 10 voxels are left out."""
    images = [to_image(layer, labels.ijk_to_ras) for layer in labels.layers]
    shapes = [(image, _shapes(image)) for image in images]
    return [
        _measure(image, value, text, np.array(shape.GetBoundingBox(value)))
        for text, value in labels.values.items()
        for image, shape in shapes
        if shape.HasLabel(value) and shape.GetNumberOfPixels(value) >= _FEWEST_VOXELS
    ]


def _shapes(image: sitk.Image) -> sitk.LabelShapeStatisticsImageFilter:
    """Measure boxes, volumes and centres of all labels of an image."""
    shapes = sitk.LabelShapeStatisticsImageFilter()
    shapes.ComputePerimeterOff()
    shapes.Execute(image)
    return shapes


def _measure(image: sitk.Image, value: int, text: str, box: np.ndarray) -> MeasuredLabel:
    """Measure the label `value`, called `text`. box: (6,) first voxel i, j, k of its box, then the size of the box."""
    low = box[:3]
    size = box[3:]
    margin = _BORDER_MM / np.array(image.GetSpacing())
    # (lower or upper, axis)
    at_border = np.array([low <= margin, low + size >= np.array(image.GetSize()) - margin])
    mask = sitk.RegionOfInterest(image, size.tolist(), low.tolist()) == value
    parts = sitk.RelabelComponent(sitk.ConnectedComponent(mask, True))  # the largest part gets 1
    shapes = _shapes(parts)
    volumes = {n: shapes.GetPhysicalSize(n) / 1000 for n in shapes.GetLabels()}
    centres = {n: np.array(shapes.GetCentroid(n)) * (-1, -1, 1) for n in volumes}  # LPS to RAS
    numbers = sitk.GetArrayFromImage(parts)
    small = [n for n, ml in volumes.items() if n > 1 and ml >= _PIECE_ML]
    pieces: tuple[LabelPiece, ...] = ()
    if small:
        distance = sitk.SignedMaurerDistanceMap(
            parts == 1, squaredDistance=False, useImageSpacing=True
        )
        away = sitk.GetArrayFromImage(distance)  # mm from the largest part
        pieces = tuple(
            LabelPiece(centres[n], volumes[n], float(away[numbers == n].min())) for n in small
        )
    to_ras = image_affine(image)
    along = slice_axis(to_ras)  # 0, 1, 2 for i, j, k; the axes of an array are k, j, i
    area = (numbers > 0).sum(axis=tuple(axis for axis in range(3) if axis != 2 - along))
    flat = 0.0
    if len(area) >= _FEWEST_SLICES:
        flat = np.where(at_border[:, along], 0, area[[0, -1]]).max() / area.max()
    return MeasuredLabel(
        value,
        text,
        canonical_name(text),
        centres[1],
        sum(volumes.values()),
        bool(at_border.any()),
        pieces,
        float(flat),
    )
