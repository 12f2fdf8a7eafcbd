"""Head and neck of the canonical body."""

import numpy as np

from .canvas import Canvas
from .solids import SIDES, Ellipsoid, Piece, curve, mirrored, sheet

CRANIUM = np.array([0.0, 36.0, 736.0])
CRANIUM_RADII = (73.0, 93.0, 83.0)
_SKULL_MM = 6.5
EYE = np.array([32.0, 104.0, 700.0])  # the right eye
CHIN = np.array([0.0, 113.0, 615.0])
BRAINSTEM = np.array([0.0, 24.0, 665.0])


def draw_head(canvas: Canvas) -> None:
    """Draw skull, brain, face, airway, jaw and the organs of the neck."""
    _draw_face(canvas)
    _draw_skull(canvas)
    _draw_brain(canvas)
    _draw_eyes(canvas)
    _draw_jaw(canvas)
    _draw_neck(canvas)


def _cut_below(solid: Ellipsoid, slope: float, height: float) -> Piece:
    return Piece(
        solid.low,
        solid.high,
        lambda x, y, z: solid.inside(x, y, z) & (z > height + slope * (y - 36)),
    )


def _draw_skull(canvas: Canvas) -> None:
    outer = Ellipsoid(CRANIUM, CRANIUM_RADII)
    canvas.paint(_cut_below(outer, 0.32, 668), "dense_bone", "skull")
    canvas.paint(_cut_below(outer.shrunk(2.2), 0.32, 671), "marrow", "skull")
    canvas.paint(_cut_below(outer.shrunk(4.4), 0.32, 673), "dense_bone", "skull")
    occiput = Ellipsoid((0, -6, 688), (50, 43, 33))
    canvas.paint(occiput, "cortical_bone", "skull", over=("muscle", "fat", "marrow"))
    petrous = [
        curve([(14, 34, 676), (34, 20, 682), (56, 4, 690)], [6, 9, 10]),
        curve([(60, -4, 690), (61, 2, 666)], [12, 8]),
    ]
    for paths in (
        petrous,
        [curve(mirrored(p.points[[0, len(p.points) // 2, -1]]), [6, 9, 10]) for p in petrous],
    ):
        canvas.paint(paths, "dense_bone", "skull")
    for side in (1, -1):
        canvas.paint(Ellipsoid((side * 60, -2, 680), (9, 10, 16)), "mastoid", "skull")
        canvas.paint(curve([(side * 80, 18, 688), (side * 46, 16, 688)], 3.5), "air", "body_other")
    canvas.paint(curve([(0, 52, 694), (0, 42, 670)], [10, 7]), "cortical_bone", "skull")  # clivus
    cheek = [(36, 92, 676), (58, 76, 676), (66, 40, 682)]
    cheeks = [curve(flip(cheek), [6, 5.5, 4.5]) for _, flip in SIDES]
    rim = [
        (12, 112, 704),
        (34, 118, 722),
        (56, 98, 704),
        (40, 106, 682),
        (16, 108, 688),
    ]
    orbits = [curve(flip(rim), 4.2) for _, flip in SIDES]
    canvas.paint([*cheeks, *orbits], "cortical_bone", "skull")
    palate = sheet([(-24, 108, 655), (-26, 62, 657)], [(24, 108, 655), (26, 62, 657)], 3.0)
    arch = curve(
        [
            (-27, 78, 650),
            (-20, 104, 650),
            (0, 116, 650),
            (20, 104, 650),
            (27, 78, 650),
        ],
        6,
    )
    canvas.paint([*palate, arch], "cortical_bone", "skull")


def _draw_brain(canvas: Canvas) -> None:
    inner = Ellipsoid(np.add(CRANIUM, (0, 0, 1)), np.subtract(CRANIUM_RADII, _SKULL_MM))
    canvas.paint(_cut_below(inner, 0.32, 679), "csf", "brain")
    canvas.paint(_cut_below(inner.shrunk(3.5), 0.32, 682), "grey_matter", "brain")
    canvas.paint(Ellipsoid((0, -6, 689), (45, 38, 28)), "grey_matter", "brain")
    for side in (1, -1):
        canvas.paint(Ellipsoid((side * 32, 36, 748), (26, 68, 46)), "white_matter", "brain")
        canvas.paint(Ellipsoid((side * 22, 40, 736), (9, 16, 12)), "grey_matter", "brain")
        horn = [
            (side * 12, 76, 752),
            (side * 10, 44, 760),
            (side * 18, 0, 754),
            (side * 30, -22, 742),
        ]
        canvas.paint(curve(horn, [6, 5.5, 7, 5]), "csf", "brain_ventricles")
    canvas.paint(Ellipsoid((0, 34, 734), (3, 14, 10)), "csf", "brain_ventricles")
    canvas.paint(Ellipsoid((0, 2, 690), (8, 6, 9)), "csf", "brain_ventricles")
    falx = Piece(
        np.array([-1.5, -56, 762]), np.array([1.5, 128, 818]), lambda x, y, z: np.abs(x) < 1.2
    )
    canvas.paint(falx, "cord", "brain", over=("grey_matter", "white_matter"))
    stem = curve(
        [
            (0, 26, 712),
            (0, 24, 690),
            tuple(BRAINSTEM),
            (0, 12, 650),
        ],
        [14, 13, 11, 8],
    )
    canvas.paint(stem, "white_matter", "brain")
    canvas.paint(curve([(0, -44, 796), (0, -55, 750), (0, -52, 715)], 3.5), "vein", "brain")


def _draw_eyes(canvas: Canvas) -> None:
    for name, side in (("right", 1), ("left", -1)):
        eye = EYE * [side, 1, 1]
        cone = curve([tuple(eye), (side * 24, 74, 702), (side * 14, 58, 704)], [16, 11, 3])
        canvas.paint(cone, "fat", "body_other")
        canvas.paint(curve([tuple(eye), (side * 12, 56, 706)], 2.2), "soft", "body_other")
        for dx in (-10, 10):
            canvas.paint(
                curve([np.add(eye, (dx, -4, 0)), (side * 14, 60, 704)], 2.0), "muscle", "body_other"
            )
        canvas.paint(Ellipsoid(eye, (12.5, 12.5, 12.5)), "muscle", f"eye_{name}")
        canvas.paint(Ellipsoid(eye, (11.3, 11.3, 11.3)), "eye", f"eye_{name}")
        canvas.paint(Ellipsoid(np.add(eye, (0, 8.5, 0)), (5, 2.6, 5)), "lens", f"eye_{name}")


def _draw_face(canvas: Canvas) -> None:
    canvas.paint(
        Ellipsoid((0, 84, 684), (50, 38, 34)), "cortical_bone", "skull", over=("muscle", "fat")
    )
    canvas.paint(Ellipsoid((0, 84, 684), (47, 35, 31)), "soft", "body_other")
    for side in (1, -1):
        canvas.paint(Ellipsoid((side * 28, 86, 671), (15, 19, 16)), "cortical_bone", "skull")
        canvas.paint(Ellipsoid((side * 28, 86, 671), (13, 17, 14)), "sinus", "paranasal_sinuses")
        canvas.paint(Ellipsoid((side * 8, 86, 696), (6, 22, 12)), "mastoid", "paranasal_sinuses")
        canvas.paint(Ellipsoid((side * 9, 52, 694), (8, 10, 9)), "sinus", "paranasal_sinuses")
        canvas.paint(Ellipsoid((side * 12, 117, 727), (11, 5, 11)), "sinus", "paranasal_sinuses")
        canvas.paint(Ellipsoid((side * 6, 88, 672), (4.5, 38, 15)), "airway", "paranasal_sinuses")
        for z in (664, 674):
            canvas.paint(
                curve([(side * 9, 60, z), (side * 8, 112, z)], 3.0), "soft", "paranasal_sinuses"
            )
    septum = Piece(
        np.array([-1.5, 54, 658]), np.array([1.5, 132, 700]), lambda x, y, z: np.abs(x) < 1.4
    )
    canvas.paint(septum, "soft", "paranasal_sinuses", over=("airway",))
    pharynx = [
        (0, 66, 672),
        (0, 57, 655),
        (0, 50, 630),
        (0, 46, 606),
    ]
    canvas.paint(curve(pharynx, [11, 9, 9, 11], squash=(1.5, 0.8, 1)), "airway", "pharynx")


def _draw_jaw(canvas: Canvas) -> None:
    half = [
        (52, 34, 682),
        (51, 40, 655),
        (48, 52, 634),
        (36, 82, 626),
        (20, 104, 623),
        (0, 111, 622),
    ]
    low = [
        (50, 32, 672),
        (49, 36, 650),
        (45, 50, 626),
        (35, 80, 619),
        (20, 102, 617),
        (0, 109, 617),
    ]
    bone = [t for _, flip in SIDES for t in sheet(flip(half), flip(low), 4.6)]
    bone += [curve([(side * 52, 34, 684), (side * 51, 37, 668)], 6) for side in (1, -1)]
    canvas.bone([*bone, Ellipsoid(CHIN, (13, 6.5, 9))], "mandible", shell=1.9, cortex="dense_bone")
    for z, arch in (
        (644, [(27, 76), (21, 100), (10, 111)]),
        (634, [(27, 76), (21, 98), (10, 108)]),
    ):
        knots = np.array([(x, y, z) for x, y in arch], float)
        for points in (knots, mirrored(knots)):
            for point in curve(points, 1, step=7).points:
                canvas.paint(Ellipsoid(point, (3, 3, 6)), "tooth", "teeth")
    canvas.paint(Ellipsoid((0, 78, 636), (21, 30, 16)), "muscle", "tongue")
    for name, side in (("right", 1), ("left", -1)):
        gland = Ellipsoid((side * 55, 24, 646), (12, 14, 24))
        canvas.paint(gland, "gland", f"parotid_gland_{name}", over=("muscle", "fat", "soft"))
        canvas.paint(
            Ellipsoid((side * 32, 64, 616), (11, 15, 9)),
            "gland",
            "body_other",
            over=("muscle", "fat"),
        )


def _draw_neck(canvas: Canvas) -> None:
    canvas.paint(
        curve([(0, 40, 606), (0, 40, 578)], [13, 12], squash=(1.2, 1, 1)), "cartilage", "larynx"
    )
    canvas.paint(
        curve([(0, 40, 606), (0, 39, 578)], [10.5, 9.5], squash=(1.2, 1, 1)), "soft", "larynx"
    )
    glottis = [
        (0, 42, 612),
        (0, 40, 594),
        (0, 39, 590),
        (0, 37, 575),
    ]
    canvas.paint(curve(glottis, [9, 5, 5, 9], squash=(1, 1.2, 1)), "airway", "larynx")
    canvas.bone(
        curve(
            [
                (20, 46, 612),
                (12, 60, 611),
                (-12, 60, 611),
                (-20, 46, 612),
            ],
            3,
        ),
        "larynx",
        shell=1.5,
    )
    for side in (1, -1):
        lobe, over = (
            Ellipsoid((side * 17, 34, 562), (9, 10, 21)),
            ("muscle", "fat", "soft", "visceral_fat"),
        )
        canvas.paint(lobe, "thyroid", "thyroid_gland", over=over)
        path = [
            (side * 50, 4, 668),
            (side * 48, 26, 620),
            (side * 36, 50, 575),
            (side * 20, 58, 528),
        ]
        behind = [np.add(np.array(p, float), (0, -2, 0)) for p in path]
        canvas.paint(curve(behind, [13, 13, 12, 9]), "fat", "muscle", over=("muscle",))
        canvas.paint(curve(path, [11, 11.5, 10, 7]), "muscle", "muscle", over=("muscle", "fat"))
    isthmus = curve([(0, 47, 568), (0, 45, 555)], 4, squash=(2.5, 1, 1))
    canvas.paint(isthmus, "thyroid", "thyroid_gland", over=("muscle", "fat"))
