"""Headers of NRRD and MetaImage files: headers that would crash ITK, and so the whole program, are refused.

In ITK 5.4, a field of a NRRD header that is wrong and longer than its buffers (NrrdIO, sprintf), and a MetaImage of
more than ten axes, are segmentation faults; axes with absurdly large numbers make it search for ever.
Formats: teem.sourceforge.net/nrrd/format.html and itk.org/Wiki/MetaIO/Documentation.
"""

import re
from pathlib import Path

from ..errors import VolumeError

_HEADER_BYTES = 1 << 20
_LONGEST_FIELD = 400  # characters; three directions in full precision take 230
_FREE_TEXT = (b"content:", b"data file:", b"datafile:")
_MOST_AXES = 4
_LARGEST_POSITION_MM = 1e6
_GEOMETRY = re.compile(
    rb"^(?:space directions|space origin|spacings|TransformMatrix|Rotation|Orientation|Offset|Position|Origin|"
    rb"CenterOfRotation|ElementSpacing|ElementSize)\s*[:=]([^\r\n]*)",
    re.IGNORECASE | re.MULTILINE,
)
_NUMBER = re.compile(rb"[-+]?(?:\d+\.?\d*|\.\d+)(?:e[-+]?\d+)?|inf", re.IGNORECASE)


def check_text_header(path: Path) -> None:
    """Raise VolumeError for a header that ITK would not survive; files of other kinds pass. Raises OSError."""
    suffix = path.suffix.lower()
    if suffix not in (".nrrd", ".nhdr", ".mha", ".mhd"):
        return
    with path.open("rb") as stream:
        head = stream.read(_HEADER_BYTES)
    if suffix in (".nrrd", ".nhdr"):
        lines = re.split(rb"\r?\n", re.split(rb"\r?\n\r?\n", head, maxsplit=1)[0])
        harmless = all(len(line) <= _LONGEST_FIELD or _is_free(line) for line in lines)
    else:
        stated = re.findall(rb"NDims\s*=\s*([^\r\n]*)", head)
        axes = {str(n).encode() for n in range(1, _MOST_AXES + 1)}
        harmless = bool(stated) and all(value.strip() in axes for value in stated)
    places = b" ".join(_GEOMETRY.findall(head))
    if not harmless or any(abs(float(number)) > _LARGEST_POSITION_MM for number in _NUMBER.findall(places)):
        raise VolumeError(
            f"{path}: cannot be read as {suffix}; its header is damaged or of another kind, export the scan again."
        )


def _is_free(line: bytes) -> bool:
    """A comment, a pair of key and value, or free text."""
    return line.startswith(b"#") or b":=" in line or line.lower().startswith(_FREE_TEXT)
