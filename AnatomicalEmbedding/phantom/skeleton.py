"""Bones of the trunk, shoulders and pelvis of the canonical body."""

import numpy as np

from ..anatomy.names import VERTEBRAE
from ..resources import read_table
from .canvas import Canvas
from .frame import CAVITY, VERTEBRA_Z, profile, spine_axes, spine_y
from .parts import draw_part
from .solids import Piece, Tube, curve

_RIBS = read_table("Phantom/ribs.csv")  # ribs 1 to 12
# By region of the spine, mm: half width of the canal; length and droop of the spinous process; reach of the transverse
# processes, how far they lie behind the canal's centre, and their radius.
_PROCESSES = {
    "C": (10.0, 9, -3, 22, -4, 3.2),
    "T": (10.0, 13, -16, 31, 8, 4.2),
    "L": (11.0, 24, -4, 42, 8, 4.2),
}
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
    half_width = float(np.interp(z, *profile("vertebra_half_width")))
    return half_width, float(np.interp(z, *profile("vertebra_half_depth")))


def _frame_point(name: str, right: float, ahead: float, up: float) -> np.ndarray:
    """Convert a point in the frame of vertebra `name` (mm to the right, to the front, upwards) to the body frame."""
    z = VERTEBRA_Z[name]
    return np.array([0, float(spine_y(z)), z]) + np.array([right, ahead, up]) @ spine_axes(z)


def _cylinder(name: str, rx: float, ry: float, half: float, up: float = 0.0) -> Piece:
    """Return a body of a vertebra, or a disc: an elliptic cylinder along the spine, a tenth narrower in its middle.

    Args:
        name: the vertebra.
        rx, ry: half width and half depth, mm.
        half: half height, mm.
        up: distance of its centre above the centre of the vertebra, mm.
    """
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
    """Draw sacrum, vertebrae (arch, processes, body), the disc below each vertebra, and the spinal cord."""
    draw_part(canvas, "sacrum")
    heights = np.array(list(VERTEBRA_Z.values()))
    gaps = -np.diff(np.append(heights, 94.0))  # to the next centre below; 94 mm: the sacrum
    for name, below in zip(VERTEBRA_Z, gaps, strict=True):
        rx, ry = vertebra_radii(name)
        disc = 0.27 * below
        half = (below - disc) / 2
        label = f"vertebrae_{name}"
        canvas.bone(_arch(name, below), label, 1.9)
        if name != "C1":
            canvas.paint(_cylinder(name, rx, ry, half), "cortical_bone", label)
            canvas.paint(_cylinder(name, rx - 1.8, ry - 1.8, half - 1.8), "marrow", label)
            plate = _cylinder(name, rx + 0.5, ry + 0.5, disc / 2, up=-below / 2)
            canvas.paint(plate, "disc", "intervertebral_discs")
    _draw_cord(canvas)


def _arch(name: str, below: float) -> list[Tube]:
    """Return the arch and the processes of a vertebra. below: distance to the next vertebra below, mm."""
    canal, reach, droop, wing, behind, radius = _PROCESSES[name[0]]
    canal_y = -vertebra_radii(name)[1] - canal  # centre of the canal

    def tube(points: list, radius: float, tall: float = 1.0) -> Tube:
        """Make a tube through points of the vertebra's frame, mm. tall: widens it along the spine."""
        return curve([_frame_point(name, *point) for point in points], radius, squash=(1, 1, tall))

    wide = canal + 2
    turns = np.linspace(-2.3, 2.3, 15)
    arch = [(wide * np.sin(turn), canal_y - wide * np.cos(turn), 0.0) for turn in turns]
    spinous = [(0.0, canal_y - canal, 0.0), (0.0, canal_y - canal - reach, droop)]
    tubes = [tube(arch, 3.8, 0.42 * below / 4.5), tube(spinous, 3.2, 0.35 * below / 3.6)]
    for side in (1, -1):
        process = [(side * wide, canal_y - 2, 1.0), (side * wing, canal_y - behind, 2.0)]
        tubes.append(tube(process, radius))
    return tubes


def _draw_cord(canvas: Canvas) -> None:
    """Draw the fluid in the canal of the spine, the cord in it, and below L1 two bundles of nerves."""
    path = [
        _frame_point(v, 0, -vertebra_radii(v)[1] - _PROCESSES[v[0]][0], 0) for v in VERTEBRAE[1:-1]
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
    fall = float(_RIBS[number - 1]["fall"])
    hump = 6 * np.sin(np.pi * min(way * 4, 1)) * (way < 0.25)
    z = VERTEBRA_Z[f"T{number}"] + 7 + hump - fall * way**1.25
    if way > _BONY and 2 < number <= 10:  # the cartilage rises to the sternum
        z += (way - _BONY) * (130 if number > 5 else 50)
    # the point of the cavity's cross-section in the direction `angle` (0: to the back), moved outwards
    half, middle, front, rear = (float(v) for v in CAVITY.section(np.array(z)))
    angle = np.pi * (0.075 + 0.90 * way)
    depth = front if np.cos(angle) < 0 else rear
    grow = 1 / np.sqrt((1 + np.sqrt(max(1 - CAVITY.squareness * np.sin(2 * angle) ** 2, 0))) / 2)
    aside = side * (half + _RIB_OUTWARD_MM) * np.sin(angle) * grow
    ahead = -(depth + _RIB_OUTWARD_MM) * np.cos(angle) * grow
    return np.array([aside, middle + ahead, z])


def _draw_thorax(canvas: Canvas) -> None:
    """Draw the ribs, each from its vertebra around the chest, with the cartilage at its end, and the sternum."""
    for number in range(1, 13):
        end = float(_RIBS[number - 1]["end"])
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
            canvas.bone([curve(path, radius, squash=squash)], f"rib_{name}_{number}", 1.7)
    draw_part(canvas, "sternum")
