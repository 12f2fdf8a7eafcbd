"""Change scans in known ways, to unusual anatomy or wrong headers, for which models may give wrong answers."""

from collections.abc import Callable

import numpy as np
import SimpleITK as sitk

from AnatomicalEmbedding.scan.geometry import transform_points

AIR = -1000
Change = Callable[[np.ndarray, np.ndarray], tuple[np.ndarray, np.ndarray, np.ndarray]]
# voxels (k,j,i) and ijk_to_ras -> the same of the odd scan, and the (4,4) map of places in the scan as it was to it


def _same(voxels: np.ndarray, affine: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    return voxels, affine, np.eye(4)


def _hu(change: Callable[[np.ndarray, np.ndarray], np.ndarray]) -> Change:
    """Other values on the same grid."""
    return lambda voxels, affine: (change(voxels.astype(np.float32), affine), affine, np.eye(4))


def _places(voxels: np.ndarray, affine: np.ndarray) -> np.ndarray:
    """(k,j,i,3) RAS mm of all voxels."""
    k, j, i = np.indices(voxels.shape, dtype=np.float32)
    return np.stack([i, j, k], axis=-1) @ affine[:3, :3].T.astype(np.float32) + affine[
        :3, 3
    ].astype(np.float32)


def body_middle(voxels: np.ndarray, affine: np.ndarray) -> np.ndarray:
    return np.median(_places(voxels, affine)[voxels > -200], axis=0)


def _metal(voxels: np.ndarray, affine: np.ndarray) -> np.ndarray:
    """Two steel balls 80 mm apart: fans of bright and dark streaks, and a dark band between them."""
    places = _places(voxels, affine)
    middle = body_middle(voxels, affine)
    streaks = np.zeros_like(voxels)
    in_slices = np.abs(places[..., 2] - middle[2]) < 18
    for side in (-40, 40):
        x, y = (places[..., axis] - middle[axis] - (side if axis == 0 else 0) for axis in (0, 1))
        distance = np.hypot(x, y)
        streaks += 700 * np.cos(11 * np.arctan2(y, x)) * np.exp(-distance / 90)
        voxels = np.where(in_slices & (distance < 15), 3071, voxels)
    between = (np.abs(places[..., 0] - middle[0]) < 40) & (np.abs(places[..., 1] - middle[1]) < 12)
    return np.clip(
        np.where(in_slices & (voxels < 3000), voxels + streaks - 500 * between, voxels), -1024, 3071
    )


def _lung_filled(voxels: np.ndarray, affine: np.ndarray) -> np.ndarray:
    """The right lung is fluid."""
    places = _places(voxels, affine)
    middle = body_middle(voxels, affine)
    inside = np.abs(places - middle)[..., :2].max(axis=-1) < 170
    lung = (voxels > -960) & (voxels < -400) & inside & (places[..., 0] > middle[0])
    return np.where(lung, np.random.default_rng(0).normal(20, 15, voxels.shape), voxels)


def _arms_down(voxels: np.ndarray, affine: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Two cylinders of muscle with a bone in each, next to the trunk."""
    pad = round(110 / np.linalg.norm(affine[:3, 0]))
    wide = np.pad(voxels, ((0, 0), (0, 0), (pad, pad)), constant_values=AIR).astype(np.float32)
    moved = affine.copy()
    moved[:3, 3] -= pad * affine[:3, 0]
    places = _places(wide, moved)
    middle = body_middle(voxels, affine)
    reach = (
        np.percentile(np.abs(_places(voxels, affine)[voxels > -200][:, 0] - middle[0]), 99.5) + 45
    )
    for side in (-reach, reach):
        distance = np.hypot(places[..., 0] - middle[0] - side, places[..., 1] - middle[1])
        wide = np.where(distance < 38, np.where(distance < 11, 700, 50), wide)
    return wide, moved, np.eye(4)


def _turned(signs: tuple[int, int, int], header: bool) -> Change:
    """Voxels in another order. header: the header knows, so nothing has changed; else the patient seems to be turned
    (two signs) or mirrored (one).
    """

    def change(voxels: np.ndarray, affine: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        order = tuple(slice(None, None, sign) for sign in signs[::-1])
        in_voxels = np.diag([*signs, 1.0])
        in_voxels[:3, 3] = [
            0 if sign > 0 else n - 1 for sign, n in zip(signs, voxels.shape[::-1], strict=True)
        ]
        flipped = np.ascontiguousarray(voxels[order])
        if header:
            return flipped, affine @ in_voxels, np.eye(4)
        return flipped, affine, affine @ in_voxels @ np.linalg.inv(affine)

    return change


def _scaled(factor: float) -> Change:
    def change(voxels: np.ndarray, affine: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        scale = np.diag([factor] * 3 + [1.0])
        return voxels, scale @ affine, scale

    return change


def _thick(voxels: np.ndarray, affine: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Slices of 10 mm, each the mean of thinner ones."""
    times = max(round(10 / np.linalg.norm(affine[:3, 2])), 1)
    count = len(voxels) // times
    thick = voxels[: count * times].reshape(count, times, *voxels.shape[1:]).mean(axis=1)
    step = np.diag([1.0, 1.0, times, 1.0])
    step[2, 3] = (times - 1) / 2
    return thick, affine @ step, np.eye(4)


def _cut(size_mm: tuple[float, float, float]) -> Change:
    """A block in the body's middle; inf: all there is."""

    def change(voxels: np.ndarray, affine: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        middle = transform_points(np.linalg.inv(affine), body_middle(voxels, affine)[None])[0]
        half = np.array(size_mm) / 2 / np.linalg.norm(affine[:3, :3], axis=0)
        low = np.clip(np.ceil(middle - half), 0, None).astype(int)
        high = np.minimum(middle + half + 1, voxels.shape[::-1]).astype(int)
        shift = np.eye(4)
        shift[:3, 3] = low
        block = voxels[tuple(slice(a, b) for a, b in zip(low[::-1], high[::-1], strict=True))]
        return np.ascontiguousarray(block), affine @ shift, np.eye(4)

    return change


def _as_mr(voxels: np.ndarray, _affine: np.ndarray) -> np.ndarray:
    """Fat bright, muscle grey, bone and air dark."""
    return np.interp(
        voxels, [-1000, -500, -120, -60, 40, 120, 300, 1000], [8, 20, 900, 850, 350, 420, 60, 20]
    ).round()


def _as_pet(voxels: np.ndarray, affine: np.ndarray) -> np.ndarray:
    """Activity, smooth, in Bq/ml."""
    image = sitk.GetImageFromArray(np.clip(voxels + 200, 0, 300) * 30)
    return sitk.GetArrayFromImage(sitk.SmoothingRecursiveGaussian(image, 3.0)).clip(0)


def _stitched(voxels: np.ndarray, affine: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The patient once more on top, mirrored and larger, as if it were another."""
    other = voxels[:, :, ::-1]
    inner = tuple(slice(n // 12, n - n // 12) for n in other.shape[1:])
    image = sitk.GetImageFromArray(
        np.ascontiguousarray(other[:, inner[0], inner[1]]).astype(np.float32)
    )
    grid = sitk.GetImageFromArray(np.zeros(voxels.shape, np.float32))
    size = np.array(image.GetSize()) / np.array(grid.GetSize())
    grid.SetSpacing(size.tolist())
    larger = sitk.GetArrayFromImage(
        sitk.Resample(image, grid, sitk.Transform(), sitk.sitkLinear, AIR)
    )
    return np.concatenate([voxels, larger]), affine, np.eye(4)


INF = float("inf")
INPUTS: dict[str, Change] = {
    "as it is": _same,
    "metal with streaks": _hu(_metal),
    "one lung full of fluid": _hu(_lung_filled),
    "arms down": _arms_down,
    "prone, stated in the header": _turned((-1, -1, 1), True),
    "prone, not stated": _turned((-1, -1, 1), False),
    "feet first, stated in the header": _turned((-1, 1, -1), True),
    "feet first, not stated": _turned((-1, 1, -1), False),
    "mirrored, left and right": _turned((-1, 1, 1), False),
    "upside down (mirrored)": _turned((1, 1, -1), False),
    "size of a child, x 0.8": _scaled(0.8),
    "x 0.65": _scaled(0.65),
    "x 0.5": _scaled(0.5),
    "slices of 10 mm": _thick,
    "4 cm of height": _cut((INF, INF, 40.0)),
    "6.5 cm of height": _cut((INF, INF, 65.0)),
    "field of view of 12 cm": _cut((120.0, 120.0, INF)),
    "noise of 150 HU": _hu(lambda hu, _: hu + np.random.default_rng(0).normal(0, 150, hu.shape)),
    "two patients stitched": _stitched,
    "contrasts of MR": _hu(_as_mr),
    "activity of PET": _hu(_as_pet),
    "scout": lambda voxels, affine: (
        voxels.mean(axis=1, keepdims=True).swapaxes(0, 1),
        affine,
        np.eye(4),
    ),
}
