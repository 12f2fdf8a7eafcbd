"""Small prepared scans whose HU and body coordinates are known functions of the RAS position; a small recipe."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch
from scan_files import true_hu, voxel_positions

from AnatomicalEmbedding.papers.ape.__main__ import RECIPES as APE
from AnatomicalEmbedding.papers.bpr_rpr.__main__ import RECIPES as BPR_RPR
from AnatomicalEmbedding.papers.sam.__main__ import RECIPES as SAM
from AnatomicalEmbedding.training import objectives
from AnatomicalEmbedding.training.frames import FrameGuess
from AnatomicalEmbedding.training.recipes import OBJECTIVES, Recipe, recipe_from_dict
from AnatomicalEmbedding.training.scans import PreparedScan

PAPERS = {**APE, **SAM, **BPR_RPR}  # by name of the recipe
# by name of the objective
LEARNT = objectives.OBJECTIVES | {of.name: of.objective for of in PAPERS.values()}
RULES = {**OBJECTIVES, **{of.name: of.rules for of in PAPERS.values()}}

# Whole HU at every voxel (see scan_files), so that storing them as int16 rounds nothing.
SPACING_MM = (2.0, 2.0, 3.0)
SHAPE = (40, 36, 44)
# voxels of air-free rim around the body: no interpolation with the air outside the scan
BODY_MARGIN = 4


def frame(
    scale=(1.0, 1.0, 1.0), shift_mm=(0.0, 0.0, 0.0), scale_sd=(0.0,) * 3, shift_sd_mm=(0.0,) * 3
) -> FrameGuess:
    """A frame guess from plain tuples."""
    return FrameGuess(*(np.array(v, dtype=float) for v in (scale, shift_mm, scale_sd, shift_sd_mm)))


def linear_scan(
    name: str = "linear",
    origin=(-40.0, -30.0, -200.0),
    guess: FrameGuess | None = None,
    made: str = "scan",
) -> PreparedScan:
    """A scan with the HU of `scan_files.true_hu` about its own origin; body everywhere but in a rim."""
    grid_to_ras = np.diag([*SPACING_MM, 1.0])
    grid_to_ras[:3, 3] = origin
    hu = true_hu(voxel_positions(SHAPE, grid_to_ras) - grid_to_ras[:3, 3]).astype(np.int16)
    body = np.zeros(SHAPE, dtype=bool)
    body[(slice(BODY_MARGIN, -BODY_MARGIN),) * 3] = True
    return PreparedScan(
        name,
        torch.from_numpy(hu),
        torch.from_numpy(body),
        grid_to_ras,
        guess or frame(),
        origin=made,
    )


def scan_hu(voxel_ijk: torch.Tensor) -> torch.Tensor:
    """HU of a linear scan at continuous voxels (..., 3)."""
    return torch.from_numpy(true_hu(voxel_ijk.double().numpy() * SPACING_MM)).float()


def tiny_recipe(objective: str = "coordinates", **changes: dict) -> Recipe:
    """A recipe that trains within seconds. changes: section -> entries to set."""
    values = {
        "name": "tiny",
        "objective": objective,
        "network": {
            "widths": [4, 4, 4, 4],
            "spacing_mm": list(SPACING_MM),
            "hu_knots": [-1000.0, 1000.0],
            "level_knots": [0.0, 1.0],
        },
        "batch": {"crop_sizes": [[24, 20, 16]], "height_bands": [[-1000, 1000, 1.0]]},
        "augmentation": {},
        "loss": {},
        "optimiser": {
            "learning_rate": 1e-2,
            "weight_decay": 1e-2,
            "epsilon": 1e-8,
            "gradient_clip": 1.0,
            "warm_up": 0.2,
        },
    }
    if objective in ("coordinates", "hybrid"):
        values["network"]["unit_mm"] = 100.0
        values["batch"]["voxels_per_batch"] = 2 * 24 * 20 * 16
        values["loss"]["frame_prior"] = 0.01
        values["optimiser"] |= {"frame_learning_rate": 1e-2, "ema": 0.9}
    if objective in ("offsets", "levels"):
        frame_name, unit_mm = {"offsets": ("scan", 700.0), "levels": ("scan", 100.0)}[objective]
        values["network"] |= {"unit_mm": unit_mm, "frame": frame_name}
        values["optimiser"]["gradient_clip"] = 1e9
    if objective == "levels":
        values["batch"]["voxels_per_batch"] = 8 * 24 * 20 * 16
    elif objective != "coordinates":
        values["batch"] |= {"pairs": 2, "points_per_pair": 40}
    if objective == "distances":
        values["network"]["normalise_output"] = True
    if objective == "descriptors":
        values["network"] |= {"coordinates": False, "global_channels": 6}
    if objective in ("descriptors", "hybrid"):
        values["network"]["local_channels"] = 8
        values["loss"] |= {
            "negatives": 24,
            "random_negatives": 16,
            "candidates": 60,
            "exclude_mm": 6.0,
        }
    for section, entries in changes.items():
        values[section] |= entries
    return recipe_from_dict(values, "tiny", RULES)


def make_sampler(scans: list[PreparedScan], recipe: Recipe, seed: int):
    """The batches of a recipe's objective."""
    return LEARNT[recipe.objective].sampler(scans, recipe, seed)


def with_field(scan: PreparedScan, to_body) -> PreparedScan:
    """The scan with a body field: to_body maps (..., 3) RAS to body mm."""
    field = np.moveaxis(to_body(scan.field_nodes_ras()), -1, 0).astype(np.float32)
    return replace(scan, body_field=torch.from_numpy(np.ascontiguousarray(field)))


def same(a, b):
    """Assert that two scans, or their frames, have equal values."""
    for name, value in vars(a).items():
        if isinstance(value, FrameGuess):
            same(value, getattr(b, name))
        else:
            np.testing.assert_array_equal(value, getattr(b, name))


def write_recipe(recipe: Recipe, folder: Path) -> Path:
    """Write a recipe as a file of a folder."""
    values = recipe.to_dict()
    lines = [
        f"name = {json.dumps(values.pop('name'))}",
        f"objective = {json.dumps(values.pop('objective'))}",
    ]
    for section, entries in values.items():
        lines.append(f"[{section}]")
        lines += [
            f"{key} = {json.dumps(value)}" for key, value in entries.items() if value is not None
        ]
    path = folder / "tiny.toml"
    path.write_text("\n".join(lines))
    return path
