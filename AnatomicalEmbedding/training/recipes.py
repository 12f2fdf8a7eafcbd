"""Recipes: all settings of a training run. A recipe is read from a TOML file and stored with the weights."""

import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any

from ..embedding.models.network import NetworkSpec
from ..embedding.tensor_files import check_fields
from ..errors import AnatomicalEmbeddingError, did_you_mean
from ..resources import resource
from .loop import ALGORITHMS, OptimiserSpec


@dataclass(frozen=True)
class BatchSpec:
    """Crops of a batch. crop_sizes: each [i, j, k] voxels. height_bands: each [low, high, weight]; a crop is aimed at a
    body height from low to high mm, with a probability proportional to weight."""

    crop_sizes: list[list[int]]
    height_bands: list[list[float]]
    voxels_per_batch: int = 0
    phantom_share: float = 0.0  # share of crops from phantoms
    # share of crops from label images; all other crops are from real scans
    label_image_share: float = 0.0
    pairs: int = 0
    points_per_pair: int = 0
    # range of the overlap: share of a view's side
    overlap: list[float] = field(default_factory=lambda: [0.2, 1.0])
    # share of the pairs from phantoms whose views show two different phantoms
    cross_share: float = 0.0


@dataclass(frozen=True)
class AugmentationSpec:
    """Random changes of crops. A range is [low, high]; noise_level is in units of the network input, 0 to 1."""

    spacing_scale: list[float] = field(default_factory=lambda: [1.0, 1.0])
    spacing_mm_low: list[float] | None = None
    spacing_mm_high: list[float] | None = None
    axis_scale: list[float] = field(default_factory=lambda: [1.0, 1.0])
    rotation_rad: float = 0.0
    elastic_mm: float = 0.0
    elastic_probability: float = 0.0
    hu_remap_probability: float = 0.0
    window_probability: float = 0.0
    window_low: list[float] = field(default_factory=lambda: [-1000.0, -1000.0])
    window_high: list[float] = field(default_factory=lambda: [1300.0, 1300.0])
    filter_probability: float = 0.0
    noise_probability: float = 0.0
    noise_level: float = 0.0
    gamma_probability: float = 0.0
    gamma: list[float] = field(default_factory=lambda: [1.0, 1.0])
    block_probability: float = 0.0
    cut_probability: float = 0.0


@dataclass(frozen=True)
class LossSpec:
    """Settings of the losses. The contrastive loss (Yan 2022) uses the fields `temperature` to `candidates`."""

    beta_mm: float = 20.0
    frame_prior: float = 0.0
    equivariance: float = 1.0
    temperature: float = 0.5
    exclude_mm: float = 3.0
    negatives: int = 500
    random_negatives: int = 1000
    candidates: int = 20_000
    descriptor_weight: float = 1.0
    organ_weight: float = 0.0


@dataclass(frozen=True)
class Recipe:
    """All settings of a training run; each section of the file is one field."""

    name: str
    objective: str  # one of OBJECTIVES, or an objective of a paper
    network: NetworkSpec
    batch: BatchSpec
    augmentation: AugmentationSpec
    loss: LossSpec
    optimiser: OptimiserSpec

    def to_dict(self) -> dict:
        return asdict(self)


_SECTIONS = {
    "network": NetworkSpec,
    "batch": BatchSpec,
    "augmentation": AugmentationSpec,
    "loss": LossSpec,
    "optimiser": OptimiserSpec,
}

# Conditions for recipes: a test of the recipe, and the end of the error message for a recipe that fails the test.
_CONDITIONS: dict[str, tuple[Callable[[Recipe], bool], str]] = {
    "coordinates": (lambda recipe: recipe.network.coordinates, "needs network.coordinates"),
    "metric": (lambda recipe: recipe.network.unit_mm is not None, "needs network.unit_mm"),
    "body": (
        lambda recipe: recipe.network.frame in ("body", "film"),
        'needs network.frame = "body" or "film"',
    ),
    "scan": (lambda recipe: recipe.network.frame == "scan", 'needs network.frame = "scan"'),
    "described": (lambda recipe: recipe.network.local_channels > 0, "needs network.local_channels"),
    "paired": (
        lambda recipe: recipe.batch.pairs > 0 and recipe.batch.points_per_pair > 0,
        "needs batch.pairs and batch.points_per_pair",
    ),
    "upright": (
        lambda recipe: (
            recipe.augmentation.rotation_rad == 0 and recipe.augmentation.elastic_probability == 0
        ),
        "cannot rotate or bend crops; remove augmentation.rotation_rad and augmentation.elastic_probability",
    ),
}
Rules = Sequence[str]  # names of the conditions that a recipe must meet
OBJECTIVES: Mapping[str, Rules] = {
    "coordinates": ("coordinates", "metric", "body"),
    "hybrid": ("coordinates", "metric", "body", "described", "paired"),
}


def load_recipe(
    name_or_path: str | Path,
    overrides: dict[str, object] | None = None,
    objectives: Mapping[str, Rules] = OBJECTIVES,
) -> Recipe:
    """Read a recipe by name (a file of Resources/Recipes) or by path.

    Args:
        name_or_path: name or path.
        overrides: "section.key" -> value that replaces the entry of the recipe.
        objectives: name of each allowed objective -> names of the conditions that a recipe with this objective must
            meet.

    Raises AnatomicalEmbeddingError, which names the file and the first unknown or missing entry.
    """
    path = Path(name_or_path)
    if path.suffix != ".toml":
        path = resource("Recipes") / f"{name_or_path}.toml"
    if not path.is_file():
        names = ", ".join(sorted(p.stem for p in resource("Recipes").glob("*.toml")))
        raise AnatomicalEmbeddingError(
            f"{name_or_path}: no such recipe; give a .toml file or one of: {names}."
        )
    try:
        values = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise AnatomicalEmbeddingError(
            f"{path}: is not a valid recipe ({error}); correct the file."
        ) from None
    settings = []
    for section, kind in _SECTIONS.items():
        settings += [f"{section}.{setting.name}" for setting in fields(kind)]
    for key, value in (overrides or {}).items():
        section, _, entry = key.partition(".")
        if key not in settings:
            raise AnatomicalEmbeddingError(
                f"--set {key}: is no recipe setting{did_you_mean(key, settings)}; correct it."
            )
        values.setdefault(section, {})[entry] = value
    return recipe_from_dict(values, str(path), objectives)


def recipe_from_dict(
    values: dict, source: str, objectives: Mapping[str, Rules] = OBJECTIVES
) -> Recipe:
    """Build a Recipe from nested dicts, as read from TOML or from a weights file.

    Args:
        values: the entries.
        source: name of the file, for messages.
        objectives: as for `load_recipe`.

    Raises AnatomicalEmbeddingError if entries are unknown, missing or inconsistent.
    """
    unknown = values.keys() - _SECTIONS.keys() - {"name", "objective"}
    if unknown:
        raise AnatomicalEmbeddingError(f"{source}: the entry {min(unknown)} is unknown; remove it.")
    sections: dict[str, Any] = {}
    for section, kind in _SECTIONS.items():
        entries = values.get(section, {})
        if not isinstance(entries, dict):
            raise AnatomicalEmbeddingError(
                f"{source}: {section} is not a section; write [{section}] and its entries."
            )
        unknown = entries.keys() - {setting.name for setting in fields(kind)}
        if unknown:
            raise AnatomicalEmbeddingError(
                f"{source}: the entry {section}.{min(unknown)} is unknown; remove it."
            )
        try:
            if kind is NetworkSpec:
                sections[section] = NetworkSpec.from_dict({"unit_mm": None} | entries)
            else:
                check_fields(kind, entries)
                sections[section] = kind(**entries)
        except TypeError as error:
            raise AnatomicalEmbeddingError(
                f"{source}: section [{section}] is incomplete ({error}); add the missing entry."
            ) from None
        except ValueError as error:
            raise AnatomicalEmbeddingError(
                f"{source}: [{section}] has a wrong entry ({error}); correct it."
            ) from None
    name = values.get("name", Path(source).stem)
    objective = values.get("objective", "")
    if not isinstance(name, str) or not isinstance(objective, str):
        raise AnatomicalEmbeddingError(
            f"{source}: name or objective is not a text in quotes; write both in quotes."
        )
    recipe = Recipe(name, objective, **sections)
    if objective not in objectives:
        allowed = ", ".join(f'"{name}"' for name in objectives)
        raise AnatomicalEmbeddingError(f"{source}: objective must be one of {allowed}.")
    if recipe.optimiser.algorithm not in ALGORITHMS:
        raise AnatomicalEmbeddingError(f'{source}: optimiser.algorithm must be "adamw" or "radam".')
    for condition in objectives[objective]:
        fits, message = _CONDITIONS[condition]
        if not fits(recipe):
            raise AnatomicalEmbeddingError(f'{source}: objective "{objective}" {message}.')
    return recipe
