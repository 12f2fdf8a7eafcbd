"""Names of structures as they are shown, and which ones a library file holds, read without loading torch."""

from __future__ import annotations

import json
import re
from pathlib import Path

from AnatomicalEmbedding.anatomy.names import canonical_name, known_name
from AnatomicalEmbedding.files import file_sha256, once_a_change

weightsHash = once_a_change(file_sha256)  # the panel asks at each change of the recall


def readable(structure: str) -> str:
    """ "kidney_left" as "kidney left"; a name of the user's own as it is written."""
    return structure.replace("_", " ") if known_name(structure) else structure


def titled(structure: str) -> str:
    """The same for lists, with a capital at its beginning."""
    text = readable(structure)
    return text[:1].upper() + text[1:] if known_name(structure) else text


def sortKey(structure: str) -> list:
    """Order in lists: numbers by their value, so that vertebrae_T2 comes before vertebrae_T10."""
    return [(0, int(part), "") if part.isdigit() else (1, 0, part) for part in re.split(r"(\d+)", structure) if part]


def libraryFile(weightsPath: Path, chosen: str = "") -> Path | None:
    """File of structures for these weights: the chosen one, else the one that ships for them, or None."""
    from AnatomicalEmbedding.resources import resource

    if chosen:
        return Path(chosen)
    if not weightsPath.is_file():
        return None
    wanted = weightsHash(weightsPath)
    shipped = sorted(resource("Structures").glob("*.structures.safetensors"))
    return next((path for path in shipped if _about(path).get("weights_sha256") == wanted), None)


def namesIn(path: Path) -> list[str]:
    """Structures of a library file, sorted; none for a file that is none, which the engine explains when it is used."""
    return sorted(map(canonical_name, _about(path).get("structures", ())), key=sortKey)


def _about(path: Path) -> dict:
    """What a library says of itself; nothing where the file is none."""
    try:
        about = _header(path)
    except (OSError, ValueError, KeyError, StopIteration, TypeError, AttributeError):
        return {}
    return about if isinstance(about, dict) else {}


@once_a_change
def _header(path: Path) -> object:
    """The JSON in the header of a safetensors file."""
    with path.open("rb") as file:
        length = int.from_bytes(file.read(8), "little")
        header = json.loads(file.read(min(length, path.stat().st_size)))
    return json.loads(next(iter(header["__metadata__"].values())))
