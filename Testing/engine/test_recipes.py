"""Test recipes: shipped recipes load, weights files keep them, and each mistake of a user is named."""

import json
import re
from pathlib import Path

import pytest
from training_scans import PAPERS, RULES

from AnatomicalEmbedding.errors import AnatomicalEmbeddingError
from AnatomicalEmbedding.resources import resource
from AnatomicalEmbedding.training.recipes import load_recipe, recipe_from_dict

SHIPPED = sorted(path.stem for path in resource("Recipes").glob("*.toml"))

MINE = """
name = "called"
objective = "coordinates"
[network]
unit_mm = 100.0
[batch]
crop_sizes = [[32, 32, 32]]
height_bands = [[0, 800, 1.0]]
[augmentation]
rotation_rad = 0.1
[loss]
beta_mm = 15.0
[optimiser]
learning_rate = 2e-3
weight_decay = 1e-2
epsilon = 1e-8
gradient_clip = 1.0
"""


def written(folder: Path, text: str) -> Path:
    path = folder / "mine.toml"
    path.write_text(text)
    return path


def recipe_of(name, changes=None):
    """One of ours or of a paper's, by name."""
    return PAPERS[name].load(changes) if name in PAPERS else load_recipe(name, changes)


def refused(source, match, changes=None):
    with pytest.raises(AnatomicalEmbeddingError, match=match):
        recipe_of(source, changes)


@pytest.mark.parametrize("name", [*SHIPPED, *PAPERS])
def test_shipped_recipe_loads_and_survives_a_weights_file(name):
    recipe = recipe_of(name)
    assert recipe.name == name
    stored = json.loads(json.dumps(recipe.to_dict()))
    assert recipe_from_dict(stored, "weights", RULES) == recipe


@pytest.mark.parametrize(
    ("name", "entry", "value", "match"),
    [
        (
            "sam-paper",
            "network.local_channels",
            0,
            'objective "descriptors" needs network.local_channels',
        ),
        ("hybrid", "network.coordinates", False, 'objective "hybrid" needs network.coordinates'),
        ("rpr-paper", "network.frame", "body", 'objective "offsets" needs network.frame = "scan"'),
        ("ape", "network.frame", "scan", 'objective "coordinates" needs network.frame = "body"'),
        ("sam-paper", "optimiser.algorithm", "sgd", 'algorithm must be "adamw" or "radam"'),
    ],
)
def test_entries_that_do_not_fit_the_objective_are_refused(name, entry, value, match):
    refused(name, match, {entry: value})


def test_recipe_of_a_user_is_read_by_path(tmp_path):
    path = written(tmp_path, MINE)
    recipe = load_recipe(path)
    assert recipe.name == "called"
    assert recipe.batch.crop_sizes == [[32, 32, 32]]
    assert recipe.loss.beta_mm == 15.0
    assert load_recipe(str(path)) == recipe


def test_an_override_of_no_entry_is_blamed_and_not_the_file():
    says = "--set optimiser.learning_rat: is no recipe setting (did you mean optimiser.learning_rate?); correct it."
    with pytest.raises(AnatomicalEmbeddingError, match=f"^{re.escape(says)}$"):
        load_recipe("ape", {"optimiser.learning_rat": 1})


def test_unknown_name_lists_the_known_ones():
    refused("sam", "sam: no such recipe; .*: ape, hybrid, hybrid-2d, joint")


@pytest.mark.parametrize("content", [b"name = ", b"\xff\xfe not text"])
def test_damaged_file_is_named(content, tmp_path):
    path = tmp_path / "bad.toml"
    path.write_bytes(content)
    refused(path, "bad.toml: is not a valid recipe")


@pytest.mark.parametrize(
    ("old", "new", "match"),
    [
        ("rotation_rad", "rotation_deg", "the entry augmentation.rotation_deg is unknown"),
        ("learning_rate = 2e-3", "", r"section \[optimiser\] is incomplete"),
        ('objective = "coordinates"', "", 'objective must be one of "coordinates", "hybrid"'),
    ],
)
def test_mistake_is_named(old, new, match, tmp_path):
    refused(written(tmp_path, MINE.replace(old, new)), f"mine.toml: .*{match}")
