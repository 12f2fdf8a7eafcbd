"""Train, write and read a segmenter: groups of structures, a network for each group, and examples."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
import torch
from safetensors import safe_open

from ..embedding.inference import Model
from ..embedding.map import EmbeddingMap
from ..embedding.tensor_files import (
    DAMAGED,
    NewerFormatError,
    check_size,
    made_for,
    read_tensor_file,
    write_tensor_file,
)
from ..errors import (
    AnatomicalEmbeddingError,
    CancelCallback,
    MapError,
    ProgressCallback,
    WeightsError,
    no_body_frame,
)
from ..files import parse_json, write_text
from ..training.loop import Progress, TrainingLoop
from .carrying import CARRIED, LabelSource, guess_share
from .examples import OutlinedScan, PreparedExample, common_values, prepare
from .grids import Group
from .voxel_training import OPTIMISER, voxel_losses
from .voxels import VoxelNet

FORMAT_VERSION = 1
FILE_NAME = "segmenter.safetensors"  # written last: a folder with this file is complete
_RECORD = "run.json"
_EXAMPLES = "examples"
_METADATA_KEY = "anatomical_segmenter"


@dataclass(frozen=True, eq=False)
class Segmenter:
    """A trained segmenter.

    Args:
        weights, weights_hash: name or file of the embedding's weights, and the file's SHA-256.
        groups, networks: groups of structures, and the network of each group.
        volumes_ml: name of the structure -> its volumes in the examples.
        guess_shares: structure -> weight, 0 to 1, of the carried labels; the network's result has 1 minus this weight.
        outlined: for each group, the examples from which labels are carried over.
        values: structure -> its label in the results.
        overlaps: structure -> the structures that it may overlap, because it overlaps them in an example.
    """

    weights: str
    weights_hash: str
    groups: tuple[Group, ...]
    networks: tuple[VoxelNet, ...]
    volumes_ml: dict[str, tuple[float, ...]]
    guess_shares: dict[str, float]
    outlined: tuple[tuple[LabelSource, ...], ...]
    values: dict[str, int]
    overlaps: dict[str, list[str]]

    @property
    def names(self) -> tuple[str, ...]:
        """All structures, in the order of their labels."""
        return tuple(sorted(self.values, key=self.values.__getitem__))

    def check(self, weights_hash: str, path: Path) -> None:
        """Raise WeightsError if the segmenter was trained with weights of another hash. path: shown in the message."""
        if weights_hash != self.weights_hash:
            raise WeightsError(
                f"{path}: was trained with the weights {self.weights}, but other weights are loaded;"
                f" load the weights {self.weights}, or train again."
            )


def train_segmenter(
    examples: Sequence[OutlinedScan],
    model: Model,
    folder: Path,
    seed: int,
    steps: int,
    weights: str = "",
    step: ProgressCallback = lambda share, text: None,
    cancelled: CancelCallback = lambda: False,
) -> Segmenter:
    """Train a segmenter on outlined scans and save it in a folder.

    If the folder already contains a segmenter of the same examples and options, this segmenter is read and returned.

    Args:
        examples: the outlined scans.
        model: makes the maps.
        folder: folder of the segmenter.
        seed: random seed.
        steps: training steps of each network.
        weights: file of the model's weights, which later runs read. If it is "", later runs find the weights by the
            model's name.
        step: called with the share of the work that is done, 0 to 1, and what is done.
        cancelled: if it returns True, training stops.

    Raises CancelledError if `cancelled` returned True, AnatomicalEmbeddingError if the folder contains a run with other
    examples or options, and WeightsError if the model gives no body coordinates in mm.
    """
    if not model.network.metric:
        raise WeightsError(no_body_frame(model.name))
    values = common_values(examples)
    files = {example.id: list(map(_file_state, example.files)) for example in examples}
    identity = {
        "files": files,
        "structures": sorted({name for example in examples for name in example.outlined}),
        "weights": model.weights_hash,
        "seed": seed,
    }
    if (folder / _RECORD).exists():
        _check_record(folder, identity, steps)
        if (folder / FILE_NAME).is_file():
            return load_segmenter(folder, model.device)
    groups, prepared = prepare(examples, model, lambda share, text: step(0.0, f"preparing {text}"))
    write_text(folder / _RECORD, json.dumps({"identity": identity, "steps": steps}, indent=1))
    local = prepared[0].embedding.local
    descriptors = 0 if local is None else len(local)
    networks = []
    for n, group in enumerate(groups):
        report = partial(_report, step, n * steps, steps * len(groups))
        torch.manual_seed(seed)
        network = VoxelNet(len(group.names), descriptors).to(model.device).train()
        crops = [example.crops[n] for example in prepared if n in example.crops]
        losses = voxel_losses(network, crops, steps, seed, cancelled)
        loop = TrainingLoop(network, OPTIMISER, steps)
        loop.run(losses, progress=report, cancelled=cancelled)
        networks.append(loop.averaged.eval())
    volumes, shares, overlaps = _facts_of_structures(groups, prepared)
    segmenter = Segmenter(
        weights or model.name,
        model.weights_hash,
        tuple(groups),
        tuple(networks),
        volumes,
        shares,
        (),  # the examples are stored by `save_segmenter`
        values,
        overlaps,
    )
    save_segmenter(folder, segmenter, prepared)
    return load_segmenter(folder, model.device)


def _report(step: ProgressCallback, before: int, total: int, progress: Progress) -> None:
    """Call `step` after a step of training. before: steps of earlier networks. total: steps of all networks."""
    done = before + progress.step
    minutes = progress.seconds_per_step * (total - done) / 60
    step(done / total, f"step {done}, loss {progress.loss:.3f}, {minutes:.0f} min to go")


def _facts_of_structures(
    groups: Sequence[Group], prepared: Sequence[PreparedExample]
) -> tuple[dict, dict, dict]:
    """Return what a Segmenter stores about each structure: `volumes_ml`, `guess_shares` and `overlaps`."""
    pairs = [pair for example in prepared for pair in example.overlaps]
    volumes = {}
    shares = {}
    overlaps = {}
    for name in [name for group in groups for name in group.names]:
        with_name = [example for example in prepared if name in example.volumes_ml]
        volumes[name] = tuple(round(example.volumes_ml[name], 3) for example in with_name)
        contrast = float(np.median([example.contrast[name] for example in with_name]))
        shares[name] = round(guess_share(contrast), 3)
        mates = {mate for pair in pairs if name in pair for mate in pair}
        overlaps[name] = sorted(mates - {name})
    return volumes, shares, overlaps


def _file_state(path: Path) -> list[object]:
    """Return name, size and time of change of a file, which tell whether it is still the same file."""
    state = path.stat()
    return [path.name, state.st_size, state.st_mtime_ns]


def _check_record(folder: Path, identity: dict[str, object], steps: int) -> None:
    """Raise AnatomicalEmbeddingError if the record of an earlier run in a folder is damaged or of another run.

    The values of `identity` are compared as JSON gives them back, with lists in place of tuples.
    """
    path = folder / _RECORD
    try:
        record = parse_json(path.read_text(encoding="utf-8"))
        stored = {key: record["identity"][key] for key in identity}, record["steps"]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise AnatomicalEmbeddingError(
            f"{path}: is damaged; give another output folder."
        ) from error
    if stored != (json.loads(json.dumps(identity)), steps):
        raise AnatomicalEmbeddingError(
            f"{folder}: contains a run with other examples or other options; give another output folder."
        )


def save_segmenter(folder: Path, segmenter: Segmenter, prepared: list[PreparedExample]) -> None:
    """Write a segmenter and its examples into a folder. The segmenter's file is written last.

    Args:
        folder: the folder.
        segmenter: the segmenter.
        prepared: its examples.
    """
    chosen = _choose_examples(segmenter.groups, prepared)
    for example in chosen:
        example.embedding.save(folder / _EXAMPLES / f"{example.id}.map.safetensors")
        tensors = {}
        for number, crop in example.crops.items():
            tensors[f"{number}.labels"] = (crop.labels.float() * 255).round().to(torch.uint8)
            tensors[f"{number}.known"] = crop.outlined
            tensors[f"{number}.to_ras"] = torch.from_numpy(crop.crop.to_ras)
        write_tensor_file(
            folder / _EXAMPLES / f"{example.id}.labels.safetensors",
            tensors,
            {},
            AnatomicalEmbeddingError,
        )
    metadata = {
        "format_version": FORMAT_VERSION,
        "weights": segmenter.weights,
        "weights_sha256": segmenter.weights_hash,
        "groups": [group.to_dict() for group in segmenter.groups],
        "networks": [
            {"outputs": n.structures, "features": n.descriptors} for n in segmenter.networks
        ],
        "volumes_ml": segmenter.volumes_ml,
        "guess_shares": segmenter.guess_shares,
        "values": segmenter.values,
        "overlaps": segmenter.overlaps,
        "examples": [example.id for example in chosen],
    }
    weights: dict[str, torch.Tensor] = {}
    for n, network in enumerate(segmenter.networks):
        weights |= {f"{n}.{key}": tensor for key, tensor in network.state_dict().items()}
    write_tensor_file(
        folder / FILE_NAME, weights, {_METADATA_KEY: json.dumps(metadata)}, AnatomicalEmbeddingError
    )


def load_segmenter(folder: Path, device: torch.device) -> Segmenter:
    """Read a segmenter. Raises WeightsError if it is missing, damaged, or written by a newer version."""
    path = folder / FILE_NAME
    if not path.is_file():
        raise WeightsError(f"{folder}: contains no trained segmenter; run `anatemb segment train`.")
    try:
        metadata, weights = read_tensor_file(path, _METADATA_KEY, FORMAT_VERSION)
        networks = [
            _read_network(sizes, f"{n}.", weights).to(device).eval()
            for n, sizes in enumerate(metadata["networks"])
        ]
        groups = tuple(Group.from_dict(group) for group in metadata["groups"])
        names = (name for group in groups for name in group.names)
        values = {name: int(metadata["values"][name]) for name in names}
        maps = {
            n: EmbeddingMap.load(folder / _EXAMPLES / f"{n}.map.safetensors")
            for n in metadata["examples"]
        }
        return Segmenter(
            metadata["weights"],
            metadata["weights_sha256"],
            groups,
            tuple(networks),
            {name: tuple(volumes_ml) for name, volumes_ml in metadata["volumes_ml"].items()},
            metadata["guess_shares"],
            tuple(_read_label_sources(folder, maps, group) for group in range(len(groups))),
            values,
            {name: list(partners) for name, partners in metadata.get("overlaps", {}).items()},
        )
    except NewerFormatError:
        raise WeightsError(
            f"{path}: was written by a newer version of this program; update the program."
        ) from None
    except (*DAMAGED, MapError) as error:
        raise WeightsError(
            f"{path}: is damaged or incomplete; train again into another folder."
        ) from error


def _read_network(sizes: dict[str, int], prefix: str, weights: dict[str, torch.Tensor]) -> VoxelNet:
    """Make a network from the tensors whose names begin with `prefix`. sizes: numbers of its outputs and features."""
    state = {
        key.removeprefix(prefix): tensor
        for key, tensor in weights.items()
        if key.startswith(prefix)
    }
    make = partial(VoxelNet, int(sizes["outputs"]), int(sizes["features"]))
    network = made_for(make, state)
    network.load_state_dict(state)
    return network


def _choose_examples(
    groups: tuple[Group, ...], prepared: list[PreparedExample]
) -> list[PreparedExample]:
    """Return CARRIED examples, or more if these examples do not show all structures of `groups`. Each next example
    shows many structures that few of the examples before show."""
    count = dict.fromkeys([name for group in groups for name in group.names], 0)

    def gain(example: PreparedExample) -> float:
        return sum(1 / (1 + 4 * count[name]) for name in example.volumes_ml)

    remaining = list(prepared)
    chosen = list[PreparedExample]()
    while remaining and (len(chosen) < CARRIED or not all(count.values())):
        best = max(remaining, key=gain)
        remaining.remove(best)
        chosen.append(best)
        for name in best.volumes_ml:
            count[name] += 1
    return chosen


def _read_label_sources(
    folder: Path, maps: dict[str, EmbeddingMap], group: int
) -> tuple[LabelSource, ...]:
    """Read the labels of a group in the examples that have this group.

    Args:
        folder: folder of the segmenter.
        maps: name of each example -> its map.
        group: number of the group.
    """
    sources = []
    for name, embedding in maps.items():
        with safe_open(str(folder / _EXAMPLES / f"{name}.labels.safetensors"), "pt") as file:
            if f"{group}.labels" not in file.keys():  # noqa: SIM118 - not a dict
                continue
            labels, outlined, to_ras = (
                file.get_tensor(f"{group}.{part}") for part in ("labels", "known", "to_ras")
            )
        check_size(labels, (None, None, None, None), torch.uint8)
        check_size(outlined, (len(labels),), torch.bool)
        check_size(to_ras, (4, 4), torch.float64)
        shares = labels.half() / 255
        sources.append(LabelSource(embedding, shares, to_ras.numpy(), outlined))
    return tuple(sources)
