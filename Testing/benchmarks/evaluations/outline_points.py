"""Derives landmarks from the outlines of structures, for example forks of airways and vessels, and ends of organs.

Each derivation reads some structures by name (`anatomy.names`) and returns one point. It returns None if a structure is
missing or has an unusual shape, or if the end on which the point lies is cut off by the border of the label map.
"""

from collections.abc import Callable

import numpy as np
import SimpleITK as sitk

from AnatomicalEmbedding.anatomy.names import sums_of_parts
from AnatomicalEmbedding.scan.geometry import transform_points
from AnatomicalEmbedding.scan.label_map import LabelMap
from AnatomicalEmbedding.structures.label_names import voxels_by_label

_END_MM = 4.0  # thickness of the outermost layer that is the end of a structure
_CUT_MM = 3.0  # a structure that ends closer to the last slice is called cut, because label maps were resampled
# least area of a branch in a slice, and least share of the largest part's area
_PART_MM2, _PART_SHARE = 25.0, 0.3
# least length of the tube above a fork, and of the two tubes below the fork
_STEM_MM, _BRANCHES_MM = 4.0, 6.0
_ABOVE_FORK_MM = 40.0  # the fork of the aorta is searched up to this far above the iliac arteries
_WINDOW_MM = 9.0  # from the underside of the aortic arch to the middle of the aortopulmonary window
_JOINT_MM = 6.0  # the part of the femur's surface that is closer to the hip bone belongs to the femoral head
# usual radius of a femoral head, and largest mean error of the sphere
_HEAD_MM, _HEAD_MISFIT_MM = (17.0, 32.0), 2.5
_MIDLINE_MM = 8.0  # largest distance of the sacral promontory from the midline
_TOUCH_MM = 4.0  # an artery begins where it is closer to the aorta
# thickness of the hilum's area; largest distance of the spleen from vein or pancreas
_HILUM_MM, _NEAR_MM = 6.0, 25.0
_SUPERIOR = 2  # axis of RAS mm
# an anterior superior iliac spine points to the front, and down with this slope
_SPINE_SLOPE = 0.18
_LEAST_VOXELS = 30
_PARTS = sums_of_parts() | {
    "sacrum": ("sacrum", "vertebrae_S1"),
    "iliac_artery_left": ("iliac_artery_left", "common_iliac_artery_left"),
    "iliac_artery_right": ("iliac_artery_right", "common_iliac_artery_right"),
    "splenic_vein": ("splenic_vein", "portal_vein_and_splenic_vein"),
}  # fmt: skip


class Outlines:
    """The structures of one label map: for each name, (n, 3) voxels i, j, k of its largest part; n may be 0."""

    def __init__(self, labels: LabelMap) -> None:
        self._values = labels.values
        self._voxels = voxels_by_label(labels.voxels)
        self._last = np.array(labels.voxels.shape[::-1]) - 1
        self._kept: dict[str, np.ndarray] = {}
        self.ijk_to_ras = labels.ijk_to_ras
        # voxel axis along the body
        self.up = int(np.abs(labels.ijk_to_ras[_SUPERIOR, :3]).argmax())
        self.slice_mm = float(np.abs(labels.ijk_to_ras[_SUPERIOR, self.up]))
        self.pixel_mm2 = abs(float(np.linalg.det(labels.ijk_to_ras[:3, :3]))) / self.slice_mm

    def ijk(self, name: str) -> np.ndarray:
        """Return the voxels (n, 3) of a structure; n is 0 if the label map does not contain the structure."""
        if name not in self._kept:
            parts = _PARTS.get(name, (name,))
            names = (name,) if name in self._values and name not in parts else parts
            held = [
                _largest(self._voxels[self._values[n]])
                for n in names
                if self._values.get(n) in self._voxels
            ]
            self._kept[name] = np.concatenate(held) if held else np.empty((0, 3), dtype=int)
        return self._kept[name]

    def ras(self, name: str) -> np.ndarray:
        """Return the voxels (n, 3) of a structure in RAS mm."""
        return self.to_ras(self.ijk(name))

    def to_ras(self, ijk: np.ndarray) -> np.ndarray:
        """Convert voxels (n, 3) i, j, k to RAS mm."""
        return transform_points(self.ijk_to_ras, ijk)

    def cut(self, ijk: np.ndarray, direction: int) -> bool:
        """Return whether voxels (n, 3) reach the upper (direction 1) or lower (-1) end of the label map."""
        end = direction * np.sign(self.ijk_to_ras[_SUPERIOR, self.up])
        at = ijk[:, self.up]
        near = max(round(_CUT_MM / self.slice_mm), 0)
        return bool((at.max() >= self._last[self.up] - near) if end > 0 else (at.min() <= near))

    def end(self, name: str, direction: int) -> np.ndarray | None:
        """Find the upper (direction 1) or lower (-1) end of a structure, (3,) RAS mm; None if cut or too small."""
        ijk = self.ijk(name)
        if len(ijk) < _LEAST_VOXELS or self.cut(ijk, direction):
            return None
        return _outermost(self.to_ras(ijk), np.array([0.0, 0.0, float(direction)]))

    def near(self, name: str, other: str) -> tuple[np.ndarray, np.ndarray]:
        """Return the voxels of a structure, (n, 3) RAS mm, and their distances (n,), mm, from the structure `other`."""
        ijk = self.ijk(name)
        to = self.ijk(other)
        if len(ijk) < _LEAST_VOXELS or len(to) < _LEAST_VOXELS:
            return np.empty((0, 3)), np.empty(0)
        low = np.minimum(ijk.min(0), to.min(0))
        high = np.maximum(ijk.max(0), to.max(0))
        image = sitk.GetImageFromArray(_filled(to - low, high - low + 1))
        image.SetSpacing(np.linalg.norm(self.ijk_to_ras[:3, :3], axis=0).tolist())
        far = sitk.GetArrayFromImage(
            sitk.SignedMaurerDistanceMap(
                image, squaredDistance=False, useImageSpacing=True, insideIsPositive=False
            )
        )
        i, j, k = (ijk - low).T
        return self.to_ras(ijk), far[k, j, i]

    def fork(self, ijk: np.ndarray) -> np.ndarray | None:
        """Find where a tube divides into two branches, from top to bottom. Returns (3,) RAS mm between the branches."""
        if not len(ijk):
            return None
        low = ijk.min(0)
        size = np.ptp(ijk, axis=0) + 1
        slices = np.moveaxis(_filled(ijk - low, size), 2 - self.up, 0)
        step = -1 if self.ijk_to_ras[_SUPERIOR, self.up] > 0 else 1
        parts = [(number, self._parts(slices[number])) for number in range(len(slices))[::step]]
        stem, branches = (max(round(mm / self.slice_mm), 1) for mm in (_STEM_MM, _BRANCHES_MM))
        for at in range(stem, len(parts) - branches + 1):
            if all(len(p) == 1 for _, p in parts[at - stem : at]) and all(
                len(p) == 2 for _, p in parts[at : at + branches]
            ):
                number, (one, two) = parts[at]
                both = [
                    self.to_ras(np.insert(part, self.up, number, axis=1) + low)
                    for part in (one, two)
                ]
                apart = np.linalg.norm(both[0][:, None] - both[1], axis=2)
                a, b = np.unravel_index(apart.argmin(), apart.shape)
                return (both[0][a] + both[1][b]) / 2
        return None

    def _parts(self, picture: np.ndarray) -> list[np.ndarray]:
        """Return the pixels (n, 2) of each connected part of a slice, largest part first, without small parts."""
        found = sitk.RelabelComponent(
            sitk.ConnectedComponent(sitk.GetImageFromArray(picture), True)
        )
        labels = sitk.GetArrayFromImage(found)
        parts = [np.argwhere(labels == n)[:, ::-1] for n in range(1, int(labels.max()) + 1)]
        least = max(_PART_MM2 / self.pixel_mm2, _PART_SHARE * len(parts[0])) if parts else 0.0
        return [part for part in parts if len(part) >= least]


def derive_landmarks(labels: LabelMap) -> dict[str, np.ndarray]:
    """Derive all landmarks that a label map shows: name -> (3,) RAS mm."""
    outlines = Outlines(labels)
    found = {name: derive(outlines) for name, derive in DERIVATIONS.items()}
    return {name: point for name, point in found.items() if point is not None}


def _carina(of: Outlines) -> np.ndarray | None:
    return of.fork(of.ijk("trachea"))


def _aortic_bifurcation(of: Outlines) -> np.ndarray | None:
    aorta, left, right = (
        of.ijk(name) for name in ("aorta", "iliac_artery_left", "iliac_artery_right")
    )
    if min(len(aorta), len(left), len(right)) < _LEAST_VOXELS:
        return None
    top = max(of.to_ras(each)[:, _SUPERIOR].max() for each in (left, right)) + _ABOVE_FORK_MM
    return of.fork(np.concatenate([aorta[of.to_ras(aorta)[:, _SUPERIOR] < top], left, right]))


def _aortopulmonary_window(of: Outlines) -> np.ndarray | None:
    """Find the point below the aortic arch, between the ascending and the descending aorta."""
    underside = of.fork(of.ijk("aorta"))
    return None if underside is None else underside - (0.0, 0.0, _WINDOW_MM)


def _femoral_head(of: Outlines, side: str) -> np.ndarray | None:
    """Find the middle of the femoral head's outline, or of a sphere fitted to the femur's surface at the hip."""
    head = of.ras(f"femoral_head_{side}")
    if len(head) >= _LEAST_VOXELS:  # an outline that includes the neck is too long
        return head.mean(axis=0) if np.ptp(head, axis=0).max() <= 2 * _HEAD_MM[1] else None
    ijk = of.ijk(f"femur_{side}")
    places, far = of.near(f"femur_{side}", f"hip_{side}")
    if not len(places):
        return None
    surface = places[(far <= _JOINT_MM) & _on_surface(ijk)]
    if len(surface) < _LEAST_VOXELS:
        return None
    middle = surface.mean(axis=0)
    design = np.column_stack([2 * (surface - middle), np.ones(len(surface))])
    fit = np.linalg.lstsq(design, np.square(surface - middle).sum(axis=1), rcond=None)[0]
    centre = fit[:3]
    radius = np.sqrt(fit[3] + fit[:3] @ fit[:3])
    misfit = np.abs(np.linalg.norm(surface - middle - centre, axis=1) - radius).mean()
    usual = _HEAD_MM[0] <= radius <= _HEAD_MM[1] and misfit <= _HEAD_MISFIT_MM
    return middle + centre if usual else None


def _pelvis_axes(of: Outlines) -> tuple[np.ndarray, np.ndarray] | None:
    """Return the axes of the pelvis, (3, 3) unit rows to the right, front and top, and its middle (3,)."""
    left = of.ras("hip_left")
    right = of.ras("hip_right")
    if min(len(left), len(right)) < _LEAST_VOXELS:
        return None
    across = right.mean(axis=0) - left.mean(axis=0)
    across /= np.linalg.norm(across)
    ahead = np.cross((0.0, 0.0, 1.0), across)
    ahead /= np.linalg.norm(ahead)
    return np.array([across, ahead, np.cross(across, ahead)]), (
        left.mean(axis=0) + right.mean(axis=0)
    ) / 2


def _iliac_spine(of: Outlines, side: str) -> np.ndarray | None:
    """Find the front end of the upper half of the hip bone."""
    found = _pelvis_axes(of)
    ijk = of.ijk(f"hip_{side}")
    if found is None or of.cut(ijk, 1):
        return None
    places = of.to_ras(ijk)
    _, ahead, up = found[0]
    heights = places @ up
    return _outermost(
        places[heights > (heights.min() + heights.max()) / 2], ahead - _SPINE_SLOPE * up
    )


def _promontory(of: Outlines) -> np.ndarray | None:
    """Find the front end of the sacrum's upper half, in the plane midway between the hip bones."""
    found = _pelvis_axes(of)
    ijk = of.ijk("sacrum")
    if found is None or len(ijk) < _LEAST_VOXELS or of.cut(ijk, 1):
        return None
    (across, ahead, up), middle = found
    places = of.to_ras(ijk)
    heights = places @ up
    upper = (heights > (heights.min() + heights.max()) / 2) & (
        np.abs((places - middle) @ across) < _MIDLINE_MM
    )
    return _outermost(places[upper], ahead) if upper.any() else None


def _origin(of: Outlines, name: str) -> np.ndarray | None:
    """Find the place where an artery leaves the aorta."""
    places, far = of.near(name, "aorta")
    return (
        places[far <= far.min() + _TOUCH_MM].mean(axis=0)
        if len(places) and far.min() <= _TOUCH_MM
        else None
    )


def _splenic_hilum(of: Outlines) -> np.ndarray | None:
    """Find the middle of the part of the spleen that is nearest to the splenic vein or, if unknown, to the pancreas."""
    ijk = of.ijk("spleen")
    for name in ("splenic_vein", "pancreas"):
        places, far = of.near("spleen", name)
        if len(places) and far.min() <= _NEAR_MM and not of.cut(ijk, 1) and not of.cut(ijk, -1):
            return places[far <= far.min() + _HILUM_MM].mean(axis=0)
    return None


def _retrocrural(of: Outlines, outward: float) -> np.ndarray | None:
    """Find the point next to the aorta, in front of the body of T12. outward: 1 for the right side, -1 for the left."""
    spine = of.ras("vertebrae_T12")
    aorta = of.ras("aorta")
    if min(len(spine), len(aorta)) < _LEAST_VOXELS:
        return None
    level = aorta[np.abs(aorta[:, _SUPERIOR] - spine[:, _SUPERIOR].mean()) < _END_MM]
    if not len(level):
        return None
    middle = level.mean(axis=0)
    half = np.ptp(level[:, 0]) / 2
    return middle + np.array([outward * (half + 2.0), -0.6 * half, 0.0])


def _thyroid_lobe(of: Outlines, outward: float) -> np.ndarray | None:
    ijk = of.ijk("thyroid_gland")
    if len(ijk) < _LEAST_VOXELS or of.cut(ijk, 1) or of.cut(ijk, -1):
        return None
    ras = of.to_ras(ijk)
    off = (ras[:, 0] - (ras[:, 0].min() + ras[:, 0].max()) / 2) * outward
    return ras[off > 0.2 * off.max()].mean(axis=0)


Derivation = Callable[[Outlines], np.ndarray | None]


def _end(name: str, direction: int) -> Derivation:
    return lambda of: of.end(name, direction)


def _of_side(side: str, outward: float) -> dict[str, Derivation]:
    return {
        f"lung_apex_{side}": _end(f"lung_{side}", 1),
        f"kidney_upper_pole_{side}": _end(f"kidney_{side}", 1),
        f"kidney_lower_pole_{side}": _end(f"kidney_{side}", -1),
        f"femoral_head_{side}": lambda of: _femoral_head(of, side),
        f"anterior_superior_iliac_spine_{side}": lambda of: _iliac_spine(of, side),
        f"retrocrural_space_{side}": lambda of: _retrocrural(of, outward),
        f"thyroid_lobe_{side}": lambda of: _thyroid_lobe(of, outward),
    }


DERIVATIONS: dict[str, Derivation] = {
    "carina": _carina,
    "aortopulmonary_window": _aortopulmonary_window,
    "aortic_bifurcation": _aortic_bifurcation,
    "celiac_artery": lambda of: _origin(of, "celiac_artery"),
    "superior_mesenteric_artery": lambda of: _origin(of, "superior_mesenteric_artery"),
    "splenic_hilum": _splenic_hilum,
    "liver_dome": _end("liver", 1),
    "liver_tip": _end("liver", -1),
    "dens": _end("vertebrae_C2", 1),
    "sacral_promontory": _promontory,
    **_of_side("left", -1.0),
    **_of_side("right", 1.0),
}


def _outermost(ras: np.ndarray, direction: np.ndarray) -> np.ndarray:
    along = ras @ direction
    return ras[along > along.max() - _END_MM].mean(axis=0)


def _filled(ijk: np.ndarray, size: np.ndarray) -> np.ndarray:
    """Make a mask, uint8 (k, j, i), that is 1 at the voxels (n, 3). size: i, j, k of the mask."""
    mask = np.zeros(tuple(size[::-1]), dtype=np.uint8)
    i, j, k = ijk.T
    mask[k, j, i] = 1
    return mask


def _largest(ijk: np.ndarray) -> np.ndarray:
    """Return the voxels (n, 3) of the largest connected part."""
    low = ijk.min(0)
    image = sitk.GetImageFromArray(_filled(ijk - low, np.ptp(ijk, axis=0) + 1))
    labels = sitk.GetArrayFromImage(sitk.RelabelComponent(sitk.ConnectedComponent(image, True)))
    i, j, k = (ijk - low).T
    return ijk[labels[k, j, i] == 1]


def _on_surface(ijk: np.ndarray) -> np.ndarray:
    """Return (n,) bool: whether a voxel (n, 3) has a neighbour that is not one of the voxels."""
    low = ijk.min(0) - 1
    mask = _filled(ijk - low, np.ptp(ijk, axis=0) + 3)
    i, j, k = (ijk - low).T
    steps = np.vstack([np.eye(3, dtype=int), -np.eye(3, dtype=int)])
    return np.any([mask[k + c, j + b, i + a] == 0 for a, b, c in steps], axis=0)
