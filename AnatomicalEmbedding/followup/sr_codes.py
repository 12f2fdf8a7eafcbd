"""Codes of structured reports. Sizes have codes of SNOMED CT and DICOM; states and roles have codes of this program.

A role says whether a lesion is a target lesion, and whether it is a lymph node. Organ codes are in `anatomy.codes`.
"""

from ..anatomy.codes import Code
from ..dicom.sr_items import SCHEME
from .lesions import CONFIRMED, LONG, MARKED, MERGED, MOVED, NOT_VISIBLE, OUTSIDE, PROPOSED, SHORT

LESION: Code = ("52988006", "SCT", "Lesion")
AXES: dict[str, Code] = {
    LONG: ("103339001", "SCT", "Long axis"),
    SHORT: ("103340004", "SCT", "Short axis"),
}

STATE: Code = ("state", SCHEME, "Review of the lesion in this study")
_STATES = {
    MARKED: "Marked by a person",
    PROPOSED: "UNCONFIRMED: proposed by software, not reviewed",
    CONFIRMED: "Proposed by software, confirmed by a person",
    MOVED: "Proposed by software, corrected by a person",
    NOT_VISIBLE: "Place is in the scan, lesion is not visible",
    OUTSIDE: "Place is not in the scan",
    MERGED: "Merged with another lesion",
}
STATE_CODES: dict[str, Code] = {
    state: (state.replace(" ", "-"), SCHEME, meaning) for state, meaning in _STATES.items()
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
