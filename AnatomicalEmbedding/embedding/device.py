"""Chooses the device and the number type to compute with, and determines the free memory of a device."""

from contextlib import AbstractContextManager, nullcontext
from functools import cache
from pathlib import Path

import numpy as np
import torch

from ..errors import AnatomicalEmbeddingError

_FREE_SHARE = 0.6  # share of the free memory that the embedding of one scan may use
# messages of torch's allocators
_NO_MEMORY = ("can't allocate memory", "out of memory", "not enough memory")
_ASSUMED_FREE_BYTES = 4 * 2**30  # where the system does not say it; by hand
_BFLOAT16_CAPABILITY = 8  # the first generation of NVIDIA GPUs (compute capability) with bfloat16
_BFLOAT16_FLAGS = {"avx512_bf16", "amx_bf16"}  # names of CPU instructions in _CPU_INFO
_CPU_INFO = Path("/proc/cpuinfo")


def choose_device(name: str = "auto") -> torch.device:
    """Choose a device by name: auto (cuda, then mps, then cpu), cpu, cuda, cuda:1, mps.

    Raises AnatomicalEmbeddingError if the device is not available.
    """
    has_mps = torch.backends.mps.is_available()
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "mps" if has_mps else "cpu")
    try:
        device = torch.device(name)
    except RuntimeError:
        raise AnatomicalEmbeddingError(
            f"device {name!r} is unknown; choose auto, cpu, cuda or mps."
        ) from None
    count = {"cpu": 1, "cuda": torch.cuda.device_count(), "mps": int(has_mps)}
    if (device.index or 0) >= count.get(device.type, 0):
        raise AnatomicalEmbeddingError(
            f"device {name!r} is not available on this computer; choose auto or cpu."
        )
    return device


def fast_dtype(device: torch.device) -> torch.dtype:
    """Return the number type that is fastest on a device: bfloat16 or float32."""
    if device.type == "cuda":
        fast = torch.cuda.get_device_capability(device)[0] >= _BFLOAT16_CAPABILITY
    else:
        fast = device.type == "cpu" and _has_bfloat16_instructions()
    return torch.bfloat16 if fast else torch.float32


def mixed_precision(device: torch.device, dtype: torch.dtype) -> AbstractContextManager:
    """Return a context in which convolutions compute with numbers of type `dtype`; float32: without mixed precision."""
    # PyTorch before 2.5 has no mixed precision on other devices
    if device.type not in ("cpu", "cuda"):
        return nullcontext()
    return torch.autocast(device.type, dtype, enabled=dtype != torch.float32)


@cache
def _has_bfloat16_instructions() -> bool:
    """Whether this CPU has bfloat16 instructions. Without them, bfloat16 is several times slower than float32."""
    if _CPU_INFO.exists():  # Linux
        return not _BFLOAT16_FLAGS.isdisjoint(_CPU_INFO.read_text().split())
    return "AVX512_SPR" in np.show_config(mode="dicts")["SIMD Extensions"].get("found", [])


def is_out_of_memory(error: MemoryError | RuntimeError) -> bool:
    """Whether an error means that the CPU or GPU ran out of memory."""
    text = str(error).lower()
    return isinstance(error, MemoryError) or any(words in text for words in _NO_MEMORY)


def memory_budget(device: torch.device) -> int:
    """Return how many bytes the embedding of one scan may use on a device."""
    if device.type == "cuda":
        return int(torch.cuda.mem_get_info(device)[0] * _FREE_SHARE)
    meminfo = Path("/proc/meminfo")
    if meminfo.exists():
        lines = dict(line.split(":", 1) for line in meminfo.read_text().splitlines())
        return int(int(lines["MemAvailable"].split()[0]) * 1024 * _FREE_SHARE)
    return _ASSUMED_FREE_BYTES
