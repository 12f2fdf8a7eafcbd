"""Bones of the trunk, shoulders and pelvis of the canonical body."""

from collections.abc import Callable

import numpy as np

from .canvas import Canvas
from .frame import CAVITY, VERTEBRA_Z, spine_axes, spine_y
from .solids import SIDES, Ellipsoid, Piece, Tube, curve, mirrored, sheet
from .tissues import VERTEBRAE

FEMORAL_HEAD = np.array([89.0, 16.0, 0.0])
ACETABULUM_MM = 25.0
SYMPHYSIS = np.array([0.0, 66.0, -33.0])
ILIAC_CREST = np.array([122.0, 8.0, 152.0])
PROMONTORY = np.array([0.0, 3.0, 101.0])
XIPHOID = np.array([0.0, 108.0, 352.0])
STERNAL_NOTCH = np.array([0.0, 64.0, 514.0])

# Ribs 1-12: how far they reach around the chest (0: spine, 1: sternum), and how far a complete rib would descend (mm).
_RIB_END = (0.93, 0.95, 0.95, 0.95, 0.94, 0.92, 0.90, 0.84, 0.77, 0.68, 0.46, 0.30)
_RIB_FALL = (30, 52, 68, 82, 96, 106, 112, 108, 100, 88, 58, 40)
# Length of the spinous process, its droop, and the reach of the transverse processes, mm, by region of the spine.
_PROCESSES = {"C": (9, -3, 22), "T": (13, -16, 31), "L": (24, -4, 42)}
_BONY = 0.76  # beyond this fraction of the way from spine to sternum, a rib is cartilage


def draw_skeleton(canvas: Canvas) -> None:
    _draw_spine(canvas)
    _draw_thorax(canvas)
    for name, flip in SIDES:
        _draw_shoulder(canvas, name, flip)
        _draw_hip(canvas, name, flip)
    canvas.paint(Ellipsoid(SYMPHYSIS, (4, 9, 18)), "cartilage", "body_other")


def vertebra_radii(name: str) -> tuple[float, float]:
    """Return half width and half depth of a vertebral body, mm."""
    z = VERTEBRA_Z[name]
    knots = (118, 187, 254, 339, 433, 512, 547, 652)
    half_widths, half_depths = (
        (25, 24, 21, 17, 15, 15, 14, 11),
        (18, 17.5, 16, 15, 13.5, 10.5, 9.5, 8),
    )
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
        dy, dz = y - np.float32(center[1]), z - np.float32(center[2])
        ahead, along = axes[1, 1] * dy + axes[1, 2] * dz, axes[2, 1] * dy + axes[2, 2] * dz
        waist = 1 - 0.1 * (1 - np.square(along / half))
        return (np.square(x / rx) + np.square(ahead / ry) < np.square(waist)) & (
            np.abs(along) < half
        )

    return Piece(center - reach, center + reach, inside)


def _draw_spine(canvas: Canvas) -> None:
    _draw_sacrum(canvas)
    heights = np.array([VERTEBRA_Z[v] for v in VERTEBRAE])
    gaps = -np.diff(np.append(heights, 94.0))
    for name, below in zip(VERTEBRAE, gaps, strict=True):
        rx, ry = vertebra_radii(name)
        disc = 0.27 * below
        half = (below - disc) / 2
        label = f"vertebrae_{name}"
        lumbar, neck = name[0] == "L", name[0] == "C"
        canal = 11.0 if lumbar else 10.0
        canal_y = -ry - canal  # centre of the canal
        reach, droop, wing = _PROCESSES[name[0]]
        spinous = [(0, canal_y - canal, 0), (0, canal_y - canal - reach, droop)]
        turns, wide = np.linspace(-2.3, 2.3, 15), canal + 2
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
        for v in VERTEBRAE[1:]
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


def _draw_sacrum(canvas: Canvas) -> None:
    path = [
        (0, -6, 93),
        (0, -24, 68),
        (0, -44, 44),
        (0, -57, 15),
        (0, -56, -12),
    ]
    middle = curve(path, [15, 13, 11, 9, 5], squash=(1.6, 1, 1))
    inner, outer = [(14, -12, 90), (12, -40, 45)], [(48, -34, 84), (30, -52, 40)]
    wings = [tube for _, flip in SIDES for tube in sheet(flip(inner), flip(outer), 9)]
    canvas.bone([middle, *wings], "sacrum")
    canvas.paint(curve([(0, -30, 92), (0, -50, 55), (0, -66, 25)], [8, 7, 4]), "csf", "sacrum")
    for z, y in ((70, -30), (48, -46)):
        for side in (1, -1):
            canvas.paint(
                curve([(side * 20, y + 16, z - 4), (side * 18, y - 14, z)], 4.5), "fat", "sacrum"
            )


def rib_point(number: int, way: float, side: int, outward: float = 4.5) -> np.ndarray:
    """Return a point (3,), mm, on a rib's middle line.

    Args:
        number: 1 to 12.
        way: 0 at the spine to 1 at the sternum.
        side: 1 on the right, -1 on the left.
        outward: distance of the line from the body cavity, mm.
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
    u, v = np.sin(angle), -np.cos(angle)
    depth = front if v > 0 else rear
    grow = 1 / np.sqrt((1 + np.sqrt(max(1 - CAVITY.squareness * np.sin(2 * angle) ** 2, 0))) / 2)
    return np.array([side * (half + outward) * u * grow, middle + (depth + outward) * v * grow, z])


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
    edges = [
        (22, 64, 514),
        (17, 78, 492),
        (13, 93, 462),
        (16, 104, 420),
        (17, 110, 380),
    ]
    plate = sheet(edges, mirrored(edges), 5.5)
    tip = curve([(0, 110, 376), tuple(XIPHOID)], [6, 4])
    canvas.bone([*plate, tip], "sternum", shell=1.8)


def _draw_shoulder(canvas: Canvas, name: str, flip: Callable) -> None:
    clavicle = curve(
        flip(
            [
                (20, 66, 516),
                (60, 58, 523),
                (105, 20, 534),
                (150, 2, 538),
            ]
        ),
        [8, 5.5, 5.5, 6],
    )
    canvas.bone(clavicle, f"clavicula_{name}")
    canvas.bone(Ellipsoid(flip([(161, -16, 508)])[0], (22, 23, 23)), f"humerus_{name}")
    inner = [(72, -72, 528), (78, -81, 470), (88, -77, 396)]
    outer = [(128, -40, 520), (126, -54, 470), (100, -70, 396)]
    blade = sheet(flip(inner), flip(outer), 3.2)
    socket = curve(flip([(134, -32, 516), (134, -32, 498)]), 8)
    spine = curve(
        flip(
            [
                (76, -80, 506),
                (120, -62, 526),
                (150, -42, 538),
                (162, -20, 538),
            ]
        ),
        [3.5, 5, 6, 5.5],
    )
    canvas.bone([*blade, socket, spine], f"scapula_{name}", shell=2.2)


def _draw_hip(canvas: Canvas, name: str, flip: Callable) -> None:
    crest = flip(
        [
            (50, -62, 112),
            (84, -52, 138),
            (112, -22, 150),
            (124, 16, 150),
            (124, 52, 128),
            (116, 72, 104),
        ]
    )
    brim = flip(
        [
            (46, -42, 70),
            (58, -34, 52),
            (74, -12, 42),
            (88, 10, 36),
            (98, 34, 42),
            (108, 56, 62),
        ]
    )
    wing = sheet(crest, brim, 4.6)
    edge = curve(crest, 6.5)
    head = flip(FEMORAL_HEAD)
    column = curve(
        flip(
            [
                (76, -14, 30),
                (82, -26, -5),
                (70, -34, -40),
                (58, -26, -62),
            ]
        ),
        [13, 13, 13, 12],
    )
    ramus = curve(
        flip(
            [
                (84, 40, 22),
                (60, 58, 6),
                (30, 66, -14),
                (10, 66, -28),
            ]
        ),
        [12, 8, 8, 10],
    )
    lower = curve(
        flip(
            [
                (9, 62, -42),
                (28, 42, -62),
                (52, -8, -72),
                (58, -26, -62),
            ]
        ),
        [8, 6.5, 7, 11],
    )
    cup = Ellipsoid(flip(np.add(FEMORAL_HEAD, (-4, 0, 3))), np.full(3, ACETABULUM_MM + 8))
    canvas.bone([*wing, edge, column, ramus, lower, cup], f"hip_{name}", shell=2.2)
    canvas.paint(
        Ellipsoid(flip(np.add(FEMORAL_HEAD, (16, 0, -8))), np.full(3, ACETABULUM_MM + 10)),
        "muscle",
        "muscle",
    )
    canvas.bone([*wing[:1], column], f"hip_{name}", shell=2.2)
    canvas.paint(Ellipsoid(head, np.full(3, ACETABULUM_MM + 1.5)), "cartilage", "body_other")
    shaft = curve(flip([(134, 0, -28), (130, 2, -70), (120, 8, -150)]), [19, 16, 14.5])
    neck = curve([head, *flip([(128, 2, -20)])], [16, 16])
    trochanter = curve(flip([(136, -6, -4), (134, -2, -26)]), [13, 18])
    canvas.bone(
        [Ellipsoid(head, np.full(3, ACETABULUM_MM - 1)), neck, trochanter],
        f"femur_{name}",
        shell=2.0,
    )
    canvas.bone(shaft, f"femur_{name}", shell=4.5, cortex="dense_bone", core="fatty_marrow")
    for core in (
        Ellipsoid(head, np.full(3, ACETABULUM_MM - 3)),
        neck.shrunk(2.5),
        trochanter.shrunk(2.5),
    ):
        canvas.paint(core, "marrow", f"femur_{name}")
