"""Refuse headers of NRRD and MetaImage files that would crash ITK, and with it the whole program.

ITK 5.4 ends with a segmentation fault if a wrong field of a NRRD header is longer than the buffers of NrrdIO, or if a
MetaImage has more than ten axes. ITK 5.4 never finishes reading if a header has extremely large positions.
Formats: teem.sourceforge.net/nrrd/format.html and itk.org/Wiki/MetaIO/Documentation.
"""

import re
from pathlib import Path

from ..errors import VolumeError
from .checks import LARGEST_POSITION_MM

_HEADER_BYTES = 1 << 20  # so far a header is read; by hand, far more than headers have
# characters; the longest valid field, three directions in full precision, has 230
_LONGEST_FIELD = 400
_FREE_TEXT = (b"content:", b"data file:", b"datafile:")
_MOST_AXES = 4  # three, and one for time or components; ITK allows ten
_GEOMETRY = re.compile(
    rb"^(?:space directions|space origin|spacings|TransformMatrix|Rotation|Orientation|Offset|Position|Origin|"
    rb"CenterOfRotation|ElementSpacing|ElementSize)\s*[:=]([^\r\n]*)",
    re.IGNORECASE | re.MULTILINE,
)
_NUMBER = re.compile(rb"[-+]?(?:\d+\.?\d*|\.\d+)(?:e[-+]?\d+)?|inf", re.IGNORECASE)


def check_text_header(path: Path) -> None:
    """Raise VolumeError if the header of a NRRD or MetaImage file would crash ITK. Raises OSError if reading fails."""
    suffix = path.suffix.lower()
    if suffix not in (".nrrd", ".nhdr", ".mha", ".mhd"):
        return
    with path.open("rb") as stream:
        head = stream.read(_HEADER_BYTES)
    if suffix in (".nrrd", ".nhdr"):
        # the header ends at the first empty line
        header, *_ = re.split(rb"\r?\n\r?\n", head, maxsplit=1)
        lines = re.split(rb"\r?\n", header)
        harmless = all(len(line) <= _LONGEST_FIELD or _is_free(line) for line in lines)
    else:
        stated = re.findall(rb"NDims\s*=\s*([^\r\n]*)", head)
        axes = {str(n).encode() for n in range(1, _MOST_AXES + 1)}
        harmless = bool(stated) and all(value.strip() in axes for value in stated)
    numbers = _NUMBER.findall(b" ".join(_GEOMETRY.findall(head)))
    if not harmless or any(abs(float(number)) > LARGEST_POSITION_MM for number in numbers):
        raise VolumeError(
            f"{path}: is damaged, truncated, or not a {suffix} file; copy or export it again."
        )


def _is_free(line: bytes) -> bool:
    """Return whether a line of an NRRD header is a comment, a key with a value, or a field of free text."""
    return line.startswith(b"#") or b":=" in line or line.lower().startswith(_FREE_TEXT)
