"""Make the landmark sets that ship: Resources/Landmarks/pelvis.landmarks.json and trunk.landmarks.json.

python tools/make_landmark_sets.py LABELMAPS [--model ct-open] [-o Resources/Landmarks]

LABELMAPS is a folder of label maps without images; those of the TotalSegmentator dataset (CC BY 4.0) are used. Examples
are images drawn from these label maps, in which the landmarks are found by the rules below. Synthetic patients are no
examples: in real scans, sets with them were less exact (Testing/benchmarks/LOG.md).
"""

import argparse
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import numpy as np
import SimpleITK as sitk

from AnatomicalEmbedding import load_model
from AnatomicalEmbedding.embedding.inference import Model
from AnatomicalEmbedding.embedding.map import EmbeddingMap
from AnatomicalEmbedding.landmarks.drawing import Drawing
from AnatomicalEmbedding.landmarks.landmark_set import SUFFIX, LandmarkSet, make_landmark_set
from AnatomicalEmbedding.landmarks.markups import LINE, PLANE, Markup
from AnatomicalEmbedding.scan.geometry import transform_points
from AnatomicalEmbedding.scan.points import PointList
from AnatomicalEmbedding.training.label_frames import place
from AnatomicalEmbedding.training.label_images import LabelledBody, make_label_image

SIDES = ("left", "right")
COLLECTION = "totalsegmentator_*.seg.nii.gz"
_TERMS = (
    "CC BY 4.0. Made of images drawn from label maps of the TotalSegmentator dataset v2 (Wasserthal et al., Radiology: "
    "AI 2023, CC BY 4.0), in which the points were placed by rule."
)
_CLOSING_MM = 12.0  # wider than a renal hilum
_HEAD_GAP_MM = 6.0  # the femur lies this near to the hip bone around its head
_HEAD_MM = 25.0  # about the radius of a femoral head
_MIDLINE_MM, _PROMONTORY_MM = 15.0, 60.0

PELVIS = {
    "ASIS": SIDES, "PSIS": SIDES, "femoral head": SIDES,
    "sacral promontory": (), "symphysis": (),
}  # fmt: skip
TRUNK = {
    "lung apex": SIDES, "diaphragm dome": SIDES, "kidney upper pole": SIDES, "kidney hilum": SIDES,
    "kidney lower pole": SIDES, "iliac crest": SIDES, "carina": (), "aortic arch top": (), "aortic bifurcation": (),
}  # fmt: skip
PELVIS_MARKUPS = (
    Markup(LINE, "interspinous distance", ("ASIS left", "ASIS right")),
    Markup(LINE, "true conjugate", ("sacral promontory", "symphysis")),
    Markup(LINE, "femoral head distance", ("femoral head left", "femoral head right")),
    Markup(PLANE, "anterior pelvic plane", ("ASIS left", "ASIS right", "symphysis")),
)
TRUNK_MARKUPS = (
    Markup(LINE, "kidney length left", ("kidney upper pole left", "kidney lower pole left")),
    Markup(LINE, "kidney length right", ("kidney upper pole right", "kidney lower pole right")),
    Markup(LINE, "lung height right", ("lung apex right", "diaphragm dome right")),
    Markup(LINE, "lung height left", ("lung apex left", "diaphragm dome left")),
)


def names_of(landmarks: dict[str, tuple[str, ...]]) -> list[str]:
    """Return the names of landmarks, once for each side."""
    return [
        f"{name} {side}".strip() for name, sides in landmarks.items() for side in sides or ("",)
    ]


class Labels:
    """A label map. voxels: (k, j, i) numbers. ijk_to_ras: (4, 4). numbers: structure -> its numbers."""

    def __init__(self, body: LabelledBody) -> None:
        self.voxels = body.labels
        self.ijk_to_ras = body.grid.ijk_to_ras
        self.numbers: dict[str, list[int]] = {}
        for number, name in enumerate(body.names):
            self.numbers.setdefault(name, []).append(number)

    def mask(self, *names: str, may_be_cut_below: bool = False) -> np.ndarray:
        """Return the voxels of structures. Raises LookupError if one is missing or cut by the border of the map."""
        numbers = [number for name in names for number in self.numbers.get(name, ())]
        mask = np.isin(self.voxels, numbers)
        lowest = 0 if self.ijk_to_ras[2, 2] > 0 else -1  # k of the lowest slice
        ends = [(axis, end) for axis in range(3) for end in (0, -1)]
        if may_be_cut_below:
            ends.remove((0, lowest))
        if not mask.any() or any(np.take(mask, end, axis).any() for axis, end in ends):
            raise LookupError(names)
        return mask

    def points(self, mask: np.ndarray) -> np.ndarray:
        """Return the positions (n, 3), RAS mm, of the voxels of a mask."""
        return transform_points(self.ijk_to_ras, np.argwhere(mask)[:, ::-1])

    def uncut_above(self, name: str) -> np.ndarray:
        """Return the voxels of a structure, as `mask`, which the lowest slice may cut."""
        return self.mask(name, may_be_cut_below=True)

    def sitk(self, mask: np.ndarray) -> sitk.Image:
        """Return a mask as an image with its voxel sizes."""
        image = sitk.GetImageFromArray(mask.astype(np.uint8))
        image.SetSpacing(np.linalg.norm(self.ijk_to_ras[:3, :3], axis=0).tolist())
        return image


def farthest(
    points: np.ndarray, direction: tuple[float, float, float], count: int = 8
) -> np.ndarray:
    """Return the mean of the points that are farthest in a direction."""
    along = points @ np.array(direction)
    return points[np.argsort(along)[-count:]].mean(axis=0)


def femoral_head(labels: Labels, side: str) -> np.ndarray:
    """Fit a sphere to the surface of the femur next to the hip bone."""
    hip = labels.sitk(labels.uncut_above(f"hip_{side}"))
    distance = sitk.GetArrayFromImage(
        sitk.SignedMaurerDistanceMap(hip, squaredDistance=False, useImageSpacing=True)
    )
    femur = np.isin(labels.voxels, labels.numbers.get(f"femur_{side}", [-1]))
    surface = femur & (sitk.GetArrayFromImage(sitk.BinaryErode(labels.sitk(femur), (1, 1, 1))) == 0)
    points = labels.points(surface & (distance < _HEAD_GAP_MM))
    if len(points) < 100:
        raise LookupError("femur")
    # |p - c|^2 = r^2 for each point p of the sphere: 2 p.c + (r^2 - |c|^2) = |p|^2 is linear in c and in the bracket
    system = np.hstack([2 * points, np.ones((len(points), 1))])
    centre = np.linalg.lstsq(system, np.square(points).sum(axis=1), rcond=None)[0][:3]
    lowest = transform_points(
        labels.ijk_to_ras, np.array([[0, 0, 0], [0, 0, len(labels.voxels) - 1]])
    )
    if centre[2] - lowest[:, 2].min() < _HEAD_MM:
        raise LookupError("the head is cut")
    return centre


def hip_points(labels: Labels, side: str, low_mm: float, high_mm: float) -> np.ndarray:
    """Return the voxels of a hip bone at heights above the centre of the femoral head."""
    points = labels.points(labels.uncut_above(f"hip_{side}"))
    height = points[:, 2] - femoral_head(labels, side)[2]
    return points[(height > low_mm) & (height < high_mm)]


def symphysis(labels: Labels) -> np.ndarray:
    """The middle between the places where the hip bones are nearest to each other in front of the femoral heads."""
    medial = []
    for side, sign in (("left", 1.0), ("right", -1.0)):
        labels.mask(f"hip_{side}")  # must be whole
        points = hip_points(labels, side, -60, 20)
        front = points[points[:, 1] > femoral_head(labels, side)[1]]
        medial.append(farthest(front, (sign, 0, 0), 60))
    return np.mean(medial, axis=0)


def promontory(labels: Labels) -> np.ndarray:
    """The foremost place of the upper sacrum near the midline."""
    points = labels.points(labels.mask("sacrum", "vertebrae_S1"))
    is_middle = abs(points[:, 0] - np.median(points[:, 0])) < _MIDLINE_MM
    is_upper = points[:, 2] > points[:, 2].max() - _PROMONTORY_MM
    return farthest(points[is_middle & is_upper], (0, 1, 0))


def hilum(labels: Labels, side: str) -> np.ndarray:
    """The middle of what a closing adds to the kidney, on its medial side."""
    mask = labels.mask(f"kidney_{side}")
    image = labels.sitk(mask)
    radius = [round(_CLOSING_MM / size) for size in image.GetSpacing()]
    closed = sitk.GetArrayFromImage(sitk.BinaryMorphologicalClosing(image, radius)) > 0
    kidney, added = labels.points(mask), labels.points(closed & ~mask)
    medial = 1.0 if side == "left" else -1.0
    is_medial = medial * (added[:, 0] - kidney[:, 0].mean()) > 0
    return np.median(added[is_medial], axis=0)


def carina(labels: Labels) -> np.ndarray:
    """The place between the two parts of the highest slice in which the trachea has two large parts."""
    mask = np.isin(labels.voxels, labels.numbers.get("trachea", [-1]))
    slices = list(enumerate(mask))
    if labels.ijk_to_ras[2, 2] > 0:
        slices.reverse()  # from the highest slice
    for k, plane in slices:
        components = sitk.ConnectedComponent(sitk.GetImageFromArray(plane.astype(np.uint8)))
        # the parts of at least 12 pixels; 1 is the largest
        parts = sitk.GetArrayFromImage(sitk.RelabelComponent(components, 12))
        if parts.max() >= 2:
            rows = [np.argwhere(parts == part).mean(axis=0) for part in (1, 2)]
            j, i = np.mean(rows, axis=0)
            return transform_points(labels.ijk_to_ras, np.array([[i, j, k]]))[0]
    raise LookupError("trachea")


def top_of(labels: Labels, name: str) -> np.ndarray:
    """The top of a structure, which the lowest slice may cut."""
    return farthest(labels.points(labels.uncut_above(name)), (0, 0, 1))


def pole(labels: Labels, side: str, up: int) -> np.ndarray:
    """The upper (up=1) or lower (up=-1) pole of a kidney."""
    return farthest(labels.points(labels.mask(f"kidney_{side}")), (0, 0, up))


def dome(labels: Labels, side: str) -> np.ndarray:
    """The top of the liver; on the left, of stomach and spleen, which lie below the left dome."""
    names = ("liver",) if side == "right" else ("stomach", "spleen")
    return max((top_of(labels, name) for name in names), key=lambda top: top[2])


RULES: dict[str, Callable[..., np.ndarray]] = {
    "ASIS": lambda labels, side: farthest(hip_points(labels, side, 45, 300), (0, 1, 0)),
    "PSIS": lambda labels, side: farthest(hip_points(labels, side, 0, 300), (0, -1, 0)),
    "iliac crest": lambda labels, side: top_of(labels, f"hip_{side}"),
    "femoral head": femoral_head,
    "sacral promontory": promontory,
    "symphysis": symphysis,
    "lung apex": lambda labels, side: top_of(labels, f"lung_{side}"),
    "diaphragm dome": dome,
    "kidney upper pole": lambda labels, side: pole(labels, side, 1),
    "kidney lower pole": lambda labels, side: pole(labels, side, -1),
    "kidney hilum": hilum,
    "carina": carina,
    "aortic arch top": lambda labels: top_of(labels, "aorta"),
    "aortic bifurcation": lambda labels: farthest(
        labels.points(labels.mask("aorta")), (0, 0, -1), 40
    ),
}


def place_by_rule(labels: Labels, landmarks: dict[str, tuple[str, ...]]) -> dict[str, np.ndarray]:
    """Return the landmarks that the rules find in a label map: name -> (3,) RAS mm."""
    places = {}
    for name, sides in landmarks.items():
        for side in sides or ("",):
            with suppress(LookupError):
                places[f"{name} {side}".strip()] = RULES[name](labels, *filter(None, [side]))
    return places


def examples(
    model: Model, folder: Path, landmarks: dict[str, tuple[str, ...]]
) -> Iterator[tuple[EmbeddingMap, dict[str, np.ndarray]]]:
    """Give the map of each example's scan, and its landmarks."""
    bodies = [LabelledBody.read(path) for path in sorted(folder.glob(COLLECTION))]
    placement = place({body.name: body.points for body in bodies})
    for body in bodies:
        places = place_by_rule(Labels(body), landmarks)
        if places and body.name in placement.maps:
            yield model.embed(make_label_image(body, placement, 0).volume), places


def make_set(
    scans: list[tuple[EmbeddingMap, dict[str, np.ndarray]]],
    landmarks: dict[str, tuple[str, ...]],
    markups: tuple[Markup, ...],
) -> LandmarkSet:
    """Make a set of the landmarks that each scan has; the examples are not named."""
    chosen = []
    for embedding, places in scans:
        names = [name for name in names_of(landmarks) if name in places]
        if names:
            points = PointList(tuple(names), np.array([places[name] for name in names]))
            chosen.append((embedding, Drawing(points, markups)))
    return make_landmark_set(chosen, LandmarkSet(terms=_TERMS))


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("label_maps", type=Path)
    parser.add_argument("--model", default="ct-open")
    parser.add_argument("-o", "--output", type=Path, default=Path("Resources/Landmarks"))
    options = parser.parse_args()
    model = load_model(options.model, "cpu")
    scans = list(examples(model, options.label_maps, PELVIS | TRUNK))
    for name, landmarks, markups in (
        ("pelvis", PELVIS, PELVIS_MARKUPS),
        ("trunk", TRUNK, TRUNK_MARKUPS),
    ):
        made = make_set(scans, landmarks, markups)
        made.write(options.output / f"{name}{SUFFIX}")
        for landmark in made.landmarks:
            print(f"{name}: {landmark.name}: {len(landmark.examples)} examples")


if __name__ == "__main__":
    main()
