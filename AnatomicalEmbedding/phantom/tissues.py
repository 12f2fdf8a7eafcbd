"""Tissues of the phantom: CT numbers by contrast phase, texture, and the names of all labels."""

from types import MappingProxyType

import numpy as np

PHASES = ("native", "arterial", "portal", "delayed")

# Tissue: CT number (HU), standard deviation between patients (HU), texture amplitude (HU).
# Four CT numbers: one for each phase; one CT number: for all phases. Values: usual diagnostic ranges at 120 kV.
_TISSUES: dict[str, tuple[float | tuple[float, float, float, float], float, float]] = {
    "air": (-1000, 0, 0),
    "skin": (5, 10, 15),
    "fat": (-102, 5, 8),
    "visceral_fat": (-98, 5, 12),
    "muscle": ((50, 55, 60, 60), 5, 14),
    "soft": ((38, 42, 50, 48), 4, 8),
    "lung": (-850, 30, 30),
    "airway": (-985, 4, 4),
    "airway_wall": (20, 10, 10),
    "lung_vessel": ((35, 190, 120, 80), 15, 15),
    "artery": ((42, 310, 155, 105), 15, 4),
    "vein": ((40, 90, 145, 110), 10, 4),
    "pulmonary_blood": ((42, 260, 150, 105), 15, 4),
    "heart_blood_left": ((42, 300, 150, 105), 15, 5),
    "heart_blood_right": ((41, 200, 145, 105), 15, 8),
    "myocardium": ((46, 95, 112, 92), 6, 6),
    "liver": ((57, 66, 108, 92), 8, 5),
    "hepatic_vein": ((42, 62, 150, 112), 6, 4),
    "portal_vein": ((42, 100, 165, 115), 8, 4),
    "bile": (8, 4, 3),
    "spleen": ((48, 115, 122, 98), 7, 5),
    "kidney_cortex": ((34, 170, 185, 160), 10, 6),
    "kidney_medulla": ((32, 75, 160, 165), 10, 8),
    "urine_pelvis": ((5, 5, 12, 260), 4, 3),
    "urine": ((5, 5, 8, 90), 4, 3),
    "pancreas": ((38, 95, 84, 66), 6, 14),
    "adrenal": ((20, 60, 60, 45), 5, 4),
    "gut_wall": ((38, 62, 82, 70), 6, 10),
    "gut_fluid": (18, 12, 14),
    "stomach_fluid": (20, 14, 16),
    "stool": (12, 15, 90),
    "gut_gas": (-960, 15, 15),
    "cortical_bone": (640, 80, 90),
    "dense_bone": (950, 80, 90),
    "marrow": (190, 30, 60),
    "fatty_marrow": (30, 25, 40),
    "disc": (85, 10, 10),
    "cartilage": (110, 20, 20),
    "cord": (38, 3, 3),
    "csf": (9, 3, 3),
    "grey_matter": (39, 2, 2),
    "white_matter": (29, 2, 2),
    "tooth": (1900, 150, 150),
    "eye": (12, 3, 3),
    "lens": (70, 5, 3),
    "gland": ((20, 35, 45, 40), 10, 14),
    "thyroid": ((105, 190, 155, 130), 15, 6),
    "sinus": (-970, 10, 10),
    "mastoid": (-250, 60, 380),
}
TISSUE_ID = MappingProxyType({name: index for index, name in enumerate(_TISSUES)})
TEXTURE_HU = np.array([texture for _, _, texture in _TISSUES.values()], np.float32)

_REGIONS = (("C", 7), ("T", 12), ("L", 5))
VERTEBRAE = tuple(
    f"{region}{n}" for region, count in _REGIONS for n in range(1, count + 1)
)  # from the head down

_LABELS = [
    "background",
    "body_other",
    "subcutaneous_fat",
    "visceral_fat",
    "muscle",
    "lung_left",
    "lung_right",
    "trachea",
    "bronchi",
    "pulmonary_vessels",
    "esophagus",
    "heart_myocardium",
    "heart_ventricle_left",
    "heart_ventricle_right",
    "heart_atrium_left",
    "heart_atrium_right",
    "aorta",
    "pulmonary_artery",
    "superior_vena_cava",
    "inferior_vena_cava",
    "portal_vein_and_splenic_vein",
    "iliac_artery_left",
    "iliac_artery_right",
    "iliac_vena_left",
    "iliac_vena_right",
    "common_carotid_artery_left",
    "common_carotid_artery_right",
    "subclavian_artery_left",
    "subclavian_artery_right",
    "internal_jugular_vein_left",
    "internal_jugular_vein_right",
    "brachiocephalic_vein_left",
    "brachiocephalic_vein_right",
    "liver",
    "gallbladder",
    "spleen",
    "kidney_left",
    "kidney_right",
    "adrenal_gland_left",
    "adrenal_gland_right",
    "pancreas",
    "stomach",
    "duodenum",
    "small_bowel",
    "colon",
    "urinary_bladder",
    "spinal_cord",
    "intervertebral_discs",
    "sacrum",
    "sternum",
    "costal_cartilages",
    "clavicula_left",
    "clavicula_right",
    "scapula_left",
    "scapula_right",
    "humerus_left",
    "humerus_right",
    "hip_left",
    "hip_right",
    "femur_left",
    "femur_right",
    "iliopsoas_left",
    "iliopsoas_right",
    "autochthon_left",
    "autochthon_right",
    "gluteal_muscles_left",
    "gluteal_muscles_right",
    "thyroid_gland",
    "larynx",
    "pharynx",
    "mandible",
    "skull",
    "brain",
    "brain_ventricles",
    "eye_left",
    "eye_right",
    "paranasal_sinuses",
    "parotid_gland_left",
    "parotid_gland_right",
    "teeth",
    "tongue",
]
_LABELS += [f"vertebrae_{name}" for name in VERTEBRAE]
_LABELS += [f"rib_{side}_{n}" for side in ("left", "right") for n in range(1, 13)]
_LABELS += ["prostate", "uterus"]
LABEL_ID = MappingProxyType({name: index for index, name in enumerate(_LABELS)})


def hu_table(phase: str, rng: np.random.Generator) -> np.ndarray:
    """Choose the random HU of every tissue in one patient: float32, indexed by `TISSUE_ID`. phase: one of `PHASES`."""
    column = PHASES.index(phase)
    deviation = rng.standard_normal(len(_TISSUES))
    usual = [hu[column] if isinstance(hu, tuple) else hu for hu, _, _ in _TISSUES.values()]
    spread = [sd for _, sd, _ in _TISSUES.values()]
    return (np.array(usual) + np.clip(deviation, -2, 2) * np.array(spread)).astype(np.float32)
