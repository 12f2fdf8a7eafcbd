"""Compare the lengths that DICOM elements state with the size of the file (DICOM PS3.5, 7.1).

GDCM allocates memory for the stated length of a value before it reads the value. One wrong byte in a slice of 500 kB
costs up to 4 GB of memory and ten seconds. An unknown value type has the same effect, because GDCM reads the two
letters of the type as a length. This module therefore checks all elements of a file before GDCM reads the file.
"""

import mmap
import struct
from pathlib import Path

_LONG = {b"OB", b"OD", b"OF", b"OL", b"OV", b"OW", b"SQ", b"SV", b"UC", b"UN", b"UR", b"UT", b"UV"}
_SHORT = {b"AE", b"AS", b"AT", b"CS", b"DA", b"DS", b"DT", b"FD", b"FL", b"IS", b"LO", b"LT", b"PN", b"SH", b"SL",
          b"SS", b"ST", b"TM", b"UI", b"UL", b"US"}  # fmt: skip
_UNDEFINED = 0xFFFFFFFF
_ITEM, _PIXELS, _SYNTAX = (0xFFFE, 0xE000), (0x7FE0, 0x0010), (0x0002, 0x0010)
_DELIMITERS = 0xFFFE
_IMPLICIT, _BIG_ENDIAN, _DEFLATED = b"1.2.840.10008.1.2", b"1.2.840.10008.1.2.2", b"1.2.840.10008.1.2.1.99"
_HARMLESS = 1 << 20  # bytes; some scanners write lengths that are too large by up to this, and GDCM can read the files


def lengths_fit(path: Path) -> bool:
    """Return False if a DICOM element states a length far beyond the file's end. Raises OSError if reading fails."""
    with path.open("rb") as stream:
        if path.stat().st_size < 132:
            return True
        with mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ) as data:
            return _fits(data)


def _fits(data: mmap.mmap) -> bool:
    at, end = (132 if data[128:132] == b"DICM" else 0), len(data)
    order, implicit, in_meta, syntax = "<", at == 0 and not data[4:6].isalpha(), at > 0, b""
    in_pixels = False
    while at + 12 <= end:
        tag = struct.unpack_from(f"{order}HH", data, at)
        if in_meta and tag[0] != 2:
            in_meta = False
            if syntax == _DEFLATED:
                return True
            implicit, order = syntax == _IMPLICIT, ">" if syntax == _BIG_ENDIAN else "<"
            continue
        kind = bytes(data[at + 4 : at + 6])
        if tag[0] == _DELIMITERS or implicit:
            header, length = 8, struct.unpack_from(f"{order}I", data, at + 4)[0]
        elif kind in _LONG:
            header, length = 12, struct.unpack_from(f"{order}I", data, at + 8)[0]
        elif kind in _SHORT:
            header, length = 8, struct.unpack_from(f"{order}H", data, at + 6)[0]
        else:
            return in_pixels and not data[at:].strip(b"\0")  # zero bytes after the pixels are allowed as padding
        at += header
        if tag == _SYNTAX:
            syntax = bytes(data[at : at + length]).rstrip(b"\0 ")
        is_fragment = tag == _ITEM and in_pixels
        in_pixels = in_pixels or tag == _PIXELS
        if length == _UNDEFINED or kind == b"SQ" or (tag == _ITEM and not is_fragment):
            if kind == b"UN":
                return True  # the items inside may be encoded differently: not checked
            continue  # the elements inside follow directly and are checked next
        if length > end - at + _HARMLESS:
            return False
        at += length
    return True
