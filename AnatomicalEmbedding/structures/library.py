"""Structure libraries: examples from many scans in one file. With a library, users need no examples of their own.

NAME.structures.safetensors holds the examples of each structure: coordinates and descriptors at the points of the
structure, and distances to near organs. An example takes about 1 kB. Scans cannot be reconstructed from a library.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import torch

from ..anatomy.names import canonical_name
from ..embedding.tensor_files import (
    DAMAGED,
    NewerFormatError,
    check_size,
    read_tensor_file,
    write_tensor_file,
)
from ..errors import WeightsError
from ..matching.query import Query
from ..resources import companions
from ..scan.checks import LARGEST_POSITION_MM
from .locating import Example
from .margins import Margins
from .organ_evidence import NearOrgan

SUFFIX = ".structures.safetensors"
FORMAT_VERSION = 1
_METADATA_KEY = "anatomical_structures"
_COLUMNS = 8  # for an organ near an example: index of the organ's name, overlap, six distances


@dataclass(frozen=True, eq=False)
class StructureLibrary:
    """Examples of structures for one set of weights.

    Args:
        weights_hash: SHA-256 of the weights.
        examples: name of structure -> examples.
        effort: effort of matching for which the examples were made.
        margins: margins for boxes found with this library, or None.
        example_margins: margins for boxes found from a few examples of a user, or None.
        facts: origin of the library.
    """

    weights_hash: str
    examples: dict[str, list[Example]]
    effort: str
    margins: Margins | None = None
    example_margins: Margins | None = None
    facts: dict = field(default_factory=dict)

    def save(self, path: str | Path) -> None:
        """Write one complete file, or no file. Raises WeightsError if the file cannot be written."""
        tensors = {}
        index = {}
        all_examples = [example for examples in self.examples.values() for example in examples]
        organs = sorted({organ.name for example in all_examples for organ in example.organs})
        for number, (name, examples) in enumerate(sorted(self.examples.items())):
            index[name] = [example.scan for example in examples]
            for n, example in enumerate(examples):
                for part, tensor in _tensors_of(example, organs).items():
                    tensors[f"{number}.{n}.{part}"] = tensor
        metadata = {
            "format_version": FORMAT_VERSION,
            "weights_sha256": self.weights_hash,
            "effort": self.effort,
            "structures": index,
            "organs": organs,
            "margins": self.margins and self.margins.to_dict(),
            "example_margins": self.example_margins and self.example_margins.to_dict(),
            "about": self.facts,
        }
        write_tensor_file(path, tensors, {_METADATA_KEY: json.dumps(metadata)}, WeightsError)

    @classmethod
    def load(cls, path: str | Path) -> StructureLibrary:
        """Read a file that `save` wrote. Raises WeightsError for a damaged or a newer file, or another kind of file."""
        if not Path(path).is_file():
            raise WeightsError(f"{path}: no such file; give the path of a structure library.")
        try:
            metadata, tensors = read_tensor_file(path, _METADATA_KEY, FORMAT_VERSION)
            weights_hash = str(metadata["weights_sha256"])
            organs = tuple(canonical_name(str(name)) for name in metadata.get("organs", ()))
            examples = {}
            for number, (name, scans) in enumerate(sorted(metadata["structures"].items())):
                examples[canonical_name(name)] = [
                    _read(tensors, f"{number}.{n}", str(scan), weights_hash, organs)
                    for n, scan in enumerate(scans)
                ]
            return cls(
                weights_hash,
                examples,
                metadata["effort"],
                _read_margins(metadata["margins"]),
                _read_margins(metadata["example_margins"]),
                metadata["about"],
            )
        except NewerFormatError:
            raise WeightsError(
                f"{path}: was written by a newer version of this program; update the program."
            ) from None
        except DAMAGED:
            raise WeightsError(
                f"{path}: the file is damaged or is not a structure library; download the library again."
            ) from None


def _tensors_of(example: Example, organs: list[str]) -> dict[str, torch.Tensor]:
    """Return the tensors of an example that the file stores. organs: names of all organs of the file."""
    query = example.query
    tensors = {
        "box": torch.from_numpy(example.box_ras).float(),
        "points": torch.from_numpy(example.points_ras).float(),
        "coordinates": query.coordinates.float(),
        "sizes": query.sizes.float(),
    }
    if example.organs:
        rows = [
            [organs.index(organ.name), organ.overlap, *organ.offset_mm] for organ in example.organs
        ]
        tensors["organs"] = torch.tensor(rows, dtype=torch.float32)
    if query.descriptors is not None:
        tensors["descriptors"] = query.descriptors.half()
    return tensors


def _read_margins(values: dict | None) -> Margins | None:
    return None if values is None else Margins.from_dict(values)


def _read(
    tensors: dict[str, torch.Tensor], key: str, scan: str, weights_hash: str, organs: Sequence[str]
) -> Example:
    """Read and check one example, as `StructureLibrary.save` writes it. Raises ValueError for wrong values.

    Args:
        tensors: the tensors of the file.
        key: how the names of the example's tensors begin.
        scan: name of its scan.
        weights_hash: SHA-256 of the weights.
        organs: names of all organs, to which the file refers by index.
    """
    box, points, coordinates, sizes = (
        tensors[f"{key}.{name}"] for name in ("box", "points", "coordinates", "sizes")
    )
    descriptors = tensors.get(f"{key}.descriptors")
    near_organs = tensors.get(f"{key}.organs", torch.zeros(0, _COLUMNS))
    count = len(points)
    check_size(box, (2, 3), torch.float32)
    check_size(points, (count, 3), torch.float32)
    check_size(coordinates, (count, 3), torch.float32)
    check_size(sizes, (count,), torch.float32)
    for values in (points, coordinates, sizes):
        if values.abs().max() > LARGEST_POSITION_MM:
            raise ValueError("a place lies beyond any body")
    has_form = near_organs.dtype == torch.float32 and near_organs.shape[1:] == (_COLUMNS,)
    if not has_form or near_organs.abs().gt(LARGEST_POSITION_MM).any():
        raise ValueError("the organs are damaged")
    if descriptors is not None:
        check_size(descriptors, (count, None), torch.float16)
        descriptors = descriptors.float()
    query = Query(weights_hash, coordinates.double(), sizes.double(), descriptors)
    rows = near_organs.double().numpy()  # columns: see _COLUMNS
    overlapping = tuple(NearOrgan(organs[int(row[0])], float(row[1]), row[2:]) for row in rows)
    return Example(scan, box.double().numpy(), points.double().numpy(), query, overlapping)


def shipped_library(weights_hash: str, weights: Path | None = None) -> StructureLibrary | None:
    """Read the library for the weights with this SHA-256, next to the file `weights` or shipped; None without it."""
    libraries = map(StructureLibrary.load, companions("Structures", SUFFIX, weights))
    return next((library for library in libraries if library.weights_hash == weights_hash), None)
