"""Bones of the trunk, shoulders and pelvis of the canonical body."""

import numpy as np

from ..anatomy.names import VERTEBRAE
from .canvas import Canvas
from .frame import CAVITY, VERTEBRA_Z, spine_axes, spine_y
from .parts import draw_part
from .solids import Piece, Tube, curve

# Ribs 1-12: how far they reach around the chest (0: spine, 1: sternum), and how far a complete rib would descend (mm).
_RIB_END = (0.93, 0.95, 0.95, 0.95, 0.94, 0.92, 0.90, 0.84, 0.77, 0.68, 0.46, 0.30)
_RIB_FALL = (30, 52, 68, 82, 96, 106, 112, 108, 100, 88, 58, 40)
# Length of the spinous process, its droop, and the reach of the transverse processes, mm, by region of the spine.
_PROCESSES = {"C": (9, -3, 22), "T": (13, -16, 31), "L": (24, -4, 42)}
_RIB_OUTWARD_MM = 4.5  # distance of a rib's middle line from the body cavity
_BONY = 0.76  # beyond this fraction of the way from spine to sternum, a rib is cartilage


def draw_skeleton(canvas: Canvas) -> None:
    _draw_spine(canvas)
    _draw_thorax(canvas)
    draw_part(canvas, "shoulder and hip")
    draw_part(canvas, "symphysis")


def vertebra_radii(name: str) -> tuple[float, float]:
    """Return half width and half depth of a vertebral body, mm."""
    z = VERTEBRA_Z[name]
    knots = (118, 187, 254, 339, 433, 512, 547, 652)
    half_widths = (25, 24, 21, 17, 15, 15, 14, 11)
    half_depths = (18, 17.5, 16, 15, 13.5, 10.5, 9.5, 8)
    return float(np.interp(z, knots, half_widths)), float(np.interp(z, knots, half_depths))


def _frame_point(name: str, right: float, ahead: float, up: float) -> np.ndarray:
    """Convert a point in the frame of vertebra `name` (mm to the right, to the front, upwards) to the body frame."""
    z = VERTEBRA_Z[name]
    return np.array([0, float(spine_y(z)), z]) + np.array([right, ahead, up]) @ spine_axes(z)


def _cylinder(name: str, rx: float, ry: float, half: float, up: float = 0.0) -> Piece:
    axes = spine_axes(VERTEBRA_Z[name]).astype(np.float32)
    center = _frame_point(name, 0, 0, up)
    reach = np.array([rx, ry, half]) + 0.6 * half

    def inside(x: np.ndarray, y: np.ndarray, z: np.ndarray) -> np.ndarray:
        dy = y - np.float32(center[1])
        dz = z - np.float32(center[2])
        ahead = axes[1, 1] * dy + axes[1, 2] * dz
        along = axes[2, 1] * dy + axes[2, 2] * dz
        waist = 1 - 0.1 * (1 - np.square(along / half))
        return (np.square(x / rx) + np.square(ahead / ry) < np.square(waist)) & (
            np.abs(along) < half
        )

    return Piece(center - reach, center + reach, inside)


def _draw_spine(canvas: Canvas) -> None:
    draw_part(canvas, "sacrum")
    heights = np.array(list(VERTEBRA_Z.values()))
    gaps = -np.diff(np.append(heights, 94.0))
    for name, below in zip(VERTEBRA_Z, gaps, strict=True):
        rx, ry = vertebra_radii(name)
        disc = 0.27 * below
        half = (below - disc) / 2
        label = f"vertebrae_{name}"
        lumbar = name[0] == "L"
        neck = name[0] == "C"
        canal = 11.0 if lumbar else 10.0
        canal_y = -ry - canal  # centre of the canal
        reach, droop, wing = _PROCESSES[name[0]]
        spinous = [(0, canal_y - canal, 0), (0, canal_y - canal - reach, droop)]
        turns = np.linspace(-2.3, 2.3, 15)
        wide = canal + 2
        arch = [_frame_point(name, wide * np.sin(a), canal_y - wide * np.cos(a), 0) for a in turns]
        parts: list[Tube] = [
            curve(arch, 3.8, squash=(1, 1, 0.42 * below / 4.5)),
            curve(
                [_frame_point(name, *p) for p in spinous], 3.2, squash=(1, 1, 0.35 * below / 3.6)
            ),
        ]
        for side in (1, -1):
            process = [
                (side * (canal + 2), canal_y - 2, 1),
                (side * wing, canal_y - (8 if not neck else -4), 2),
            ]
            parts.append(curve([_frame_point(name, *p) for p in process], 4.2 if not neck else 3.2))
        canvas.bone(parts, label, shell=1.9)
        if name != "C1":
            canvas.paint(_cylinder(name, rx, ry, half), "cortical_bone", label)
            canvas.paint(_cylinder(name, rx - 1.8, ry - 1.8, half - 1.8), "marrow", label)
            canvas.paint(
                _cylinder(name, rx + 0.5, ry + 0.5, disc / 2, up=-below / 2),
                "disc",
                "intervertebral_discs",
            )
    _draw_cord(canvas)


def _draw_cord(canvas: Canvas) -> None:
    path = [
        _frame_point(v, 0, -vertebra_radii(v)[1] - (11 if v[0] == "L" else 10), 0)
        for v in VERTEBRAE[1:-1]
    ]
    path.insert(0, np.array([0.0, 14.0, 668.0]))
    path.append(np.array([0.0, -28.0, 92.0]))
    tube = curve(path, 9.0)
    canvas.paint(tube, "csf", "spinal_cord")
    above = tube.points[:, 2] > VERTEBRA_Z["L1"] - 15
    canvas.paint(Tube(tube.points[above], np.full(above.sum(), 5.0)), "cord", "spinal_cord")
    below = tube.points[~above]
    for dx in (-3, 3):
        canvas.paint(
            Tube(np.add(below, (dx, -2, 0)), np.full(len(below), 2.0)), "cord", "spinal_cord"
        )


def rib_point(number: int, way: float, side: int) -> np.ndarray:
    """Return a point (3,), mm, on a rib's middle line.

    Args:
        number: 1 to 12.
        way: 0 at the spine to 1 at the sternum.
        side: 1 on the right, -1 on the left.
    """
    start = VERTEBRA_Z[f"T{number}"] + 7
    z = (
        start
        + 6 * np.sin(np.pi * min(way * 4, 1)) * (way < 0.25)
        - _RIB_FALL[number - 1] * way**1.25
    )
    if way > _BONY and number <= 10:  # the cartilage rises to the sternum
        rise = 130 if number > 5 else 50
        z += (way - _BONY) * (rise if number > 2 else 0)
    half, middle, front, rear = (float(v) for v in CAVITY.section(np.array(z)))
    angle = np.pi * (0.075 + 0.90 * way)
    u = np.sin(angle)
    v = -np.cos(angle)
    depth = front if v > 0 else rear
    grow = 1 / np.sqrt((1 + np.sqrt(max(1 - CAVITY.squareness * np.sin(2 * angle) ** 2, 0))) / 2)
    return np.array(
        [
            side * (half + _RIB_OUTWARD_MM) * u * grow,
            middle + (depth + _RIB_OUTWARD_MM) * v * grow,
            z,
        ]
    )


def _draw_thorax(canvas: Canvas) -> None:
    for number in range(1, 13):
        end = _RIB_END[number - 1]
        for name, side in (("right", 1), ("left", -1)):
            vertebra = f"T{number}"
            rx, ry = vertebra_radii(vertebra)
            ends = (side * (rx + 1), -ry * 0.7, 7), (side * (rx + 16), -ry - 12, 6)
            neck = [_frame_point(vertebra, *end) for end in ends]
            bony = min(end, _BONY)
            path = [*neck, *(rib_point(number, w, side) for w in np.linspace(0.1, bony, 22))]
            radius = [4.0, 4.0, *np.full(20, 4.4), 4.6, 4.8]
            squash = (1, 1, 1.35 if number > 1 else 1.0)
            if end > _BONY:
                gristle = curve(
                    [rib_point(number, w, side) for w in np.linspace(bony, end, 8)], 5.2
                )
                canvas.paint(gristle, "cartilage", "costal_cartilages")
            canvas.bone(curve(path, radius, squash=squash), f"rib_{name}_{number}", shell=1.7)
    draw_part(canvas, "sternum")
