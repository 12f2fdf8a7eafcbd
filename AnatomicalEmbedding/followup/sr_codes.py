"""Codes of structured reports. Sizes have codes of SNOMED CT and DICOM; states and roles have codes of this program.

A role says whether a lesion is a target lesion, and whether it is a lymph node. Organ codes are in `anatomy.codes`.
"""

from ..anatomy.codes import Code, code_of, name_of_code
from ..anatomy.names import SIDES, spelling_key
from .lesions import CONFIRMED, LONG, MARKED, MERGED, MOVED, NOT_VISIBLE, OUTSIDE, PROPOSED, SHORT

SCHEME = "99ANATEMB"  # the coding scheme of this program; local schemes begin with 99 (DICOM PS3.16, section 8.2)
LESION: Code = ("52988006", "SCT", "Lesion")
AXES: dict[str, Code] = {LONG: ("103339001", "SCT", "Long axis"), SHORT: ("103340004", "SCT", "Short axis")}
VOLUME: Code = ("118565006", "SCT", "Volume")
MM: Code = ("mm", "UCUM", "mm")
ML: Code = ("mL", "UCUM", "mL")
CENTER: Code = ("111010", "DCM", "Center")
SIDE_CODES: dict[str, Code] = {"left": ("7771000", "SCT", "Left"), "right": ("24028007", "SCT", "Right")}

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


def site_codes(site: str) -> tuple[Code, Code | None] | None:
    """Return the code of the organ and the code of the side of a site such as "left kidney" or "kidney_left".

    The code of the side is None if the site names no side. Returns None if the organ is unknown.
    """
    organ = code_of(site)
    side = next((word for word in spelling_key(site).split("_") if word in SIDES), "")
    return None if organ is None else (organ, SIDE_CODES.get(side))


def organ_of(site: str) -> str:
    """Return the organ of a site in words, without the side; for an unknown organ, the site in lower case."""
    organ = code_of(site)
    return site.casefold().strip() if organ is None else organ[2].casefold()


def site_words(organ: Code, side: Code | None) -> str:
    """Return a site in words, such as "left kidney". For an unknown organ, the words in its code are used."""
    named = next((word for word, code in SIDE_CODES.items() if side is not None and side[:2] == code[:2]), "")
    return f"{named} {name_of_code(organ) or organ[2]}".strip()
