"""Good files made bad: bytes, text, JSON, safetensors, zip archives and DICOM elements.

Each function takes what it changes and a random generator, and returns the changed thing and what was done to it in
words. The same generator gives the same case.
"""

from __future__ import annotations

import copy
import gzip
import io
import json
import re
import struct
import zipfile
import zlib
from functools import cache
from random import Random
from typing import Any

Changed = tuple[bytes, str]

_TEXT_NUMBERS = (
    "0", "-1", "1", "nan", "inf", "-inf", "1e308", "-1e308", "1e-308", "2147483647", "-2147483648", "4294967296",
    "9223372036854775807", "99999999999999999999999", "0x10", "1,5", "", "1 2 3 4 5 6 7 8 9 10 11 12 13 14", "65535",
)  # fmt: skip
_PACKED = [
    *(struct.pack("<h", n) for n in (0, -1, 1, 32767, -32768)),
    *(struct.pack("<i", n) for n in (0, -1, 2**31 - 1, -(2**31), 100_000_000)),
    *(struct.pack("<q", n) for n in (0, -1, 2**63 - 1, -(2**63), 2**40)),
    *(struct.pack("<f", n) for n in (0.0, -1.0, float("nan"), float("inf"), 1e38, 1e-38)),
    *(struct.pack("<d", n) for n in (0.0, -1.0, float("nan"), float("inf"), 1e308)),
]
_MAGIC = (
    b"\x1f\x8b\x08\x00", b"PK\x03\x04", b"NRRD0005\n", b"ObjectType = Image\n", b"\x5c\x01\x00\x00",
    b"SQLite format 3\0", b"\x93NUMPY\x01\x00", b"\x89PNG\r\n\x1a\n", b"%PDF-1.7\n", b"<?xml version='1.0'?>",
    b"\xff\xfe", b"\0" * 128 + b"DICM",
    b"\x80\x04\x95\x1e\x00\x00\x00\x00\x00\x00\x00\x8c\x05posix\x8c\x06system\x93\x8c\x06exit 3\x85R.",  # pickle
)  # fmt: skip
_VALUES: tuple[Any, ...] = (
    None, True, False, 0, -1, 1, 2**31, 2**63, 10**400, -0.0, 1e308, float("nan"), float("inf"), "", "0", "nan",
    "x" * 100_000, "\0", "\n", "\u202e\U0001f9e0", "../../../etc/passwd", [], {}, [[]], [None], [1, 2], [0.0] * 3,
    ["a", "b", "c"], {"a": 1}, [float("nan")] * 3, [1e300] * 3, [[1, 2, 3]] * 3, {"": {}}, 10**12, -(10**12),
)  # fmt: skip
_BOMB_BYTES = 64 << 20


# -- bytes -------------------------------------------------------------------------------------------------------------


def truncated(data: bytes, draw: Random) -> Changed:
    """Cut anywhere, often near an end."""
    length = len(data)
    at = draw.choice((draw.randrange(length + 1), length - 1, length - draw.randrange(min(length, 64) + 1),
                      draw.randrange(min(length, 400) + 1)))  # fmt: skip
    return data[: max(at, 0)], f"truncated to {at} of {length} bytes"


def mutated_bytes(data: bytes, draw: Random) -> Changed:
    """Any change of bytes that knows nothing of the format, truncation left out."""
    if not data:
        return b"", "empty"
    return draw.choice(_OF_BYTES)(data, draw)


def _flipped(data: bytes, draw: Random) -> Changed:
    changed, count = bytearray(data), draw.choice((1, 1, 2, 8, 64))
    for _ in range(count):
        changed[_position(len(data), draw)] ^= 1 << draw.randrange(8)
    return bytes(changed), f"{count} bits flipped"


def _run_replaced(data: bytes, draw: Random) -> Changed:
    at, size = _position(len(data), draw), draw.choice((1, 4, 16, 256, 4096))
    fill = draw.choice((b"\0", b"\xff", b"\x80", b" ", None))
    run = draw.randbytes(size) if fill is None else fill * size
    return data[:at] + run[: len(data) - at] + data[at + size :], f"{size} bytes at {at} replaced"


def _number_packed(data: bytes, draw: Random) -> Changed:
    number = draw.choice(_PACKED)
    number = number[::-1] if draw.random() < 0.3 else number
    at = _position(len(data), draw) // 2 * 2
    return (data[:at] + number + data[at + len(number) :])[: len(data)], f"number {number.hex()} at {at}"


def _run_moved(data: bytes, draw: Random) -> Changed:
    at, size = _position(len(data), draw), draw.choice((1, 2, 8, 64, 1024))
    if draw.random() < 0.5:
        return data[:at] + data[at + size :], f"{size} bytes at {at} removed"
    return data[:at] + draw.randbytes(size) + data[at:], f"{size} bytes put in at {at}"


def _swapped(data: bytes, draw: Random) -> Changed:
    """The other byte order, of 2, 4 or 8 bytes, in the first part or everywhere."""
    width, end = draw.choice((2, 4, 8)), draw.choice((8, 348, len(data)))
    end = min(end, len(data)) // width * width
    words = [data[n : n + width][::-1] for n in range(0, end, width)]
    return b"".join(words) + data[end:], f"byte order of {width} swapped up to {end}"


def _other_magic(data: bytes, draw: Random) -> Changed:
    magic = draw.choice(_MAGIC)
    whole = draw.random() < 0.2
    return magic + (b"" if whole else data[len(magic) :]), f"begins with {magic[:8]!r}"


def _appended(data: bytes, draw: Random) -> Changed:
    size = draw.choice((1, 100, 100_000))
    return data + draw.randbytes(size), f"{size} bytes appended"


def _packed(data: bytes, draw: Random) -> Changed:
    return gzip.compress(data, 1), "gzipped"


def _noise(data: bytes, draw: Random) -> Changed:
    size = draw.choice((0, 1, 4, 348, 5000))
    return draw.randbytes(size), f"{size} random bytes"


_OF_BYTES = (
    _flipped, _flipped, _run_replaced, _run_replaced, _number_packed, _number_packed, _number_packed, _run_moved,
    _swapped, _other_magic, _appended, _packed, _noise,
)  # fmt: skip


def _position(length: int, draw: Random) -> int:
    """Half of all changes fall into the header."""
    return draw.randrange(min(length, 400) if draw.random() < 0.5 else length)


# -- text --------------------------------------------------------------------------------------------------------------


def mutated_text(data: bytes, draw: Random, lines: int = 0) -> Changed:
    """Numbers replaced, lines moved, doubled or lost, long strings, other encodings, in the first `lines` (0: all)."""
    parts = data.split(b"\n")
    most = min(lines or len(parts), len(parts))
    at = draw.randrange(most)
    kind = draw.choice(("number", "number", "number", "drop", "double", "swap", "long", "junk", "encoding", "word"))
    line = parts[at]
    if kind == "number":
        found = list(re.finditer(rb"-?\d+(\.\d+)?([eE][-+]?\d+)?", line))
        if found:
            match, number = draw.choice(found), draw.choice(_TEXT_NUMBERS)
            parts[at] = line[: match.start()] + number.encode() + line[match.end() :]
            return b"\n".join(parts), f"line {at + 1}: {match.group()!r} is {number!r}"
        kind = "junk"
    if kind == "drop":
        del parts[at]
    elif kind == "double":
        parts.insert(at, line)
    elif kind == "swap":
        other = draw.randrange(most)
        parts[at], parts[other] = parts[other], line
    elif kind == "long":
        parts[at] = line + b"x" * draw.choice((300, 70_000, 1_000_000))
    elif kind == "junk":
        parts[at] = line[: len(line) // 2] + draw.choice((b"\0", b"\xff\xfe", b'"', b"=", b":", b"[", b"\r")) + line
    elif kind == "word":
        words = re.findall(rb"[A-Za-z]{3,}", line) or [b"x"]
        parts[at] = line.replace(draw.choice(words), draw.choice((b"", b"short", b"LIST", b"double", b"raw", b"True")))
    elif kind == "encoding":
        text = data.decode("latin-1")
        return draw.choice((text.encode("utf-16"), text.encode("utf-32"), b"\xef\xbb\xbf" + data)), "another encoding"
    return b"\n".join(parts), f"line {at + 1}: {kind}"


# -- JSON --------------------------------------------------------------------------------------------------------------


def mutated_json(document: Any, draw: Random) -> tuple[Any, str]:
    """A copy in which one to three values have another type or an extreme value, are lost, or nested deeply."""
    document = json.loads(json.dumps(document))
    done = [_json_changed(document, draw) for _ in range(draw.choice((1, 1, 1, 2, 3)))]
    if draw.random() < 0.03:
        return _value(draw), "the whole is another value"
    return document, "; ".join(done)


def _json_changed(document: Any, draw: Random) -> str:
    places = list(_places(document))
    if not places:
        return "nothing to change"
    holder, key, path = draw.choice(places)
    kind = draw.choice(("value", "value", "value", "near", "lose", "deep", "unknown"))
    if kind == "lose":
        del holder[key]
    elif kind == "near":
        holder[key] = _near(holder[key], draw)
    elif kind == "deep":
        holder[key] = _nested(draw.choice((3, 50, 300)), holder[key])
    elif kind == "unknown" and isinstance(holder, dict):
        holder[draw.choice(("", "x" * 1000, "unknown", "__class__"))] = _value(draw)
    else:
        holder[key] = _value(draw)
    return f"{path}: {kind}"


def _value(draw: Random) -> Any:
    return copy.deepcopy(draw.choice(_VALUES))


def _near(value: Any, draw: Random) -> Any:
    """A value of the same type that is wrong."""
    if isinstance(value, bool):
        return not value
    if isinstance(value, int | float):
        if not -1e15 < value < 1e15:  # changed before
            return 0
        return draw.choice((0, -value, value * 1e6, value + 1, -1, 2**31, 1e-12, int(value) + 1))
    if isinstance(value, str):
        return draw.choice((value + value, value[:-1], value.upper(), "\n", value + "\0", "x" * 5000))
    if isinstance(value, list):
        return draw.choice((value[:-1], value + value[-1:], value[::-1], [value], value * 50))
    return {str(k) + "x": v for k, v in value.items()} if isinstance(value, dict) else 0


def _places(node: Any, path: str = "") -> Any:
    items = node.items() if isinstance(node, dict) else enumerate(node) if isinstance(node, list) else ()
    for key, value in list(items):
        yield node, key, f"{path}/{key}"
        yield from _places(value, f"{path}/{key}")


def _nested(depth: int, value: Any) -> Any:
    for _ in range(depth):
        value = [value]
    return value


def json_bytes(data: bytes, draw: Random) -> Changed:
    """A JSON file changed as `mutated_json`, as text, or nested beyond what parsers follow."""
    chance = draw.random()
    if chance < 0.04:
        opening = draw.choice(("[", '{"a":', '{"markups":[', "[[{"))
        return opening.encode() * draw.choice((500, 100_000)), "nested beyond measure"
    if chance < 0.2:
        return mutated_text(data, draw)
    document, done = mutated_json(json.loads(data), draw)
    return _dumped(document), done


def _dumped(document: Any) -> bytes:
    return json.dumps(document, ensure_ascii=False).encode("utf-8", "surrogatepass")


# -- safetensors: u64 length, JSON header, data ------------------------------------------------------------------------


def safetensors_bytes(data: bytes, draw: Random) -> Changed:
    """The header's JSON, the JSON within its metadata, or a tensor's values changed."""
    size = struct.unpack("<Q", data[:8])[0]
    header, body = json.loads(data[8 : 8 + size]), data[8 + size :]
    kind = draw.choice(("metadata", "metadata", "metadata", "header", "values", "values"))
    if kind == "metadata":
        about = header.get("__metadata__") or {"": "{}"}
        key = draw.choice(sorted(about))
        inner, done = mutated_json(json.loads(about[key]), draw)
        about[key] = json.dumps(inner)
    elif kind == "header":
        header, done = mutated_json(header, draw)
    else:
        name = draw.choice([key for key in header if key != "__metadata__"])
        first, last = header[name]["data_offsets"]
        width = {"F64": 8, "I64": 8, "F32": 4, "I32": 4, "F16": 2, "I16": 2}.get(header[name]["dtype"], 1)
        count = (last - first) // width
        chosen = draw.choice(_PACKED)[-width:].rjust(width, b"\0")
        start = first + width * draw.randrange(count) if count else first
        run = 1 if draw.random() < 0.5 else count
        end = min(start + run * width, last)
        body = body[:start] + (chosen * run)[: end - start] + body[end:]
        done = f"{name}: {run} values are {chosen.hex()}"
    text = _dumped(header)
    return struct.pack("<Q", len(text)) + text + body, done


# -- archives ----------------------------------------------------------------------------------------------------------


def npz_bytes(data: bytes, draw: Random) -> Changed:
    """A zip of arrays: one with another header, a pickle, a bomb, a JSON that is wrong, or a name that leads out."""
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        files = {name: archive.read(name) for name in archive.namelist()}
    name = draw.choice(sorted(files))
    kind = draw.choice(("header", "bytes", "pickle", "bomb", "json", "json", "json", "lose", "name"))
    if kind == "json" and "about.npy" in files:
        start = files["about.npy"].index(b"\n") + 1
        document, done = mutated_json(json.loads(files["about.npy"][start:]), draw)
        files["about.npy"] = _npy(_dumped(document), "|u1")
    elif kind == "pickle":
        files[name], done = _npy(_MAGIC[-1], "|O", "(1,)"), f"{name} is a pickle"
    elif kind == "bomb":
        shape, size = draw.choice((("(1000000000,)", 0), ("(300000000,)", 300_000_000), ("(-1,)", 9), ("(3, 0)", 0)))
        files[name], done = _npy(b"\0" * size, "|u1", shape), f"{name} claims the shape {shape}"
    elif kind == "header":
        files[name], done = mutated_text(files[name], draw, 1)
    elif kind == "lose":
        del files[name]
        done = f"{name} is lost"
    elif kind == "name":
        files[draw.choice(("../out.npy", "/tmp/out.npy", "C:\\out.npy", name + "x"))] = files.pop(name)
        done = f"{name} is called otherwise"
    else:
        files[name], done = mutated_bytes(files[name], draw)
    return zipped(files), done


def _npy(data: bytes, dtype: str, shape: str | None = None) -> bytes:
    header = f"{{'descr': '{dtype}', 'fortran_order': False, 'shape': {shape or f'({len(data)},)'}, }}".encode()
    header += b" " * (-(len(header) + 11) % 64) + b"\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header + data


def zipped(files: dict[str, bytes], link: str = "") -> bytes:
    """A zip of files by name; `link`: the name of one that claims to be a symbolic link."""
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        for name, data in files.items():
            entry = zipfile.ZipInfo(name)
            entry.compress_type = zipfile.ZIP_DEFLATED
            entry.external_attr = 0xA1FF << 16 if name == link else 0
            archive.writestr(entry, data)
    return packed.getvalue()


@cache
def _zeros() -> bytes:
    return gzip.compress(bytes(_BOMB_BYTES), 1)


def gzip_bomb(data: bytes, draw: Random) -> Changed:
    """What a gzip file holds, followed by up to 20 GB of zeros (gzip files may have several parts)."""
    plain = zlib.decompress(data, zlib.MAX_WBITS | 32) if data[:2] == b"\x1f\x8b" else data
    parts = draw.choice((2, 300))
    return gzip.compress(plain, 1) + _zeros() * parts, f"{parts * _BOMB_BYTES >> 20} MB of zeros appended"


# -- DICOM -------------------------------------------------------------------------------------------------------------

_LONG = {b"OB", b"OW", b"OF", b"SQ", b"UN", b"UT", b"OD", b"OL", b"UC", b"UR"}
_TAGS = (
    (0x0008, 0x0008), (0x0008, 0x0018), (0x0008, 0x0060), (0x0020, 0x000D), (0x0020, 0x000E), (0x0020, 0x0032),
    (0x0020, 0x0037), (0x0028, 0x0002), (0x0028, 0x0004), (0x0028, 0x0008), (0x0028, 0x0010), (0x0028, 0x0011),
    (0x0028, 0x0030), (0x0028, 0x0100), (0x0028, 0x0101), (0x0028, 0x0102), (0x0028, 0x0103), (0x0028, 0x1052),
    (0x0028, 0x1053), (0x0002, 0x0010), (0x0002, 0x0002), (0x0002, 0x0000), (0x7FE0, 0x0010),
)  # fmt: skip
_SYNTAXES = (
    b"1.2.840.10008.1.2", b"1.2.840.10008.1.2.2", b"1.2.840.10008.1.2.1.99", b"1.2.840.10008.1.2.4.50",
    b"1.2.840.10008.1.2.4.70", b"1.2.840.10008.1.2.4.80", b"1.2.840.10008.1.2.4.90", b"1.2.840.10008.1.2.5", b"1.2.3",
)  # fmt: skip


def dicom_element(data: bytes, draw: Random) -> Changed:
    """One element (explicit VR, little endian) with another value, length or type, or without any."""
    tag = draw.choice(_TAGS)
    at = data.find(struct.pack("<HH", *tag), 128)
    name = f"({tag[0]:04x},{tag[1]:04x})"
    if at < 0:
        return mutated_bytes(data, draw)
    kind = data[at + 4 : at + 6]
    width = 12 if kind in _LONG else 8
    length = struct.unpack("<I" if width == 12 else "<H", data[at + width - (4 if width == 12 else 2) : at + width])[0]
    if length > len(data) - at - width:  # of undefined length
        return mutated_bytes(data, draw)
    value = data[at + width : at + width + length]
    change = draw.choice(("value", "value", "value", "length", "type", "lose", "syntax", "twice"))
    if change == "length":
        wrong = draw.choice((0, 1, 0xFFFF, 2**31, 0xFFFFFFFF, length + 1))
        packed = struct.pack("<I", wrong) if width == 12 else struct.pack("<H", wrong & 0xFFFF)
        return data[: at + width - len(packed)] + packed + data[at + width :], f"{name} states {wrong} bytes"
    if change == "type":
        return data[: at + 4] + draw.choice((b"XX", b"SQ", b"US", b"DS", b"\0\0")) + data[at + 6 :], f"{name}: type"
    if change == "lose":
        return data[:at] + data[at + width + length :], f"{name} is lost"
    if change == "twice":
        return data[: at + width + length] + data[at:], f"{name} twice"
    if change == "syntax":
        return _with_value(data, (0x0002, 0x0010), draw.choice(_SYNTAXES)), "another transfer syntax"
    if kind in (b"US", b"SS"):
        new = struct.pack("<H", draw.choice((0, 1, 8, 17, 32, 3000, 32767, 65535)))
    elif width == 12:
        new, _ = draw.choice((truncated, mutated_bytes))(value[:20_000], draw)
        new += b"\0" * (len(new) % 2)
    else:
        new, _ = mutated_text(value, draw) if draw.random() < 0.5 else (draw.choice(_TEXT_NUMBERS).encode(), "")
        new = draw.choice((new, b"\\".join([new] * 3), b"\\".join([new] * 6), b"\\" * 3))[:60_000]
        new += b" " * (len(new) % 2)
    return _with_value(data, tag, new), f"{name} is {new[:40]!r}"


def _with_value(data: bytes, tag: tuple[int, int], value: bytes) -> bytes:
    at = data.find(struct.pack("<HH", *tag), 128)
    if at < 0:
        return data
    wide = data[at + 4 : at + 6] in _LONG
    width, form = (12, "<I") if wide else (8, "<H")
    size = struct.calcsize(form)
    length = struct.unpack(form, data[at + width - size : at + width])[0]
    value += b"\0" * (len(value) % 2)
    return data[: at + width - size] + struct.pack(form, len(value)) + value + data[at + width + length :]
