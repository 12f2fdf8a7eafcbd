"""Codes of structured reports: organs in SNOMED CT, and a scheme of our own for what DICOM has no code for."""

import re

from .lesions import CONFIRMED, MARKED, MERGED, MOVED, NOT_VISIBLE, OUTSIDE, PROPOSED

Code = tuple[str, str, str]  # value, scheme, meaning

SCHEME = "99ANATEMB"  # 99: local, DICOM PS3.16 section 8.2
UNCONFIRMED = " (UNCONFIRMED)"  # ends the identifier of an unreviewed lesion
LESION: Code = ("52988006", "SCT", "Lesion")
LONG_AXIS: Code = ("103339001", "SCT", "Long axis")
SHORT_AXIS: Code = ("103340004", "SCT", "Short axis")
VOLUME: Code = ("118565006", "SCT", "Volume")
MM: Code = ("mm", "UCUM", "mm")
ML: Code = ("mL", "UCUM", "mL")
CENTER: Code = ("111010", "DCM", "Center")
SIDES: dict[str, Code] = {"left": ("7771000", "SCT", "Left"), "right": ("24028007", "SCT", "Right")}

STATE: Code = ("state", SCHEME, "Review of the lesion in this study")
STATE_CODES: dict[str, Code] = {
    MARKED: ("marked", SCHEME, "Marked by a person"),
    PROPOSED: ("proposed", SCHEME, "UNCONFIRMED: proposed by software, not reviewed"),
    CONFIRMED: ("confirmed", SCHEME, "Proposed by software, confirmed by a person"),
    MOVED: ("moved", SCHEME, "Proposed by software, corrected by a person"),
    NOT_VISIBLE: ("not-visible", SCHEME, "Place is in the scan, lesion is not visible"),
    OUTSIDE: ("outside", SCHEME, "Place is not in the scan"),
    MERGED: ("merged", SCHEME, "Merged with another lesion"),
}
ROLE: Code = ("role", SCHEME, "Role of the lesion in the response")
ROLE_CODES: dict[tuple[bool, bool], Code] = {  # target, nodal
    (True, False): ("target", SCHEME, "Target lesion"),
    (True, True): ("target-node", SCHEME, "Target lymph node"),
    (False, False): ("non-target", SCHEME, "Non-target lesion"),
    (False, True): ("non-target-node", SCHEME, "Non-target lymph node"),
}
MERGED_WITH: Code = ("merged-with", SCHEME, "Tracking UID of the lesion it merged with")
SPLIT_FROM: Code = ("split-from", SCHEME, "Tracking UID of the lesion it split from")

_ORGANS = {
    "adrenal gland": "23451007", "aorta": "15825003", "bone": "272673000", "brain": "12738006", "breast": "76752008",
    "bronchus": "955009", "chest wall": "78904004", "colon": "71854001", "diaphragm": "5798000",
    "duodenum": "38848004", "esophagus": "32849002", "femur": "71341001", "gallbladder": "28231008",
    "heart": "80891009", "ilium": "22356005", "kidney": "64033007", "larynx": "4596009", "liver": "10200004",
    "lung": "39607008", "mediastinum": "72410000", "muscle": "71616004", "neck": "45048000", "omentum": "27398004",
    "ovary": "15497006", "pancreas": "15776009", "parotid gland": "45289007", "pelvis": "816092008",
    "peritoneum": "15425007", "pleura": "3120008", "prostate": "41216001", "rectum": "34402009",
    "retroperitoneum": "82849001", "rib": "113197003", "sacrum": "54735007", "skin": "39937001",
    "small intestine": "30315005", "soft tissue": "87784001", "spine": "421060004", "spleen": "78961009",
    "stomach": "69695003", "testis": "40689003", "thymus": "9875009", "thyroid": "69748006", "trachea": "44567001",
    "urinary bladder": "89837001", "uterus": "35039007",
    "lymph node": "59441001", "abdominal lymph node": "818991007", "axillary lymph node": "68171009",
    "cervical lymph node": "81105003", "hilar lymph node": "53074004", "iliac lymph node": "84219008",
    "inguinal lymph node": "8928004", "mediastinal lymph node": "62683002", "pelvic lymph node": "54268001",
    "retroperitoneal lymph node": "91394001", "supraclavicular lymph node": "76838003",
}  # fmt: skip
_ALSO = {
    "adrenal": "adrenal gland", "bladder": "urinary bladder", "oesophagus": "esophagus",
    "small bowel": "small intestine", "thyroid gland": "thyroid", "node": "lymph node",
}  # fmt: skip
_BY_VALUE = {value: organ for organ, value in _ORGANS.items()}


def organs() -> tuple[str, ...]:
    """The sites that have a code, in words."""
    return tuple(_ORGANS)


def site_codes(site: str) -> tuple[Code, Code | None] | None:
    """Organ and side of a site in words ("left kidney", "kidney_left"), or None where there is no code for it."""
    organ = organ_of(site)
    if organ not in _ORGANS:
        return None
    side = next((word for word in _words(site) if word in SIDES), None)
    return (_ORGANS[organ], "SCT", organ.capitalize()), SIDES.get(side)


def organ_of(site: str) -> str:
    """The organ of a site in words, without its side, by the name that has a code where there is one."""
    organ = " ".join(word for word in _words(site) if word not in SIDES)
    return _ALSO.get(organ, organ)


def site_words(organ: Code, side: Code | None) -> str:
    """A site in words; unknown codes by their meaning."""
    known = _BY_VALUE.get(organ[0]) if organ[1] == "SCT" else None
    named = next((word for word, code in SIDES.items() if side is not None and side[:2] == code[:2]), "")
    return f"{named} {known or organ[2]}".strip()


def _words(site: str) -> list[str]:
    return re.findall(r"[^\W_]+", site.casefold())
