"""Damage good files: each function takes the bytes of a file and a random generator, and returns other bytes."""

import copy
import gzip
import json
import re
import struct
from collections.abc import Callable, Iterator
from random import Random
from typing import Any

Way = Callable[[bytes, Random], bytes]

_NUMBERS = (
    "0",
    "-1",
    "nan",
    "inf",
    "1e308",
    "1e-308",
    "2147483647",
    "-2147483648",
    "99999999999999999999999",
    "1,5",
    "",
)
_PACKED = [
    *(struct.pack("<h", n) for n in (0, -1, 32767, -32768)),
    *(struct.pack("<i", n) for n in (0, -1, 2**31 - 1, 100_000_000)),
    *(struct.pack("<q", n) for n in (0, -1, 2**63 - 1, 2**40)),
    *(
        struct.pack(form, n)
        for form in ("<f", "<d")
        for n in (0.0, -1.0, float("nan"), float("inf"), 1e38)
    ),
]
_VALUES: tuple[Any, ...] = (
    None, True, 0, -1, 2**63, 10**400, 1e308, float("nan"), float("inf"), "", "nan", "x" * 100_000, "\0", "\n",
    "../../../etc/passwd", [], {}, [[]], [None], [1e300] * 3, [[1, 2, 3]] * 3, {"": {}}, 10**12,
)  # fmt: skip


def cut(data: bytes, draw: Random) -> bytes:
    """Cut the file short anywhere, often near an end."""
    size = len(data)
    return data[
        : max(
            0,
            draw.choice(
                (draw.randrange(size + 1), size - 1, size - draw.randrange(64), draw.randrange(400))
            ),
        )
    ]


def damaged(data: bytes, draw: Random) -> bytes:
    """Change bytes without regard to the format."""
    at = draw.randrange(min(len(data), 400) if draw.random() < 0.5 else len(data))
    size = draw.choice((1, 4, 64, 1024))
    kind = draw.randrange(6)
    if kind == 0:
        return bytes(
            byte ^ (1 << draw.randrange(8)) if n == at else byte for n, byte in enumerate(data)
        )
    if kind == 1:
        return data[:at] + draw.choice((b"\0", b"\xff", b" ")) * size + data[at + size :]
    if kind == 2:
        number = draw.choice(_PACKED)
        return data[:at] + number + data[at + len(number) :]
    if kind == 3:
        return data[:at] + data[at + size :]
    if kind == 4:
        return data[:at] + draw.randbytes(size) + data[at:]
    return draw.choice(
        (gzip.compress(data, 1), data + draw.randbytes(size), draw.randbytes(size), b"")
    )


def text(data: bytes, draw: Random) -> bytes:
    """Replace a number or a word, lose, double or lengthen a line, or change the encoding."""
    lines = data.split(b"\n")
    at = draw.randrange(len(lines))
    line = lines[at]
    numbers = list(re.finditer(rb"-?\d+(\.\d+)?", line))
    kind = draw.choice(("number", "number", "number", "lose", "double", "long", "junk", "encoding"))
    if kind == "number" and numbers:
        match = draw.choice(numbers)
        lines[at] = line[: match.start()] + draw.choice(_NUMBERS).encode() + line[match.end() :]
    elif kind == "lose":
        del lines[at]
    elif kind == "double":
        lines.insert(at, line)
    elif kind == "long":
        lines[at] = line + b"x" * draw.choice((300, 1_000_000))
    elif kind == "encoding":
        return draw.choice((data.decode("latin-1").encode("utf-16"), b"\xef\xbb\xbf" + data))
    else:
        lines[at] = (
            line[: len(line) // 2]
            + draw.choice((b"\0", b"\xff\xfe", b'"', b"=", b"[", b"\r"))
            + line
        )
    return b"\n".join(lines)


def header_text(data: bytes, draw: Random) -> bytes:
    """Change the text above the voxels of an image."""
    ends = [data.find(mark) + len(mark) for mark in (b"\n\n", b"LOCAL\n") if mark in data[:4000]]
    end = min(ends, default=min(len(data), 400))
    return text(data[:end], draw) + data[end:]


def changed_value(document: Any, draw: Random) -> Any:
    """Return a copy of a JSON document in which a value has another type, is extreme, lost, or nested deeply."""
    document = json.loads(json.dumps(document))
    places = list(_places(document))
    if not places or draw.random() < 0.03:
        return copy.deepcopy(draw.choice(_VALUES))
    holder, key = draw.choice(places)
    kind = draw.choice(("value", "value", "near", "lose", "deep"))
    if kind == "lose":
        del holder[key]
    elif kind == "deep":
        for _ in range(draw.choice((3, 300))):
            holder[key] = [holder[key]]
    elif kind == "near" and isinstance(holder[key], int | float):
        holder[key] = draw.choice((0, -holder[key], holder[key] * 1e6, holder[key] + 1))
    elif kind == "near" and isinstance(holder[key], list):
        holder[key] = draw.choice((holder[key][:-1], holder[key] * 2, [holder[key]]))
    else:
        holder[key] = copy.deepcopy(draw.choice(_VALUES))
    return document


def _places(node: Any) -> Iterator[tuple[Any, Any]]:
    items = (
        node.items()
        if isinstance(node, dict)
        else enumerate(node)
        if isinstance(node, list)
        else ()
    )
    for key, value in list(items):
        yield node, key
        yield from _places(value)


def _dumped(document: Any) -> bytes:
    return json.dumps(document, ensure_ascii=False).encode("utf-8", "surrogatepass")


def json_file(data: bytes, draw: Random) -> bytes:
    """Change a value of a JSON file, or nest it beyond measure."""
    if draw.random() < 0.04:
        return draw.choice((b"[", b'{"a":', b"[[{")) * draw.choice((500, 100_000))
    return _dumped(changed_value(json.loads(data), draw))


def safetensors(data: bytes, draw: Random) -> bytes:
    """Change the header's JSON, the JSON within its metadata, or the values of a tensor."""
    size = struct.unpack("<Q", data[:8])[0]
    header = json.loads(data[8 : 8 + size])
    body = data[8 + size :]
    kind = draw.choice(("metadata", "metadata", "header", "values"))
    if kind == "metadata":
        about = header.get("__metadata__") or {"": "{}"}
        key = draw.choice(sorted(about))
        about[key] = json.dumps(changed_value(json.loads(about[key]), draw))
    elif kind == "header":
        header = changed_value(header, draw)
    else:
        first, last = header[draw.choice([key for key in header if key != "__metadata__"])][
            "data_offsets"
        ]
        number = draw.choice(_PACKED)
        run = number if draw.random() < 0.5 else number * ((last - first) // len(number))
        at = (
            first + draw.randrange(max(last - first, 1)) // 8 * 8
            if len(run) == len(number)
            else first
        )
        body = (body[:at] + run + body[at + len(run) :])[: len(body)]
    head = _dumped(header)
    return struct.pack("<Q", len(head)) + head + body


def nifti(data: bytes, draw: Random) -> bytes:
    """Change a field of the header (see nifti1.h); of a packed file within the packing."""
    is_packed = data[:2] == b"\x1f\x8b"
    plain = bytearray(gzip.decompress(data) if is_packed else data)
    fields = (
        [(40 + 2 * n, "<h") for n in range(8)]
        + [(at, "<h") for at in (70, 72, 252, 254)]
        + [(0, "<i")]
    )
    fields += [(at, "<f") for at in (*range(76, 108, 4), 108, 112, 116, *range(256, 328, 4))]
    at, form = draw.choice(fields)
    whole = (0, -1, 1, 7, 64, 1024, 32767, -32768)
    struct.pack_into(
        form,
        plain,
        at,
        draw.choice(whole if form != "<f" else (0.0, -1.0, 3.5, 1e38, 1e-38, float("nan"))),
    )
    if is_packed and draw.random() < 0.05:  # 20 GB of zeros: gzip files may have several parts
        return gzip.compress(bytes(plain), 1) + gzip.compress(bytes(64 << 20), 1) * 300
    return gzip.compress(bytes(plain), 1) if is_packed else bytes(plain)


_TAGS = (
    (0x0008, 0x0018), (0x0008, 0x0060), (0x0020, 0x000E), (0x0020, 0x0032), (0x0020, 0x0037), (0x0028, 0x0002),
    (0x0028, 0x0008), (0x0028, 0x0010), (0x0028, 0x0011), (0x0028, 0x0030), (0x0028, 0x0100), (0x0028, 0x0103),
    (0x0028, 0x1052), (0x0028, 0x1053), (0x0002, 0x0010), (0x7FE0, 0x0010),
)  # fmt: skip
_WIDE = {b"OB", b"OW", b"SQ", b"UN", b"UT"}


def dicom(data: bytes, draw: Random) -> bytes:
    """Change an element (explicit VR, little endian): its value, length or type; or lose or double it."""
    at = data.find(struct.pack("<HH", *draw.choice(_TAGS)), 128)
    if at < 0:
        return damaged(data, draw)
    is_wide = data[at + 4 : at + 6] in _WIDE
    start, form = (at + 12, "<I") if is_wide else (at + 8, "<H")
    length = struct.unpack(form, data[start - struct.calcsize(form) : start])[0]
    if length > len(data) - start:  # of undefined length
        return damaged(data, draw)
    value = data[start : start + length]
    rest = data[start + length :]
    kind = draw.choice(("value", "value", "value", "length", "type", "lose", "double"))
    if kind == "lose":
        return data[:at] + rest
    if kind == "double":
        return data[: start + length] + data[at:]
    if kind == "type":
        return data[: at + 4] + draw.choice((b"XX", b"SQ", b"US", b"DS", b"\0\0")) + data[at + 6 :]
    size = length
    if kind == "length":
        size = draw.choice((0, 1, 0xFFFF, length + 1))
    else:
        value = draw.choice(
            (
                text(value, draw),
                draw.choice(_NUMBERS).encode(),
                struct.pack("<H", draw.choice((0, 17, 65535))),
            )
        )
        value = value[:60_000] + b" " * (len(value) % 2)
        size = len(value)
    return data[: start - struct.calcsize(form)] + struct.pack(form, size) + value + rest
