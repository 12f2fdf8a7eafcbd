"""A trained segmenter in one folder: networks, groups, and the examples from which labels are carried over."""

import json
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
import torch
from safetensors import safe_open

from ..embedding.map import EmbeddingMap
from ..embedding.tensor_files import (
    DAMAGED,
    NewerFormatError,
    check_size,
    made_for,
    read_tensor_file,
    write_tensor_file,
)
from ..errors import AnatomicalEmbeddingError, MapError, WeightsError
from .carrying import CARRIED, Outlined
from .examples import PreparedExample
from .grids import Group
from .voxels import VoxelNet

FORMAT_VERSION = 1
_FILE = "segmenter.safetensors"
_EXAMPLES = "examples"
_METADATA_KEY = "anatomical_segmenter"


@dataclass(frozen=True, eq=False)
class Segmenter:
    """A trained segmenter.

    Args:
        weights, weights_hash: name or file of the embedding's weights, and the file's SHA-256.
        groups, networks: groups of structures, and the network of each group.
        volumes_ml: name of the structure -> its volumes in the examples.
        guess_shares: name of the structure -> weight of the carried labels, see `carrying.guess_share`.
        outlined: for each group, the examples from which its labels are carried over.
    """

    weights: str
    weights_hash: str
    groups: tuple[Group, ...]
    networks: tuple[VoxelNet, ...]
    volumes_ml: dict[str, tuple[float, ...]]
    guess_shares: dict[str, float]
    outlined: tuple[tuple[Outlined, ...], ...]

    @property
    def names(self) -> tuple[str, ...]:
        """All structures, in the order of their label values."""
        return tuple(name for group in self.groups for name in group.names)

    def check(self, weights_hash: str, path: Path) -> None:
        """Raise WeightsError unless the segmenter was trained with these weights of the embedding."""
        if weights_hash != self.weights_hash:
            raise WeightsError(f"{path}: was trained with the embedding {self.weights}, which is not this one.")


def save_segmenter(folder: Path, segmenter: Segmenter, prepared: list[PreparedExample]) -> Path:
    """Write a segmenter into a folder. segmenter.safetensors is written last: with it, the folder is complete."""
    kept = _choose_examples(segmenter.groups, prepared)
    for example in kept:
        example.embedding.save(folder / _EXAMPLES / f"{example.id}.map.safetensors")
        tensors = {}
        for number, of in example.crops.items():
            tensors[f"{number}.labels"] = (of.labels.float() * 255).round().to(torch.uint8)
            tensors[f"{number}.known"] = of.known
            tensors[f"{number}.to_ras"] = torch.from_numpy(of.crop.to_ras)
        write_tensor_file(
            folder / _EXAMPLES / f"{example.id}.labels.safetensors", tensors, {}, AnatomicalEmbeddingError
        )
    about = {
        "format_version": FORMAT_VERSION,
        "weights": segmenter.weights,
        "weights_sha256": segmenter.weights_hash,
        "groups": [group.to_dict() for group in segmenter.groups],
        "networks": [{"outputs": n.structures, "features": n.descriptors} for n in segmenter.networks],
        "volumes_ml": segmenter.volumes_ml,
        "guess_shares": segmenter.guess_shares,
        "examples": [example.id for example in kept],
    }
    weights = {
        f"{n}.{key}": tensor for n, network in enumerate(segmenter.networks)
        for key, tensor in network.state_dict().items()
    }  # fmt: skip
    write_tensor_file(folder / _FILE, weights, {_METADATA_KEY: json.dumps(about)}, AnatomicalEmbeddingError)
    return folder / _FILE


def segmenter_file(folder: Path) -> Path:
    """Return the path of segmenter.safetensors, which is written last."""
    return folder / _FILE


def load_segmenter(folder: Path, device: torch.device) -> Segmenter:
    """Read a segmenter. Raises WeightsError if it is missing, damaged, or written by a newer version."""
    path = folder / _FILE
    if not path.is_file():
        raise WeightsError(f"{folder}: holds no trained segmenter; make one with `anatemb segment train`.")
    try:
        about, weights = read_tensor_file(path, _METADATA_KEY, FORMAT_VERSION)
        networks = []
        for n, values in enumerate(about["networks"]):
            own = {k.removeprefix(f"{n}."): tensor for k, tensor in weights.items() if k.startswith(f"{n}.")}
            network = made_for(partial(VoxelNet, int(values["outputs"]), int(values["features"])), own)
            network.load_state_dict(own)
            networks.append(network.to(device).eval())
        groups = tuple(Group.from_dict(group) for group in about["groups"])
        maps = {n: EmbeddingMap.load(folder / _EXAMPLES / f"{n}.map.safetensors") for n in about["examples"]}
        return Segmenter(
            about["weights"], about["weights_sha256"], groups, tuple(networks),
            {name: tuple(values) for name, values in about["volumes_ml"].items()}, about["guess_shares"],
            tuple(_outlined(folder, maps, number) for number in range(len(groups))),
        )  # fmt: skip
    except NewerFormatError:
        raise WeightsError(f"{path}: written by a newer version of this program; update it.") from None
    except (*DAMAGED, MapError) as error:
        raise WeightsError(f"{path}: is damaged or incomplete; train again into another folder.") from error


def _choose_examples(groups: tuple[Group, ...], prepared: list[PreparedExample]) -> list[PreparedExample]:
    """Choose few examples that together outline all structures. Examples with structures that few show come first."""
    count = dict.fromkeys([name for group in groups for name in group.names], 0)

    def gain(example: PreparedExample) -> float:
        return sum(1 / (1 + 4 * count[name]) for name in example.volumes_ml)

    left, chosen = list(prepared), list[PreparedExample]()
    while left and (len(chosen) < CARRIED or not all(count.values())):
        best = max(left, key=gain)
        left.remove(best)
        chosen.append(best)
        for name in best.volumes_ml:
            count[name] += 1
    return chosen


def _outlined(folder: Path, maps: dict[str, EmbeddingMap], number: int) -> tuple[Outlined, ...]:
    found = []
    for name, embedding in maps.items():
        with safe_open(str(folder / _EXAMPLES / f"{name}.labels.safetensors"), "pt") as file:
            if f"{number}.labels" in file.keys():  # noqa: SIM118 - not a dict
                labels, known, to_ras = (file.get_tensor(f"{number}.{key}") for key in ("labels", "known", "to_ras"))
                check_size(labels, (None, None, None, None), torch.uint8)
                check_size(known, (len(labels),), torch.bool)
                check_size(to_ras, (4, 4), torch.float64)
                found.append(Outlined(embedding, labels.half() / 255, to_ras.numpy().astype(np.float64), known))
    return tuple(found)
