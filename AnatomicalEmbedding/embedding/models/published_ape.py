"""The published APE checkpoint (`ape.pt` of huggingface.co/mishgon/ape, MIT) behind the interface of our own models.

How its input has to look is taken from its authors' training data preparation (repositories mishgon/ape and
mishgon/cotomka): array axes towards posterior, left, inferior; 1 x 1 x 1.5 mm; HU -1000..300 mapped to 0..1; cut to
the box of the body; adaptive histogram equalisation (CLAHE) over that box.
"""

import hashlib
import http.client
import pickle
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import nn
from torch.nn import functional as F

from ...errors import AnatomicalEmbeddingError, WeightsError
from ...files import atomic_path, file_sha256
from .fpn3d import STRIDE, WIDTHS, FeaturePyramid, LinearHead
from .network import Features

REVISION = "a743d914ca8ba47d4e7371c6906c40c976437685"
URL = f"https://huggingface.co/mishgon/ape/resolve/{REVISION}/ape.pt"

_WINDOW_HU = (-1000.0, 300.0)
_BODY_HU = -500.0
_BODY_BLOCK = (5, 5, 4)  # voxels towards P, L, I: at least 5 mm
_CLIP_LIMIT = 0.05
# CLAHE maps a region of nothing but air to its clipped first bin, so this is what air looks like to the network.
_AIR_LEVEL = _CLIP_LIMIT
_TIMEOUT_S = 30.0
_CHUNK_BYTES = 1 << 20
_NAMES_SHOWN = 3


class PublishedApe(nn.Module):
    """Goncharov's network as released: three numbers in 0..1 per cell of 4 x 4 x 4 voxels.

    The numbers have no unit: training multiplied them by one learned factor per axis that the release leaves out
    (`unit_mm` is None), and their axes need not be the patient's. Distances between them still order candidates,
    which is all that matching needs.
    """

    recipe_name = "ape-published"
    spacing_mm = (1.0, 1.0, 1.5)
    stride = STRIDE
    size_multiple = lattice = size_step = STRIDE * 2 ** (len(WIDTHS) - 1)
    scales = (1.0,)
    bytes_per_voxel = 130.0  # measured on a 192 x 224 x 224 grid, CLAHE included
    descriptor_bytes_per_voxel = 0.0
    unit_mm = None
    metric = False
    organ_places = None
    organ_names: tuple[str, ...] = ()

    def __init__(self) -> None:
        super().__init__()
        self.fpn = FeaturePyramid()
        self.head = LinearHead(3)

    def prepare(self, hu: torch.Tensor) -> torch.Tensor:
        """HU (k, j, i), axes towards S, A, R, `spacing_mm` apart -> network input (1, k, j, i) in 0..1.

        Contrast is equalised over the box of the body only, so air added around it changes nothing; everything
        outside that box becomes air. As in training, it depends on what else is in the scan: a narrower field of
        view gives the same tissue somewhat other values.

        Raises AnatomicalEmbeddingError when scikit-image, whose CLAHE the checkpoint was trained with, is missing.
        """
        equalise = _contrast_equaliser()
        published = _to_published_axes(hu.float().cpu())
        level = torch.full_like(published, _AIR_LEVEL)
        box = _body_box(published)
        if box is not None:
            low, high = _WINDOW_HU
            windowed = ((published[box] - low) / (high - low)).clamp(0, 1)
            level[box] = torch.from_numpy(equalise(windowed.numpy(), clip_limit=_CLIP_LIMIT)).float()
        return _from_published_axes(level)[None].contiguous().to(hu.device)

    def forward(self, x: torch.Tensor, descriptors: bool = True) -> Features:
        """(b, 1, k, j, i), sizes multiples of `size_multiple` -> coordinate (b, 3, k/4, j/4, i/4) in 0..1, same axes.

        descriptors: ignored; this network has none.
        """
        logits = self.head(self.fpn(_to_published_axes(x)))
        return Features(coordinate=_from_published_axes(logits).sigmoid())


def load_published_ape(path: str | Path) -> PublishedApe:
    """The published model from its `ape.pt`, or from a safetensors file of the same names, in evaluation mode.

    Reads tensors only: a file that would run code when read is refused. Where `download_published_ape` left a
    `.sha256` next to the file, the file must still agree with it.

    Raises WeightsError when the file is missing, damaged, or not the weights of this network.
    """
    path = Path(path)
    if not path.is_file():
        raise WeightsError(f"{path} does not exist; download ape.pt from {URL} and give its path.")
    recorded = _recorded_hash(path)
    if recorded is not None and file_sha256(path) != recorded:
        raise WeightsError(
            f"{path} has changed since it was downloaded (its SHA-256 is not the one in {_record_of(path).name}); "
            "delete both files and download it again."
        )
    with torch.device("meta"):  # skips drawing 31 million random numbers
        model = PublishedApe()
    state = _published_state(path, model, shown_as=str(path))
    model.load_state_dict(state, assign=True)
    return model.eval().requires_grad_(False)


def download_published_ape(
    destination: str | Path, url: str = URL, progress: Callable[[int, int | None], None] | None = None
) -> Path:
    """Fetch the published weights (125 MB, pinned revision) to `destination`; only ever called at a user's request.

    Nothing is left behind unless the whole file arrived and holds the weights of this network. Its SHA-256, size
    and origin are then recorded in `<destination>.sha256`, in the form `sha256sum -c` reads; a later download to
    the same place must agree with the record. A file that is already there is kept.

    progress: called with the bytes received and the bytes expected (None where unknown).

    Raises WeightsError when the server cannot be reached, the file is incomplete, or it is not what it should be.
    """
    destination = Path(destination)
    if destination.exists():
        return destination
    with torch.device("meta"):
        model = PublishedApe()
    with atomic_path(destination) as temporary:
        digest = hashlib.sha256()
        with temporary.open("wb") as file:
            for chunk, expected in _received(url):
                file.write(chunk)
                digest.update(chunk)
                if progress is not None:
                    progress(file.tell(), expected)
        size = temporary.stat().st_size
        recorded = _recorded_hash(destination)
        if recorded is not None and digest.hexdigest() != recorded:
            raise WeightsError(
                f"{url} now gives another file than the one recorded in {_record_of(destination)}; "
                "delete that record if the change is known to be right."
            )
        _published_state(temporary, model, shown_as=url)
    with atomic_path(_record_of(destination)) as temporary:
        temporary.write_text(f"# {size} bytes from {url}\n{digest.hexdigest()}  {destination.name}\n", encoding="utf-8")
    return destination


def _to_published_axes(x: torch.Tensor) -> torch.Tensor:
    """Last three axes towards S, A, R -> towards P, L, I, the order and directions of the training arrays."""
    return x.movedim(-3, -1).flip(-3, -2, -1)


def _from_published_axes(x: torch.Tensor) -> torch.Tensor:
    """Inverse of `_to_published_axes`; cells stay over their voxels because sizes are multiples of the stride."""
    return x.flip(-3, -2, -1).movedim(-1, -3)


def _contrast_equaliser() -> Callable:
    try:
        from skimage.exposure import equalize_adapthist
    except ImportError as error:
        raise AnatomicalEmbeddingError(
            "The published APE model needs scikit-image to equalise contrast the way it was trained; "
            "install it with: pip install scikit-image"
        ) from error
    return equalize_adapthist


def _body_box(hu: torch.Tensor) -> tuple[slice, slice, slice] | None:
    """Bounding box of the blocks that hold no air at all, which leaves out tables, tubes and noise."""
    holds_air = F.max_pool3d((hu < _BODY_HU).float()[None], _BODY_BLOCK, ceil_mode=True)[0]
    blocks = (holds_air == 0).nonzero()
    if len(blocks) == 0:
        return None
    first, last = blocks.amin(0).tolist(), blocks.amax(0).tolist()
    k, j, i = (slice(a * n, (b + 1) * n) for a, b, n in zip(first, last, _BODY_BLOCK, strict=True))
    return k, j, i


def _published_state(path: Path, model: PublishedApe, shown_as: str) -> dict[str, torch.Tensor]:
    """The float32 weights in `path`, checked against the names and shapes of `model`."""
    state = _read_tensors(path, shown_as)
    expected = {name: tuple(tensor.shape) for name, tensor in model.state_dict().items()}
    remedy = f"use the file ape.pt of huggingface.co/mishgon/ape at revision {REVISION[:8]}."
    missing = [name for name in expected if name not in state]
    unexpected = [name for name in state if name not in expected]
    if missing or unexpected:
        faults = [f"lacks {_some(missing)}"] if missing else []
        faults += [f"has unknown {_some(unexpected)}"] if unexpected else []
        raise WeightsError(f"{shown_as} is not the published APE network: it {' and '.join(faults)}; {remedy}")
    wrong = [name for name, shape in expected.items() if tuple(state[name].shape) != shape]
    if wrong:
        details = [f"{name} is {tuple(state[name].shape)} instead of {expected[name]}" for name in wrong]
        raise WeightsError(f"{shown_as} is not the published APE network: {_some(details)}; {remedy}")
    return {name: tensor.float() for name, tensor in state.items()}


def _read_tensors(path: Path, shown_as: str) -> dict[str, torch.Tensor]:
    try:
        if path.suffix == ".safetensors":
            return load_file(path)
        state = torch.load(path, map_location="cpu", weights_only=True)
    except pickle.UnpicklingError as error:
        raise WeightsError(
            f"{shown_as} was not opened: it is damaged, or holds code that would run when read; get ape.pt from {URL}"
        ) from error
    except (SafetensorError, RuntimeError, EOFError, OSError, ValueError, KeyError) as error:
        raise WeightsError(f"{shown_as} cannot be read as weights, it may be cut short; download it again.") from error
    if not isinstance(state, dict) or not all(
        isinstance(name, str) and isinstance(value, torch.Tensor) for name, value in state.items()
    ):
        raise WeightsError(
            f"{shown_as} is not a plain table of tensors (a training checkpoint perhaps); get ape.pt from {URL}"
        )
    return state


def _received(url: str) -> Iterator[tuple[bytes, int | None]]:
    """Chunks of the file at `url`, each with the length the server announced."""
    try:
        with urllib.request.urlopen(url, timeout=_TIMEOUT_S) as response:
            announced = response.headers.get("Content-Length")
            expected = int(announced) if announced else None
            received = 0
            while chunk := response.read(_CHUNK_BYTES):
                received += len(chunk)
                yield chunk, expected
    except (OSError, http.client.HTTPException) as error:
        raise WeightsError(
            f"{url} could not be fetched ({error}); "
            "check the network, or get ape.pt on another machine and give its path."
        ) from error
    if expected is not None and received != expected:
        raise WeightsError(f"{url} broke off after {received} of {expected} bytes; try again.")


def _record_of(path: Path) -> Path:
    return path.with_name(f"{path.name}.sha256")


def _recorded_hash(path: Path) -> str | None:
    record = _record_of(path)
    if not record.is_file():
        return None
    lines = [line for line in record.read_text(encoding="utf-8").splitlines() if line and not line.startswith("#")]
    if not lines:
        raise WeightsError(f"{record} holds no SHA-256; delete it and the weights next to it and download them again.")
    return lines[0].split()[0]


def _some(names: list[str]) -> str:
    shown = ", ".join(names[:_NAMES_SHOWN])
    return shown if len(names) <= _NAMES_SHOWN else f"{shown} and {len(names) - _NAMES_SHOWN} more"
