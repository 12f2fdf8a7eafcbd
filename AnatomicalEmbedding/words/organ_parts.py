"""Labels of parts and layers of an organ (`Kidney, left, cortex`, `Stomach wall`) as the whole organ's name."""

from __future__ import annotations

import re

from .structure_names import canonical_name

_LAYERS = re.compile(
    r",? (wall|contents|cortical|spongiosa|medullary cavity|adipose tissue|glandular tissue|blood|tissue)\b"
    r"|\((blood|inner part)\)|, (upper|lower) half|(?<=kidney, left), \w+|(?<=kidney, right), \w+"
)
_WHOLE = {
    "bronchi": "bronchi",
    "cranium": "skull",
    "eye_bulb_left": "eye_left",
    "eye_bulb_right": "eye_right",
    "heart": "heart",
    "cervical_spine": "cervical_spine",
    "thoracic_spine": "thoracic_spine",
    "lumbar_spine": "lumbar_spine",
    "small_intestine": "small_bowel",
    "testis_left": "testis_left",
    "transverse_colon_left": "transverse_colon",
    "transverse_colon_right": "transverse_colon",
    "pelvis": "hips",
    "pituitary_gland": "pituitary_gland",
    "rectum": "rectum",
}
_NO_PLACE = re.compile(r"^(residual|muscle|skin|blood vessels|lymphatic nodes|air inside|cartilage)\b|eye lense")


def whole_name(label: str) -> str:
    """The canonical name of the organ that a label belongs to; "background" for tissue that is spread over the body."""
    text = label.strip().lower()
    if _NO_PLACE.search(text):
        return "background"
    name = canonical_name(_LAYERS.sub("", text))
    return _WHOLE.get(name, name)
