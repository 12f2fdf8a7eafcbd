"""One way to write the name of a structure: TotalSegmentator's (`kidney_left`, `rib_left_5`, `vertebrae_T12`)."""

from __future__ import annotations

import re

LEFT, RIGHT = "left", "right"
SIDES = (LEFT, RIGHT)
_SIDE_WORDS = {"left": LEFT, "l": LEFT, "lt": LEFT, "right": RIGHT, "r": RIGHT, "rt": RIGHT}
_SAME = {
    "adrenal": "adrenal_gland",
    "bladder": "urinary_bladder",
    "brain_stem": "brainstem",
    "celiac_trunk": "celiac_artery",
    "clavicle": "clavicula",
    "eyeball": "eye",
    "gall_bladder": "gallbladder",
    "gluteus": "gluteal_muscles",
    "iliac_vein": "iliac_vena",
    "ivc": "inferior_vena_cava",
    "lung_vessels": "pulmonary_vessels",
    "oesophagus": "esophagus",
    "parotid": "parotid_gland",
    "postcava": "inferior_vena_cava",
    "sinuses": "paranasal_sinuses",
    "spinalcord": "spinal_cord",
    "svc": "superior_vena_cava",
    "thyroid": "thyroid_gland",
    "ventricle": "brain_ventricles",
    "vertebral_discs": "intervertebral_discs",
}
# Structures that are the sum of others, for data that label the parts alone.
SUMS = {
    "lung_left": ("lung_upper_lobe_left", "lung_lower_lobe_left"),
    "lung_right": ("lung_upper_lobe_right", "lung_middle_lobe_right", "lung_lower_lobe_right"),
    "heart": (
        "heart_myocardium",
        "heart_ventricle_left",
        "heart_ventricle_right",
        "heart_atrium_left",
        "heart_atrium_right",
    ),
    "gluteal_muscles_left": ("gluteus_maximus_left", "gluteus_medius_left", "gluteus_minimus_left"),
    "gluteal_muscles_right": ("gluteus_maximus_right", "gluteus_medius_right", "gluteus_minimus_right"),
}
VERTEBRAE = (
    *(f"C{n}" for n in range(1, 8)),
    *(f"T{n}" for n in range(1, 13)),
    *(f"L{n}" for n in range(1, 6)),
    "S1",
)


def canonical_name(label: str) -> str:
    """A label's name (`Kidney, left`, `vertebra_t12`, `rib_5_left`) as TotalSegmentator writes it."""
    words = [word for word in re.split(r"[^a-z0-9]+", label.strip().lower()) if word]
    sides = [_SIDE_WORDS[word] for word in words if word in _SIDE_WORDS]
    rest = [word for word in words if word not in _SIDE_WORDS]
    if len(rest) == 2 and rest[0] in ("vertebra", "vertebrae") and rest[1].upper() in VERTEBRAE:
        return f"vertebrae_{rest[1].upper()}"
    numbers = [word for word in rest if word.isdigit()]
    if len(sides) == 1 and len(numbers) == 1 and rest[0] == "rib":
        return f"rib_{sides[0]}_{int(numbers[0])}"
    plain = "_".join(rest)
    return "_".join([_SAME.get(plain, plain), *sides]) if plain else "_".join(words)
