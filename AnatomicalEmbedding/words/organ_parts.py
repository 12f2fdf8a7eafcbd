"""Labels of parts and layers of an organ (`Kidney, left, cortex`, `Stomach wall`) as the whole organ's name."""

from __future__ import annotations

import re

from ..anatomy.names import known_name, spelling_key

_LAYERS = re.compile(
    r",? (wall|contents|cortical|spongiosa|medullary cavity|adipose tissue|glandular tissue|blood|tissue)\b"
    r"|\((blood|inner part)\)|, (upper|lower) half|(?<=kidney, left), \w+|(?<=kidney, right), \w+"
)
_BONY_PELVIS = "pelvis"  # of label maps: the hip bones; as a place of the body, "pelvis" is the region
_NO_PLACE = re.compile(r"^(residual|muscle|skin|blood vessels|lymphatic nodes|air inside|cartilage)\b|eye lense")


def whole_name(label: str) -> str:
    """The canonical name of the organ that a label belongs to; "background" for tissue that is spread over the body."""
    text = label.strip().lower()
    if _NO_PLACE.search(text):
        return "background"
    organ = _LAYERS.sub("", text)
    return "hips" if organ == _BONY_PELVIS else known_name(organ) or spelling_key(organ)
