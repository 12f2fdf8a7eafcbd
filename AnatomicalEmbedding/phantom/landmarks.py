"""Named points of the canonical body."""

from types import MappingProxyType

import numpy as np
from numpy.typing import ArrayLike

from .abdomen import BLADDER, GALLBLADDER_FUNDUS, KIDNEY, SPLEEN_CENTRE, kidney_axis
from .frame import VERTEBRA_Z, diaphragm_z, spine_y
from .head import BRAINSTEM, CHIN, CRANIUM, EYE
from .skeleton import FEMORAL_HEAD, ILIAC_CREST, PROMONTORY, STERNAL_NOTCH, SYMPHYSIS, XIPHOID
from .thorax import AORTIC_ARCH_TOP, AORTIC_BIFURCATION, CARINA, HEART_APEX, LV_CENTRE


def _sided(name: str, right: ArrayLike, label: str) -> dict[str, tuple[ArrayLike, str]]:
    """Return NAME_right -> (right, label) and NAME_left -> (mirror image, label), with the side inserted in `label`."""
    sides = (("left", (-1, 1, 1)), ("right", (1, 1, 1)))
    return {
        f"{name}_{side}": (np.multiply(right, flip), label.format(side)) for side, flip in sides
    }


def _table() -> dict[str, tuple[ArrayLike, str]]:
    points: dict[str, tuple[ArrayLike, str]] = {
        "carina": (np.add(CARINA, (0, 0, 1)), "trachea"),
        "aortic_arch_top": (AORTIC_ARCH_TOP, "aorta"),
        "aortic_bifurcation": (AORTIC_BIFURCATION, "aorta"),
        "heart_apex": (HEART_APEX - [-3, 2, -2], "heart_myocardium"),
        "left_ventricle_centre": (LV_CENTRE, "heart_ventricle_left"),
        "liver_dome": ((72, 14, 374), "liver"),
        "liver_tip": ((104, 8, 212), "liver"),
        "gallbladder_fundus": (GALLBLADDER_FUNDUS, "gallbladder"),
        "spleen_centre": (SPLEEN_CENTRE, "spleen"),
        "portal_vein_bifurcation": ((40, 41, 310), "portal_vein_and_splenic_vein"),
        "pancreas_head": ((26, 42, 248), "pancreas"),
        "urinary_bladder_centre": (BLADDER, "urinary_bladder"),
        "sacral_promontory": (PROMONTORY, "sacrum"),
        "symphysis": (SYMPHYSIS, "body_other"),
        "xiphoid": (XIPHOID, "sternum"),
        "sternal_notch": (STERNAL_NOTCH, "sternum"),
        "larynx": ((0, 40, 590), "larynx"),
        "chin": (CHIN, "mandible"),
        "brainstem": (BRAINSTEM, "brain"),
        "skull_base": ((0, 46, 677), "skull"),
        "skull_vertex": ((0, CRANIUM[1], 816.5), "skull"),
        **_sided("eye", EYE, "eye_{}"),
        **_sided("lung_apex", (46, -10, 551), "lung_{}"),
        **_sided("femoral_head", FEMORAL_HEAD, "femur_{}"),
        **_sided("iliac_crest", ILIAC_CREST - [0, 0, 2], "hip_{}"),
        **_sided("humeral_head", (161, -16, 508), "humerus_{}"),
        **_sided("parotid_gland", (55, 24, 646), "parotid_gland_{}"),
        **_sided("ischial_tuberosity", (58, -26, -62), "hip_{}"),
    }
    for side, (x, y) in (("right", (72, 14)), ("left", (-76, 10))):
        points[f"diaphragm_dome_{side}"] = (
            (x, y, float(diaphragm_z(np.array(x), np.array(y))) - 2),
            "muscle",
        )
        centre, axis = KIDNEY[side], kidney_axis(side)
        lateral = np.array([1.0 if side == "right" else -1.0, 0, 0])
        points[f"kidney_{side}_centre"] = (centre + 11 * lateral, f"kidney_{side}")
        points[f"kidney_{side}_upper_pole"] = (centre + 51 * axis, f"kidney_{side}")
        points[f"kidney_{side}_lower_pole"] = (centre - 51 * axis, f"kidney_{side}")
    for name, z in VERTEBRA_Z.items():
        if name not in ("C1", "C2"):
            points[f"vertebrae_{name}"] = ((0, float(spine_y(z)), z), f"vertebrae_{name}")
    return points


_POINTS = _table()
LANDMARKS = MappingProxyType({name: np.array(point, float) for name, (point, _) in _POINTS.items()})
LANDMARK_LABEL = MappingProxyType({name: label for name, (_, label) in _POINTS.items()})
