"""Labels of parts and layers of an organ (`Kidney, left, cortex`, `Stomach wall`) as the whole organ's name."""

from __future__ import annotations

import re

from ..anatomy.names import known_name, spelling_key

_LAYERS = re.compile(
    r",? (wall|contents|cortical|spongiosa|medullary cavity|adipose tissue|glandular tissue|blood|tissue)\b"
    r"|\((blood|inner part)\)|, (upper|lower) half|(?<=kidney, left), \w+|(?<=kidney, right), \w+"
)
_WHOLE = {
    "annulus_proper": "aortic_valve",
    "sinotubular_junction": "aortic_valve",
    "transverse_colon_left": "transverse_colon",
    "transverse_colon_right": "transverse_colon",
    "pelvis": "hips",  # of label maps: the bones; as a place of the body, "pelvis" is the region
}
_NO_PLACE = re.compile(r"^(residual|muscle|skin|blood vessels|lymphatic nodes|air inside|cartilage)\b|eye lense")


def whole_name(label: str) -> str:
    """The canonical name of the organ that a label belongs to; "background" for tissue that is spread over the body."""
    text = label.strip().lower()
    if _NO_PLACE.search(text):
        return "background"
    organ = _LAYERS.sub("", text)
    key = spelling_key(organ)
    return _WHOLE.get(key) or known_name(organ) or key
