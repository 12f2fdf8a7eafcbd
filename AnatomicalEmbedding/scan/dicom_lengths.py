"""Compare the lengths that DICOM elements state with the size of the file (DICOM PS3.5, 7.1).

GDCM allocates memory for the stated length of a value before it reads the value. One wrong byte in a slice of 500 kB
costs up to 4 GB of memory and ten seconds. An unknown value type has the same effect, because GDCM reads the two
letters of the type as a length. This module therefore checks all elements of a file before GDCM reads the file.
"""

import mmap
import struct
from pathlib import Path

_LONG = set(b"OB OD OF OL OV OW SQ SV UC UN UR UT UV".split())
_SHORT = set(b"AE AS AT CS DA DS DT FD FL IS LO LT PN SH SL SS ST TM UI UL US".split())
_UNDEFINED = 0xFFFFFFFF  # DICOM PS3.5, 7.1.1
_ITEM, _PIXELS, _SYNTAX = (0xFFFE, 0xE000), (0x7FE0, 0x0010), (0x0002, 0x0010)
_DELIMITERS = 0xFFFE  # group of the tags of items and delimiters, DICOM PS3.5, 7.5
_IMPLICIT = b"1.2.840.10008.1.2"
_BIG_ENDIAN = b"1.2.840.10008.1.2.2"
_DEFLATED = b"1.2.840.10008.1.2.1.99"
# bytes; some scanners write lengths that are too large by up to this, and GDCM can read the files
_HARMLESS = 1 << 20


def lengths_fit(path: Path) -> bool:
    """Return False if a DICOM element states a length far beyond the file's end. Raises OSError if reading fails."""
    with path.open("rb") as stream:
        if path.stat().st_size < 132:
            return True
        with mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ) as data:
            return _fits(data)


def _fits(data: mmap.mmap) -> bool:
    """Read one element after another, and return whether each ends within the file.

    An element is a tag, in explicit syntax its kind of value (VR), the length of its value, and the value.
    """
    end = len(data)
    in_meta = data[128:132] == b"DICM"
    offset = 132 if in_meta else 0
    order = "<"
    syntax = b""
    # a file without the preamble does not state its syntax; in explicit syntax, two letters follow the first tag
    implicit = not in_meta and not data[4:6].isalpha()
    in_pixels = False
    while offset + 12 <= end:
        tag = struct.unpack_from(f"{order}HH", data, offset)
        if in_meta and tag[0] != 2:  # group 2 has ended: from this tag on, the stated syntax holds
            in_meta = False
            if syntax == _DEFLATED:
                return True
            implicit = syntax == _IMPLICIT
            order = ">" if syntax == _BIG_ENDIAN else "<"
            continue
        kind = bytes(data[offset + 4 : offset + 6])
        # where the length begins in the element, and its bytes; the value follows
        if tag[0] == _DELIMITERS or implicit:
            start, size = 4, "I"
        elif kind in _LONG:
            start, size = 8, "I"
        elif kind in _SHORT:
            start, size = 6, "H"
        else:
            # zero bytes after the pixels are allowed as padding
            return in_pixels and not data[offset:].strip(b"\0")
        (length,) = struct.unpack_from(order + size, data, offset + start)
        offset += start + struct.calcsize(size)
        if tag == _SYNTAX:
            syntax = bytes(data[offset : offset + length]).rstrip(b"\0 ")
        is_fragment = tag == _ITEM and in_pixels
        in_pixels = in_pixels or tag == _PIXELS
        if length == _UNDEFINED or kind == b"SQ" or (tag == _ITEM and not is_fragment):
            if kind == b"UN":
                return True  # the items inside may be encoded differently: not checked
            continue  # the elements inside follow directly and are checked next
        if length > end - offset + _HARMLESS:
            return False
        offset += length
    return True
