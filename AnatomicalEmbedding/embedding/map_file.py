"""The file format of maps. Single maps, the cache and cohorts use the same format.

A file stores the coordinates of body cells, rounded to 16 bits. It stores the local descriptors of body cells and of
the cells next to them, rounded to 12 bits for each value. Matching reads no other cells. Because of the rounding, a map
from a file gives slightly other answers than the original map: 98 of 100 answers differ by less than 0.05 mm. With 8
bits for each value of a descriptor, only 82 of 100 answers differed by less than 0.05 mm (see RESULTS.md).
"""

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from safetensors import safe_open

from ..errors import MapError
from ..scan.boxes import boxes_from_json, boxes_to_json
from ..scan.checks import LARGEST_POSITION_MM
from ..spine.vertebrae import spine_from_json, spine_to_json
from .tensor_files import (
    DAMAGED,
    NewerFormatError,
    check_size,
    from_json,
    metadata_in,
    write_tensor_file,
)

SUFFIX = ".map.safetensors"
# versions 1 to 4 stored every cell, uncompressed; version 5 stored no spine; version 6 did not know turned patients;
# the spine of version 7 could lie in a bright aorta
FORMAT_VERSION = 8
_METADATA_KEY = "anatomical_embedding_map"
_COORDINATE_STEPS = 32767  # steps on each side of the middle of the coordinates' range
_DESCRIPTOR_STEPS = 2047  # steps from 0 to a descriptor's largest value
_LARGEST_COORDINATE = 1e6  # in mm, or in the unit of weights from the recipe of a paper
_MOST_VOXELS = 100_000  # of a scan along an axis, and cells of a map
_SMALLEST_STEP_MM, _LARGEST_STEP_MM = 1e-4, 1000.0  # size of voxels and cells
_SMALLEST_DETERMINANT = 0.1  # of a matrix whose axes are scaled to length 1

CellBox = tuple[slice, slice, slice]  # k, j, i


@dataclass(frozen=True)
class Provenance:
    """The weights and the scan from which a map was made.

    Args:
        model, weights_hash: name and SHA-256 of the weights.
        scan, scan_hash: name and content hash of the volume.
        metric: whether coordinates are mm in the common body frame; False for weights from the recipes of papers.
    """

    model: str
    weights_hash: str
    scan: str = ""
    scan_hash: str = ""
    metric: bool = True


def write_map_file(path: str | Path, fields: Mapping[str, Any]) -> None:
    """Write the fields of an `EmbeddingMap`, except the calibration, as one complete file or not at all.

    Raises MapError if the file cannot be written.
    """
    body = fields["body"]
    tensors = {
        "body": torch.from_numpy(np.packbits(body.numpy().ravel())),
        "cell_to_ras": torch.from_numpy(np.ascontiguousarray(fields["cell_to_ras"])),
        "scan_to_ras": torch.from_numpy(np.ascontiguousarray(fields["scan_to_ras"])),
    }
    metadata = {
        "format_version": FORMAT_VERSION,
        "body_shape": list(body.shape),
        "scan_shape": list(fields["scan_shape"]),
        "provenance": vars(fields["provenance"]),
        "notes": list(fields["notes"]),
        "faults": list(fields["faults"]),
        "organ_boxes": boxes_to_json(fields["organ_boxes"]),
        "spine": spine_to_json(fields["spine"]),
        "unit_mm": fields["unit_mm"],
    }
    tensors["coordinate"], metadata["coordinate_range"] = _encode_coordinates(
        fields["coordinate"][:, body].T
    )
    if fields["image"] is not None:
        tensors["image"] = fields["image"]
    if fields["local"] is not None:
        tensors |= _encode_descriptors(fields["local"], body)
    write_tensor_file(
        path, tensors, {_METADATA_KEY: json.dumps(metadata, sort_keys=True)}, MapError
    )


def read_map_file(path: str | Path, descriptors: bool = True) -> dict[str, Any]:
    """Read a file written by `write_map_file`. Returns the fields of an `EmbeddingMap` by name.

    Args:
        descriptors: whether to read descriptors and image, too. Without them, reading takes a tenth of the time.

    Raises:
        MapError: the file is missing, damaged, not a map, or of another version of this program.
    """
    with _opened(path) as (file, metadata):
        body = _unpack(file.get_tensor("body"), metadata["body_shape"])
        fields = _read_fields(file, metadata, body)
        if descriptors:
            k, j, i = body.shape
            everywhere = slice(0, k), slice(0, j), slice(0, i)
            fields["local"] = _decode_descriptors(file, body, everywhere)
            fields["image"] = _read_image(file, body)
        return fields


def read_descriptors(path: str | Path, body: torch.Tensor, box: CellBox) -> torch.Tensor | None:
    """Read descriptors (l, 2k, 2j, 2i), float16, in a box of k x j x i cells; None if the file has no descriptors.

    Args:
        body: bool mask of the whole map, True in the body; the file stores the descriptors of these cells only.
        box: slices k, j, i of the cells to read.

    Raises:
        MapError: as in `read_map_file`.
    """
    with _opened(path) as (file, _):
        return _decode_descriptors(file, body, box)


@contextmanager
def _opened(path: str | Path) -> Iterator[tuple[Any, dict[str, Any]]]:
    """Open a map file, and yield the open file and its metadata. Errors in the `with` block are raised as MapError."""
    if not Path(path).is_file():
        raise MapError(f"{path}: no such file; check the path.")
    try:
        with safe_open(str(path), "pt") as file:
            metadata = metadata_in(file, _METADATA_KEY, FORMAT_VERSION)
            if metadata["format_version"] < FORMAT_VERSION:
                raise MapError(
                    f"{path}: was written by an older version of this program; embed the scan again."
                )
            yield file, metadata
    except NewerFormatError:
        raise MapError(
            f"{path}: was written by a newer version; update the program or embed the scan again."
        ) from None
    except DAMAGED:
        raise MapError(
            f"{path}: is damaged, or is not an embedding map; embed the scan again."
        ) from None


def _read_fields(file: Any, metadata: dict[str, Any], body: torch.Tensor) -> dict[str, Any]:
    """Read and check the fields of an `EmbeddingMap`, except descriptors, image and calibration.

    body: (k, j, i) bool, the body mask of the file.
    """
    cell_to_ras = file.get_tensor("cell_to_ras")
    scan_to_ras = file.get_tensor("scan_to_ras")
    check_matrices(cell_to_ras[None], scan_to_ras[None])
    unit_mm = float(metadata["unit_mm"])
    if not 0 < unit_mm < _LARGEST_STEP_MM:
        raise ValueError("a map cannot have this unit")
    steps = file.get_tensor("coordinate")
    check_size(steps, (int(body.sum()), 3), torch.int16)
    coordinate = torch.zeros(3, *body.shape)
    coordinate[:, body] = _decode_coordinates(steps, metadata["coordinate_range"]).T
    return {
        "coordinate": coordinate,
        "body": body,
        "cell_to_ras": cell_to_ras.numpy(),
        "scan_to_ras": scan_to_ras.numpy(),
        "scan_shape": _checked_shape(metadata["scan_shape"]),
        "provenance": from_json(Provenance, metadata["provenance"]),
        "notes": tuple(map(str, metadata["notes"])),
        "faults": tuple(map(str, metadata["faults"])),
        "organ_boxes": boxes_from_json(metadata["organ_boxes"]),
        "spine": spine_from_json(metadata["spine"]),
        "unit_mm": unit_mm,
    }


def _checked_shape(shape: Sequence[int]) -> tuple[int, ...]:
    """Return the size k, j, i of a scan or of a map. Raises ValueError or TypeError if it is impossible."""
    if len(shape) != 3 or not all(isinstance(n, int) and 0 < n < _MOST_VOXELS for n in shape):
        raise ValueError("a scan cannot have this size")
    return tuple(shape)


def _read_image(file: Any, body: torch.Tensor) -> torch.Tensor | None:
    """Read and check the image, if the file has one."""
    if "image" not in file.keys():  # noqa: SIM118 - not a dict
        return None
    image = file.get_tensor("image")
    voxels = max(len(image) // len(body), 1)
    check_size(image, tuple(voxels * n for n in body.shape), torch.uint8)
    return image


def _encode_coordinates(coordinates: torch.Tensor) -> tuple[torch.Tensor, dict[str, Any]]:
    """Return int16 `steps` (n, 3) and a dict of "middle" and "step", where coordinate = middle + step * steps."""
    if not len(coordinates):
        return torch.zeros(0, 3, dtype=torch.int16), {"middle": [0.0, 0.0, 0.0], "step": 1.0}
    low, high = coordinates.double().aminmax(dim=0)
    middle = (low + high) / 2
    step = max(float((high - low).max()) / 2 / _COORDINATE_STEPS, 1e-9)
    steps = ((coordinates - middle) / step).round().clamp(-_COORDINATE_STEPS, _COORDINATE_STEPS)
    return steps.short(), {"middle": middle.tolist(), "step": step}


def _decode_coordinates(steps: torch.Tensor, metadata: Mapping[str, Any]) -> torch.Tensor:
    """Return the coordinates (n, 3) from the result of `_encode_coordinates`."""
    middle = torch.tensor(metadata["middle"], dtype=torch.float64)
    step = float(metadata["step"])
    coordinates = middle + step * steps.double()
    if middle.shape != (3,) or not (coordinates.abs() <= _LARGEST_COORDINATE).all():
        raise ValueError("a coordinate lies beyond any body")
    return coordinates.float()


def _encode_descriptors(local: torch.Tensor, body: torch.Tensor) -> dict[str, torch.Tensor]:
    """Encode the local descriptors of m cells: the body cells, and the cells that touch a body cell.

    local: (l, 2k, 2j, 2i), 8 descriptors of l values for each cell. body: (k, j, i) bool. Each value gets 12 bits.
    Returns "local" (m, 8, l), the high 8 bits; "local_low" (m, 4, l), the low 4 bits of two values in each byte;
    "local_scale" (m, 8), the factor by which the values of a descriptor are multiplied when they are read.
    """
    channels = len(local)
    k, j, i = body.shape
    # (k, j, i, 2, 2, 2, l): cells first, then the half cells in each
    cells = local.movedim(0, -1).reshape(k, 2, j, 2, i, 2, channels).permute(0, 2, 4, 1, 3, 5, 6)
    rows = cells.reshape(k, j, i, 8, channels)[_with_neighbours(body)].float()
    scale = rows.abs().amax(-1) / _DESCRIPTOR_STEPS
    steps = (rows / scale.clamp_min(1e-9)[..., None]).round().short()
    low = (steps & 15).to(torch.uint8)
    return {
        "local": (steps >> 4).to(torch.int8),
        "local_low": low[:, :4] | low[:, 4:] << 4,
        "local_scale": scale,
    }


def _decode_descriptors(file: Any, body: torch.Tensor, box: CellBox) -> torch.Tensor | None:
    """Read the descriptors in a box as `read_descriptors` returns them; of the file, read only the rows in between.

    The file has a row for each cell for which `_encode_descriptors` made one, in the order of the cells.
    """
    if "local" not in file.keys():  # noqa: SIM118 - not a dict
        return None
    is_described = _with_neighbours(body)
    rows = (is_described.flatten().cumsum(0) - 1).view(is_described.shape)  # in the file, by cell
    in_box = is_described[box]
    rows_in_box = rows[box][in_box]
    for name in ("local", "local_low", "local_scale"):
        if file.get_slice(name).get_shape()[0] != is_described.sum():
            raise ValueError(f"{name} is not of this body")
    channels = file.get_slice("local").get_shape()[-1]
    high = _read_rows(file, "local", rows_in_box, (8, channels), torch.int8)
    low = _read_rows(file, "local_low", rows_in_box, (4, channels), torch.uint8)
    scale = _read_rows(file, "local_scale", rows_in_box, (8,), torch.float32)
    if not ((scale >= 0) & (scale <= 1)).all():
        raise ValueError("the descriptors have no length")
    steps = high.short() * 16 + torch.cat([low & 15, low >> 4], dim=1)
    k, j, i = in_box.shape
    cells = torch.zeros(k, j, i, 8, channels, dtype=torch.half)
    cells[in_box] = (steps * scale[..., None]).half()
    fine = cells.view(k, j, i, 2, 2, 2, channels).permute(0, 3, 1, 4, 2, 5, 6)
    return fine.reshape(2 * k, 2 * j, 2 * i, channels).movedim(-1, 0)


def _read_rows(
    file: Any, name: str, rows: torch.Tensor, shape: tuple[int, ...], dtype: torch.dtype
) -> torch.Tensor:
    """Read rows of a tensor in a file, of which only the part from the first to the last row is loaded.

    Args:
        file: the open file.
        name: name of the tensor.
        rows: numbers of the rows, ascending.
        shape, dtype: of a row. Raises ValueError if they are others.
    """
    first, last = (int(rows[0]), int(rows[-1]) + 1) if len(rows) else (0, 0)
    part = file.get_slice(name)[first:last]
    check_size(part, (last - first, *shape), dtype)
    return part[rows - first]


def _with_neighbours(body: torch.Tensor) -> torch.Tensor:
    """Return bool (k, j, i), True for each body cell and for each neighbour of a body cell."""
    return F.max_pool3d(body[None].float(), 3, 1, 1)[0] > 0


def _unpack(bits: torch.Tensor, shape: Sequence[int]) -> torch.Tensor:
    """Return the mask (k, j, i) that was packed to bytes (uint8). Raises ValueError if it does not have this shape."""
    count = math.prod(_checked_shape(shape))
    check_size(bits, (-(-count // 8),), torch.uint8)
    return torch.from_numpy(np.unpackbits(bits.numpy(), count=count).astype(bool).reshape(shape))


def check_matrices(cell_to_ras: torch.Tensor, scan_to_ras: torch.Tensor) -> None:
    """Raise ValueError for impossible matrices (n, 4, 4). The axes of cells must lie along R, A and S."""
    for matrices in (cell_to_ras, scan_to_ras):
        check_size(matrices, (None, 4, 4), torch.float64)
        steps = matrices[:, :3, :3].norm(dim=1, keepdim=True)
        determinants = torch.linalg.det(matrices[:, :3, :3] / steps).abs()
        fits = (
            matrices.abs().max() <= LARGEST_POSITION_MM
            and ((steps >= _SMALLEST_STEP_MM) & (steps <= _LARGEST_STEP_MM)).all()
            and (determinants >= _SMALLEST_DETERMINANT).all()
            and (matrices[:, 3] == torch.tensor([0, 0, 0, 1])).all()
        )
        if not fits:
            raise ValueError("a scan cannot have this matrix")
    axes = cell_to_ras[:, :3, :3]
    steps = axes.diagonal(dim1=1, dim2=2)
    if not torch.equal(axes, torch.diag_embed(steps)) or steps.min() <= 0:
        raise ValueError("cells do not lie along the patient's axes")
