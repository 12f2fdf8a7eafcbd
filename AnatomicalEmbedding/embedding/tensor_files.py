"""Reads and writes safetensors files. Files are checked when they are read."""

import math
import types
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar, Union, get_args, get_origin, get_type_hints

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file

from ..errors import AnatomicalEmbeddingError
from ..files import atomic_path, parse_json

# errors that reading a damaged file may raise
DAMAGED = (
    SafetensorError,
    OSError,
    LookupError,
    TypeError,
    ValueError,
    AttributeError,
    OverflowError,
    RuntimeError,
)


_Network = TypeVar("_Network", bound=torch.nn.Module)
_Made = TypeVar("_Made")


class NewerFormatError(Exception):
    """The file was written by a newer version of this program."""


def read_tensor_file(
    path: str | Path, key: str, newest: int | None = None
) -> tuple[dict[str, Any], dict[str, torch.Tensor]]:
    """Read a safetensors file. Returns the JSON object under `key` in the metadata, and the tensors by name.

    Args:
        newest: the newest "format_version" that this program can read; None to check no version.

    Raises:
        NewerFormatError: the file has a newer version.
        One of the errors in DAMAGED: the file is missing or damaged, or a tensor holds NaN or infinity.
    """
    with safe_open(str(path), "pt") as file:
        metadata = metadata_in(file, key, newest)
        tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 - not a dict
    for name, values in tensors.items():
        if values.is_floating_point() and not math.isfinite(values.sum(dtype=torch.float64)):
            raise ValueError(f"{name} holds NaN or infinity")
    return metadata, tensors


def metadata_in(file: Any, key: str, newest: int | None) -> dict[str, Any]:
    """Read a JSON object in a file's metadata.

    Args:
        file: the open file.
        key: key of the object.
        newest: newest version that this program can read; None to check no version.

    Raises:
        NewerFormatError: the file has a newer version.
    """
    metadata = parse_json((file.metadata() or {})[key])
    if not isinstance(metadata, dict):
        raise ValueError("no facts")
    if newest is not None:
        if not isinstance(metadata["format_version"], int):
            raise ValueError("no version")
        if metadata["format_version"] > newest:
            raise NewerFormatError
    return metadata


def check_fields(kind: type, values: Mapping[str, Any]) -> None:
    """Raise ValueError for the first value that does not have the type of its dataclass field, or is not finite.

    kind: the dataclass. Integers are accepted for floats, and lists for tuples. Field names are not checked.
    """
    hints = get_type_hints(kind)
    for name, value in values.items():
        if name in hints and not _is_of(hints[name], value):
            raise ValueError(f"{name} must not be {str(value)[:40]!r}")


def from_json(kind: type[_Made], values: Mapping[str, Any]) -> _Made:
    """Make a dataclass from the values of its fields in JSON, whose lists become tuples.

    Raises ValueError or TypeError for values of other types, and for unknown or missing fields.
    """
    check_fields(kind, values)
    return kind(**{name: tuple(v) if isinstance(v, list) else v for name, v in values.items()})


def _is_of(hint: Any, value: Any) -> bool:
    """Return whether a value has a type: a class, or a union, list or tuple of such types. Lists count as tuples."""
    origin = get_origin(hint)
    inner = get_args(hint)
    if origin in (Union, types.UnionType):
        return any(_is_of(alternative, value) for alternative in inner)
    if origin is list or (origin is tuple and inner[1:] == (...,)):
        return isinstance(value, list | tuple) and all(_is_of(inner[0], item) for item in value)
    if origin is tuple:
        return (
            isinstance(value, list | tuple)
            and len(value) == len(inner)
            and all(map(_is_of, inner, value))
        )
    if hint in (int, float):
        kind = int if hint is int else int | float
        is_number = isinstance(value, kind) and not isinstance(value, bool)
        return is_number and math.isfinite(value)
    return isinstance(value, hint)


def check_size(grid: torch.Tensor, shape: tuple[int | None, ...], dtype: torch.dtype) -> None:
    """Raise ValueError unless a tensor has this type and shape.

    Args:
        grid: the tensor.
        shape: its sizes; None stands for any length except 0.
        dtype: its type.
    """
    fits = grid.dtype == dtype and grid.ndim == len(shape)
    if fits:
        sizes = zip(grid.shape, shape, strict=True)
        fits = all(n == stated or (stated is None and n > 0) for n, stated in sizes)
    if not fits:
        raise ValueError(
            f"the tensor {grid.dtype} {tuple(grid.shape)} must be {dtype} {shape}; write the file again"
        )


def made_for(make: Callable[[], _Network], state: Mapping[str, torch.Tensor]) -> _Network:
    """Return the network `make()` if `state` has the network's tensor names and shapes; otherwise raise ValueError.

    A damaged file may describe a network larger than the memory. So shapes are first compared on the meta device,
    which allocates no memory.
    """
    with torch.device("meta"):
        expected = {name: values.shape for name, values in make().state_dict().items()}
    if {name: values.shape for name, values in state.items()} != expected:
        raise ValueError("the tensors are those of another network")
    if any(name.endswith("running_var") and (values < 0).any() for name, values in state.items()):
        raise ValueError("a variance below 0")
    return make()


def write_tensor_file(
    path: str | Path,
    tensors: Mapping[str, torch.Tensor],
    metadata: dict[str, str],
    error: type[AnatomicalEmbeddingError],
) -> None:
    """Write tensors and metadata as safetensors, complete or not at all.

    Args:
        path: the file.
        tensors, metadata: its content.
        error: type of the error that is raised if this is not possible.
    """
    if not str(path).endswith(".safetensors"):
        raise error(f"{path}: the file name does not end in .safetensors; add this ending.")
    try:
        with atomic_path(path) as temporary:
            save_file(
                {name: values.contiguous() for name, values in tensors.items()},
                str(temporary),
                metadata,
            )
    except (SafetensorError, OSError):
        raise error(
            f"{path}: cannot be written; check that the folder is writable and the disk not full."
        ) from None
